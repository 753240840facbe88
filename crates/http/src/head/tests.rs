use super::*;

#[test]
fn every_known_field_is_classified_in_any_case() {
    for (text, known) in KNOWN {
        assert_eq!(KnownField::classify(text.as_bytes()), Some(*known), "{text}");
        assert_eq!(KnownField::classify(text.to_ascii_uppercase().as_bytes()), Some(*known), "{text}");
        assert_eq!(known.name(), *text);
    }
}

#[test]
fn neighbours_of_known_fields_are_not_known() {
    for (text, _) in KNOWN {
        let bytes = text.as_bytes();
        let longer = [bytes, b"x"].concat();
        for other in [&longer[..], &bytes[1..], &bytes[..bytes.len() - 1]] {
            assert_eq!(KnownField::classify(other), None, "{other:?}");
        }
        // The bit that folds case also maps other bytes on letters and hyphens: a carriage return on a hyphen.
        for at in 0..bytes.len() {
            let mut other = bytes.to_vec();
            other[at] = if bytes[at] == b'-' { b'\r' } else { b'.' };
            assert_eq!(KnownField::classify(&other), None, "{other:?}");
        }
    }
    for name in [&b""[..], b"accept", b"cookie2", b"x", b"sec-fetch-mode", b"content-lengtH "] {
        assert_eq!(KnownField::classify(name), None);
    }
}

#[test]
fn a_view_finds_first_all_and_counts() {
    let fields = [("Host", "a"), ("If-Match", "\"1\""), ("X-One", "1"), ("if-match", "\"2\""), ("x-one", "2")];
    let head = RequestHead::build("GET", "/p", Version::Http11, &fields);
    let view = head.view();
    assert_eq!((view.method(), view.method_token(), view.target()), (Method::Get, &b"GET"[..], &b"/p"[..]));
    assert_eq!(view.known(KnownField::Host), Some(&b"a"[..]));
    assert_eq!(view.known(KnownField::IfMatch), Some(&b"\"1\""[..]));
    assert_eq!((view.known_count(KnownField::IfMatch), view.known_count(KnownField::Range)), (2, 0));
    assert_eq!(view.all("X-ONE").collect::<Vec<_>>(), [b"1", b"2"]);
    assert_eq!(view.lines(KnownField::IfMatch).collect::<Vec<_>>(), [b"\"1\"", b"\"2\""]);
    assert_eq!(view.lines(KnownField::Range).count(), 0);
    assert_eq!(view.first("none"), None);
}

#[test]
fn a_cleared_index_knows_nothing() {
    let mut index = HeadIndex::default();
    index.push(b"host", FieldSpan { name: Span { start: 0, len: 4 }, value: Span::default() });
    assert!(index.has(KnownField::Host) && index.field_count() == 1);
    index.clear();
    assert!(!index.has(KnownField::Host) && index.field_count() == 0);
}
