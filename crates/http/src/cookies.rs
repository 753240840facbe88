//! Cookies of a request (RFC 6265 sections 4.2 and 5.4): names and values of `Cookie` fields.
//!
//! Called by: everything that reads cookies, mostly through [`HeadView::cookies`].
//! Caveat: quotes are part of a value and do not protect a semicolon, as in every browser. Names
//! are compared as written; a client may send a name more than once.
//! Out of scope: `Set-Cookie`.
//!
//! [`HeadView::cookies`]: crate::HeadView::cookies

/// One cookie of a `Cookie` field, without surrounding white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie<'a> {
    /// Name and value as written.
    pub text: &'a [u8],
    pub name: &'a [u8],
    /// `None`: there is no `=`.
    pub value: Option<&'a [u8]>,
}

impl<'a> Cookie<'a> {
    fn new(text: &'a [u8]) -> Cookie<'a> {
        match memchr::memchr(b'=', text) {
            Some(at) => Cookie {
                text,
                name: text[..at].trim_ascii_end(),
                value: Some(text[at + 1..].trim_ascii_start()),
            },
            None => Cookie {
                text,
                name: text,
                value: None,
            },
        }
    }
}

/// Iterates over the cookies of all given field lines, in order. Empty pieces are skipped; empty
/// names are not.
pub fn cookies<'a>(lines: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = Cookie<'a>> {
    of_pieces(lines.flat_map(|line| line.split(|byte| *byte == b';')))
}

/// Like [`cookies`], for readers that separate by `,` as well (RFC 2965 section 3.3.4), such as
/// mod_usertrack.
pub fn cookies_with_commas<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
) -> impl Iterator<Item = Cookie<'a>> {
    of_pieces(lines.flat_map(|line| line.split(|byte| matches!(byte, b';' | b','))))
}

fn of_pieces<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = Cookie<'a>> {
    pieces
        .map(<[u8]>::trim_ascii)
        .filter(|text| !text.is_empty())
        .map(Cookie::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(lines: &[&'static str]) -> Vec<(&'static str, Option<&'static str>)> {
        let text = |bytes: &'static [u8]| std::str::from_utf8(bytes).unwrap();
        cookies(lines.iter().map(|line| line.as_bytes()))
            .map(|cookie| (text(cookie.name), cookie.value.map(text)))
            .collect()
    }

    #[test]
    fn pieces_are_separated_by_semicolons_with_or_without_space() {
        let expected = [("a", Some("1")), ("b", Some("2")), ("c", Some("3"))];
        for line in ["a=1; b=2; c=3", "a=1;b=2;c=3", " a = 1 ;; b\t=2;\tc= 3; "] {
            assert_eq!(pairs(&[line]), expected, "{line}");
        }
        assert_eq!(pairs(&["", ";", " ; "]), []);
    }

    #[test]
    fn quotes_belong_to_the_value_and_protect_nothing() {
        assert_eq!(
            pairs(&["a=\"1, 2\"; b=\"3;4\""]),
            [("a", Some("\"1, 2\"")), ("b", Some("\"3")), ("4\"", None)]
        );
    }

    #[test]
    fn names_and_values_may_be_empty() {
        assert_eq!(
            pairs(&["=1; a=; b; c=d=e"]),
            [
                ("", Some("1")),
                ("a", Some("")),
                ("b", None),
                ("c", Some("d=e"))
            ]
        );
    }

    #[test]
    fn several_fields_are_one_list() {
        assert_eq!(
            pairs(&["a=1", "b=2; a=3"]),
            [("a", Some("1")), ("b", Some("2")), ("a", Some("3"))]
        );
    }

    #[test]
    fn commas_separate_where_they_are_asked_for() {
        let line = b"a=1, b=2;c=3,d";
        let names = |cookies: &mut dyn Iterator<Item = Cookie<'static>>| -> Vec<&[u8]> {
            cookies.map(|cookie| cookie.name).collect()
        };
        assert_eq!(
            names(&mut cookies_with_commas([&line[..]].into_iter())),
            [b"a", b"b", b"c", b"d"]
        );
        assert_eq!(names(&mut cookies([&line[..]].into_iter())), [b"a", b"c"]);
    }

    #[test]
    fn the_text_is_kept_as_written() {
        let texts: Vec<&[u8]> = cookies([&b" a = 1 ;b"[..]].into_iter())
            .map(|cookie| cookie.text)
            .collect();
        assert_eq!(texts, [&b"a = 1"[..], b"b"]);
    }
}
