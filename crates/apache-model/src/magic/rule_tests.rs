use super::*;

fn described(rules: &str, content: &[u8]) -> Option<String> {
    let (rules, complaints) = Rules::parse(rules.as_bytes());
    assert!(complaints.is_empty(), "{complaints:?}");
    let mut content = content.to_vec();
    content.resize(200, b' ');
    rules
        .describe(&content)
        .map(|text| String::from_utf8(text).unwrap())
}

#[test]
fn texts_and_numbers() {
    for (rule, content, expected) in [
        ("0 string GIF8 image/gif", &b"GIF89a"[..], true),
        ("0 string GIF8 image/gif", b"GIF79a", false),
        ("2 string \\x41\\102C\\ D a/b", b"..ABC D", true),
        ("0 string >M a/b", b"Nx", true),
        ("0 string >M a/b", b"Lx", false),
        ("0 string a\\nb a/b", b"a\nb", false),
        ("0 string !a a/b", b"!a", true),
        ("0 beshort 0xffd8 image/jpeg", b"\xff\xd8\xff", true),
        ("0 leshort 0xd8ff image/jpeg", b"\xff\xd8\xff", true),
        ("0 short 0xd8ff image/jpeg", b"\xff\xd8\xff", true),
        ("0 byte <0 a/b", b"\x80", true),
        ("0 ubyte <0 a/b", b"\x80", false),
        ("0 ubyte >0x7f a/b", b"\x80", true),
        ("0 byte &0x80 a/b", b"\x81", true),
        ("0 byte ^0x80 a/b", b"\x81", false),
        ("0 byte&0x0f =1 a/b", b"\x81", true),
        ("0 byte !65 a/b", b"A", false),
        ("0 byte x a/b", b"A", true),
        ("0 belong 0x7fbead01 a/b", b"\x7f\xbe\xad\x01", true),
        // Widened with its sign, and the rule's is not.
        ("0 belong 0xcafebabe a/b", b"\xca\xfe\xba\xbe", false),
        ("0 belong -889275714 a/b", b"\xca\xfe\xba\xbe", true),
        ("010 byte 65 a/b", b"........A", true),
    ] {
        assert_eq!(described(rule, content).is_some(), expected, "{rule}");
    }
}

#[test]
fn continuations() {
    let rules =
        "0 string A a\n>1 string B b\n>>2 string C c\n>1 string x \\bd\n>3 string E \n0 string F f";
    for (content, expected) in [("ABC", "a b cd"), ("AxC", "ad"), ("AB", "a bd"), ("F", "f")] {
        assert_eq!(
            described(rules, content.as_bytes()).as_deref(),
            Some(expected),
            "{content}"
        );
    }
    assert_eq!(
        described("0 string Z z\n>1 string B b\n0 string AB ab", b"AB").as_deref(),
        Some("ab")
    );
}

#[test]
fn offsets_that_stand_in_the_file() {
    let content = [&b"P\x03\x00..QR"[..], &[b' '; 80]].concat();
    assert_eq!(
        described("0 string P p\n>(1.s+3) string R r", &content).as_deref(),
        Some("p r")
    );
    assert_eq!(
        described("0 string P p\n>(1.b+2) byte 81 q%c", &content).as_deref(),
        Some("p qQ")
    );
    assert_eq!(
        described("0 string P p\n>(1) byte 81 q", &content).as_deref(),
        Some("p")
    );
}

#[test]
fn values_in_descriptions() {
    assert_eq!(
        described("0 string >\\0 name/%s!", b"abc\nd").as_deref(),
        Some("name/abc!")
    );
    assert_eq!(
        described("0 byte >0 v%d/%x %%", b"\x41").as_deref(),
        Some("v65/41 %")
    );
}

#[test]
fn broken_lines_match_nothing() {
    let (rules, complaints) = Rules::parse(b"# remark\n\n0 strange x a/b\n>0 byte x c/d\nnothing\n>(4 byte x a\n0 string\n0 byte 1 e/f");
    let lines: Vec<usize> = complaints.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [3, 5, 6]);
    // A rule for an empty text matches all there is.
    assert_eq!(rules.describe(&[1; 100]), Some(Vec::new()));
    assert_eq!(rules.describe(&[1; 10]), None);
}

#[test]
fn no_line_and_no_content_do_harm() {
    let line = b">>(0x12.s-3)&u0xf string&7 \\x9\\777\\ a\\b%d%s%";
    for from in 0..line.len() {
        for to in from..line.len() {
            let rules = Rules::parse(&line[from..to]).0;
            rules.describe(&[b'0'; 70]);
            rules.describe(b"");
        }
    }
}
