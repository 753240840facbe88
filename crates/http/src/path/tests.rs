use super::*;
use crate::escape::uri_path;
use PathError::{AboveRoot, BadEscape, EncodedSlash, NotAbsolute, Nul};
use proptest::prelude::*;

fn normal(raw: &[u8]) -> Result<Vec<u8>, PathError> {
    let mut out = b"left over".to_vec();
    normalize(raw, &mut out).map(|()| out)
}

#[test]
fn normalized() {
    let cases: [(&[u8], &[u8]); 42] = [
        (b"/", b"/"),
        (b"/a", b"/a"),
        (b"/a/b.html", b"/a/b.html"),
        (b"/a/", b"/a/"),
        (b"//", b"/"),
        (b"//a", b"/a"),
        (b"/a//b///", b"/a/b/"),
        (b"/.", b"/"),
        (b"/./", b"/"),
        (b"/a/.", b"/a/"),
        (b"/./a", b"/a"),
        (b"/a/./b", b"/a/b"),
        (b"/a/..", b"/"),
        (b"/a/../", b"/"),
        (b"/a/b/..", b"/a/"),
        (b"/a/b/../c", b"/a/c"),
        (b"/a/b/../../c", b"/c"),
        (b"/a//../b", b"/b"),
        (b"/a/b//..//c", b"/a/c"),
        (b"/...", b"/..."),
        (b"/..a", b"/..a"),
        (b"/a..", b"/a.."),
        (b"/a/.b/..c/d.", b"/a/.b/..c/d."),
        (b"/.well-known/x", b"/.well-known/x"),
        (b"/%61%5A", b"/aZ"),
        (b"/a%20b", b"/a b"),
        (b"/a/%2e", b"/a/"),
        (b"/a/%2E%2e", b"/"),
        (b"/a/.%2e/b", b"/b"),
        (b"/a/%2e./b", b"/b"),
        (b"/%2e%2e%2e", b"/..."),
        // Decoded once only.
        (b"/%252e%252e/a", b"/%2e%2e/a"),
        (b"/%252f", b"/%2f"),
        (b"/%2500", b"/%00"),
        // The backslash is a byte like others.
        (b"/a\\..\\b", b"/a\\..\\b"),
        (b"/..%5c..", b"/..\\.."),
        // Overlong UTF-8 is not a dot or a slash.
        (b"/%c0%ae%c0%ae/a", b"/\xc0\xae\xc0\xae/a"),
        (b"/a%c0%afb", b"/a\xc0\xafb"),
        (b"/\xff%ff", b"/\xff\xff"),
        (b"/a%3fb%23c", b"/a?b#c"),
        (b"/a%0d%0ab", b"/a\r\nb"),
        (b"/a+b", b"/a+b"),
    ];
    for (raw, want) in cases {
        assert_eq!(
            normal(raw).as_deref(),
            Ok(want),
            "{}",
            String::from_utf8_lossy(raw)
        );
    }
}

#[test]
fn refused() {
    let cases: [(&[u8], PathError); 22] = [
        (b"", NotAbsolute),
        (b"a", NotAbsolute),
        (b"%2fa", NotAbsolute),
        (b"../a", NotAbsolute),
        (b"/%", BadEscape),
        (b"/%4", BadEscape),
        (b"/%4/a", BadEscape),
        (b"/%zz", BadEscape),
        (b"/%+1", BadEscape),
        (b"/%u002e", BadEscape),
        (b"/a%00", Nul),
        (b"/a\0b", Nul),
        (b"/a%2fb", EncodedSlash),
        (b"/..%2F..%2Fetc", EncodedSlash),
        (b"/..", AboveRoot),
        (b"/../a", AboveRoot),
        (b"//..", AboveRoot),
        (b"/a/../..", AboveRoot),
        (b"/a/../../a", AboveRoot),
        (b"/%2e%2e/a", AboveRoot),
        (b"/.%2E/", AboveRoot),
        (b"/a/./../../b", AboveRoot),
    ];
    for (raw, want) in cases {
        assert_eq!(normal(raw), Err(want), "{}", String::from_utf8_lossy(raw));
    }
}

/// True if the path satisfies the rules that guard the root.
fn is_safe(path: &[u8]) -> bool {
    let mut segments: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let leading = segments.remove(0);
    segments.pop_if(|last| last.is_empty());
    leading.is_empty()
        && path.first() == Some(&b'/')
        && segments
            .iter()
            .all(|segment| !matches!(*segment, b"" | b"." | b".."))
}

#[test]
fn raw_prefixes() {
    for (raw, prefix, expected) in [
        ("/api/a%2Fb", "/api/", Some("a%2Fb")),
        ("/%61pi/x", "/api/", Some("x")),
        ("//api///x", "/api/", Some("x")),
        ("/api", "/api", Some("")),
        ("/api//x", "/api", Some("//x")),
        ("/api%2Fx", "/api/", None),
        ("/api%2Fx", "/api", Some("%2Fx")),
        ("/ap", "/api", None),
        ("/./api/x", "/api/", None),
        ("/ap%", "/api", None),
        ("/100%25/x", "/100%/", Some("x")),
        ("/x", "", Some("/x")),
    ] {
        let rest = strip_raw_prefix(raw.as_bytes(), prefix.as_bytes());
        assert_eq!(rest, expected.map(str::as_bytes), "{raw} {prefix}");
    }
}

#[test]
fn dot_segments_in_every_spelling() {
    for (raw, expected) in [
        ("/a/b", false),
        ("/a.b/..c/...", false),
        ("/a/./b", true),
        ("/a/..", true),
        ("/a/%2e%2E/b", true),
        ("/a%2F..%2fb", true),
        ("/a%2f.", true),
        ("/a%2fb%2f...", false),
        ("/%252e%252e/", false),
        ("/a%2Fb%00", true),
        ("/a%2Fb%", true),
    ] {
        assert_eq!(has_dot_segments(raw.as_bytes()), expected, "{raw}");
        assert_eq!(may_have_dot_segments(raw.as_bytes()), expected, "{raw}");
    }
    for raw in ["/..;/x", "/a/.;b", "/a/%2e.;b/c", "/..%3Bx/", "/a%2F..;x"] {
        assert!(may_have_dot_segments(raw.as_bytes()), "{raw}");
    }
    for raw in ["/a..;/x", "/a;../b", "/...;x"] {
        assert!(!may_have_dot_segments(raw.as_bytes()), "{raw}");
    }
}

proptest! {
    #[test]
    fn nothing_escapes_the_root(raw in "(/|\\.|%2e|%2E|%2f|%5c|\\\\|%25|2e|%c0%ae|%00|a|;|\\?){0,20}") {
        if let Ok(path) = normal(format!("/{raw}").as_bytes()) {
            prop_assert!(is_safe(&path), "{:?}", path);
            prop_assert!(!path.contains(&0));
        }
    }

    #[test]
    fn written_and_read_again_it_is_the_same(raw: Vec<u8>) {
        if let Ok(path) = normal(&[b"/", &raw[..]].concat()) {
            prop_assert!(is_safe(&path));
            let mut written = Vec::new();
            uri_path(&path, &mut written);
            prop_assert_eq!(normal(&written), Ok(path));
        }
    }

    #[test]
    fn a_trailing_slash_stays(raw in "/[a./]{0,10}") {
        if let Ok(path) = normal(raw.as_bytes()) {
            let directory = ["/", "/.", "/.."].iter().any(|end| raw.ends_with(end));
            prop_assert_eq!(path.ends_with(b"/"), directory);
        }
    }
}

#[test]
fn other_rules_for_slashes() {
    let rules = |encoded, merge| Slashes { encoded, merge };
    let normal = |raw: &str, rules| {
        let mut out = b"left over".to_vec();
        normalize_with(raw.as_bytes(), rules, &mut out).map(|()| String::from_utf8(out).unwrap())
    };
    use EncodedSlashes::{Decode, DecodeAfterDots, Keep, Refuse};
    let rows = [
        ("/a%2Fb", Refuse, true, Err(EncodedSlash)),
        ("/a%2Fb", Decode, true, Ok("/a/b")),
        ("/a%2F%2fb", Decode, true, Ok("/a/b")),
        ("/a%2F%2fb", Decode, false, Ok("/a//b")),
        ("/a/%2e%2e%2fb", Decode, true, Ok("/b")),
        ("/%2e%2e%2fb", Decode, true, Err(AboveRoot)),
        // nginx decodes first, Apache removes dot segments first.
        ("/a%2Fb/../c", Decode, true, Ok("/a/c")),
        ("/a%2Fb/../c", DecodeAfterDots, true, Ok("/c")),
        ("/a%2fb/%2e%2E/c", DecodeAfterDots, true, Ok("/c")),
        ("/a%2Fb", DecodeAfterDots, true, Ok("/a/b")),
        ("/a/x%2F..%2fb", DecodeAfterDots, true, Ok("/a/b")),
        ("/a%2F%2fb/", DecodeAfterDots, true, Ok("/a/b/")),
        ("/a%2F%2fb", DecodeAfterDots, false, Ok("/a//b")),
        ("/a/%2e%2e%2fb", DecodeAfterDots, true, Ok("/b")),
        ("/a%2Fb/../../c", DecodeAfterDots, true, Err(AboveRoot)),
        ("/%2e%2e%2fb", DecodeAfterDots, true, Err(AboveRoot)),
        ("/a%00", DecodeAfterDots, true, Err(Nul)),
        ("/a%2Fb%2fc", Keep, true, Ok("/a%2Fb%2fc")),
        ("/a%252Fb", Keep, true, Ok("/a%2Fb")),
        ("//a//b/", Refuse, false, Ok("//a//b/")),
        ("//a/../b", Refuse, false, Ok("//b")),
        ("/a//../b", Refuse, false, Ok("/a/b")),
        ("//", Refuse, false, Ok("//")),
        ("/..", Refuse, false, Err(AboveRoot)),
        ("/a/./b/.", Refuse, false, Ok("/a/b/")),
        ("/a%00", Keep, false, Err(Nul)),
        ("/a%zz", Decode, false, Err(BadEscape)),
        ("a", Decode, false, Err(NotAbsolute)),
    ];
    for (raw, encoded, merge, expected) in rows {
        assert_eq!(
            normal(raw, rules(encoded, merge)),
            expected.map(str::to_owned),
            "{raw} {encoded:?} {merge}"
        );
    }
}

proptest! {
    /// However slashes are read, nothing climbs.
    #[test]
    fn no_rule_lets_a_path_climb(raw in "/[a./%2Fef]{0,24}", encoded in 0..4_usize, merge: bool) {
        use EncodedSlashes::{Decode, DecodeAfterDots, Keep, Refuse};
        let encoded = [Refuse, Decode, DecodeAfterDots, Keep][encoded];
        let mut out = Vec::new();
        if normalize_with(raw.as_bytes(), Slashes { encoded, merge }, &mut out).is_ok() {
            prop_assert!(out.starts_with(b"/") && !out.contains(&0));
            prop_assert!(out.split(|byte| *byte == b'/').all(|segment| segment != b".." && segment != b"."));
        }
    }
}
