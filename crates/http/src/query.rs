//! Parameters of a query: `name=value` separated by `&`, as in HTML forms.
//!
//! Called by: everything that reads a query by name.
//! Caveat: names and values come as written; callers that want `+` and `%XX` decoded use
//! [`form_decoded`] (URL standard, application/x-www-form-urlencoded).
//! Out of scope: the query as part of a target, see [`crate::target`].

use crate::field_name::is_alike;
use std::borrow::Cow;

/// One parameter of a query, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// Name and value.
    pub text: &'a [u8],
    pub name: &'a [u8],
    /// `None`: there is no `=`.
    pub value: Option<&'a [u8]>,
}

impl<'a> Parameter<'a> {
    /// Splits a single `name=value`.
    pub fn new(text: &'a [u8]) -> Parameter<'a> {
        match memchr::memchr(b'=', text) {
            Some(at) => Parameter {
                text,
                name: &text[..at],
                value: Some(&text[at + 1..]),
            },
            None => Parameter {
                text,
                name: text,
                value: None,
            },
        }
    }
}

/// Iterates over the parameters of a query without its `?`. Empty pieces (`a&&b`) are included, so
/// that joining all texts with `&` results in the query.
pub fn parameters(query: &[u8]) -> impl Iterator<Item = Parameter<'_>> {
    query.split(|byte| *byte == b'&').map(Parameter::new)
}

/// Like [`parameters`], for queries that separate by `;` as well, such as those of index pages.
pub fn parameters_with_semicolons(query: &[u8]) -> impl Iterator<Item = Parameter<'_>> {
    query
        .split(|byte| matches!(byte, b'&' | b';'))
        .map(Parameter::new)
}

/// Returns the value of the first parameter that has this name and a value, as written.
pub fn value<'a>(query: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    parameters(query)
        .filter(|parameter| parameter.name == name)
        .find_map(|parameter| parameter.value)
}

/// Decodes `+` to a space and `%XX` to its byte. An invalid escape stays as it is.
pub fn form_decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'+', b'%', text).is_none() {
        return Cow::Borrowed(text);
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'+', _) => decoded.push(b' '),
            (b'%', [high, low, after @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => {
                    decoded.push((high * 16 + low) as u8);
                    rest = after;
                }
                _ => decoded.push(b'%'),
            },
            (byte, _) => decoded.push(*byte),
        }
    }
    Cow::Owned(decoded)
}

/// Returns true if a program may know a cookie or parameter by this name: PHP decodes names, ends
/// them at a NUL and in front of a bracket, ignores spaces in front, and reads dots and spaces as
/// `_`. Others ignore spaces behind a name, or its case.
pub fn is_read_as(sent: &[u8], name: &[u8]) -> bool {
    any_reading(sent, |read| is_alike(read, name))
}

/// Like [`is_read_as`] for programs to which case and hyphens matter, such as PHP. Most other names
/// are told by their first byte.
#[inline]
pub fn is_spelling_of(sent: &[u8], name: &[u8]) -> bool {
    sent == name || may_begin(sent, name) && any_reading(sent, |read| is_same_in_php(read, name))
}

/// Returns true if a program may know a cookie or parameter by a name that begins so. Case matters.
pub fn is_spelling_from(sent: &[u8], start: &[u8]) -> bool {
    let begins = |read: &[u8]| {
        read.get(..start.len())
            .is_some_and(|read| is_same_in_php(read, start))
    };
    sent.starts_with(start) || may_begin(sent, start) && any_reading(sent, begins)
}

/// Calls `test` for what programs may read a name as, until it holds.
fn any_reading(sent: &[u8], test: impl Fn(&[u8]) -> bool) -> bool {
    let decoded = form_decoded(sent);
    let decoded = decoded.split(|byte| *byte == 0).next().unwrap_or_default();
    let decoded = decoded.trim_ascii_start();
    let array = decoded
        .split(|byte| *byte == b'[')
        .next()
        .unwrap_or_default();
    test(decoded) || test(array) || test(decoded.trim_ascii_end()) || test(array.trim_ascii_end())
}

/// False if no reading of `sent` begins as the name does.
#[inline]
fn may_begin(sent: &[u8], name: &[u8]) -> bool {
    match (sent.first(), name.first()) {
        (Some(b'%' | b'+' | b' ' | b'\t'), _) | (_, None) => true,
        (Some(sent), Some(name)) => in_php(*sent) == in_php(*name),
        (None, Some(_)) => false,
    }
}

fn is_same_in_php(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|(one, other)| in_php(*one) == in_php(*other))
}

/// A byte of a name as PHP's variables show it.
#[inline]
fn in_php(byte: u8) -> u8 {
    match byte {
        b' ' | b'.' | b'[' => b'_',
        byte => byte,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(query: &'static str) -> Vec<(&'static str, Option<&'static str>)> {
        let text = |bytes: &'static [u8]| std::str::from_utf8(bytes).unwrap();
        parameters(query.as_bytes())
            .map(|parameter| (text(parameter.name), parameter.value.map(text)))
            .collect()
    }

    #[test]
    fn parameters_come_as_written() {
        assert_eq!(
            pairs("a=1&b=%26+c&d=e=f&g;h=2"),
            [
                ("a", Some("1")),
                ("b", Some("%26+c")),
                ("d", Some("e=f")),
                ("g;h", Some("2"))
            ]
        );
    }

    #[test]
    fn names_values_and_pieces_may_be_empty() {
        assert_eq!(
            pairs("=1&a=&b&&c"),
            [
                ("", Some("1")),
                ("a", Some("")),
                ("b", None),
                ("", None),
                ("c", None)
            ]
        );
        for query in ["", "&", "a&&b", "=1&a=&b&&c&"] {
            let texts: Vec<&[u8]> = parameters(query.as_bytes())
                .map(|parameter| parameter.text)
                .collect();
            assert_eq!(texts.join(&b'&'), query.as_bytes());
        }
    }

    #[test]
    fn the_first_value_of_a_name_is_found() {
        assert_eq!(value(b"a&ab=0&a=1&a=2", b"a"), Some(&b"1"[..]));
        assert_eq!(value(b"a&ab=0", b"a"), None);
        assert_eq!(value(b"%61=1", b"a"), None, "names are not decoded");
    }

    #[test]
    fn semicolons_separate_on_request() {
        let names: Vec<&[u8]> = parameters_with_semicolons(b"C=N;O=D&F=1")
            .map(|parameter| parameter.name)
            .collect();
        assert_eq!(names, [b"C", b"O", b"F"]);
    }

    #[test]
    fn names_in_the_spellings_that_programs_read() {
        for sent in [
            "user_id",
            "user.id",
            "user id",
            "user+id",
            "user%5fid",
            "%75ser_id",
            "+user_id",
            " user_id",
            "user_id ",
            "user_id[]",
            "user.id[a][b]",
            "user[id",
            "user_id%00x",
        ] {
            assert!(is_read_as(sent.as_bytes(), b"user_id"), "{sent}");
            assert!(is_spelling_of(sent.as_bytes(), b"user_id"), "{sent}");
            assert!(is_spelling_from(sent.as_bytes(), b"user_i"), "{sent}");
        }
        assert!(is_read_as(b"User-Id", b"user_id"));
        for sent in [
            "", "user", "User_Id", "user-id", "xuser_id", "user_ids", "_",
        ] {
            assert!(!is_spelling_of(sent.as_bytes(), b"user_id"), "{sent}");
        }
        assert!(is_spelling_of(b"a_b", b"a.b") && is_spelling_of(b"a+b", b"a b"));
        assert!(is_spelling_from(b"user_idx", b"user_id") && is_spelling_from(b"a", b""));
        assert!(!is_spelling_from(b"user", b"user_"));
    }

    #[test]
    fn forms_are_decoded() {
        for (text, decoded) in [
            ("a", "a"),
            ("a+b%20c", "a b c"),
            ("%2b%2B%26%3d", "++&="),
            ("%", "%"),
            ("%4", "%4"),
            ("%zz%4x%+", "%zz%4x% "),
            ("%%41", "%A"),
        ] {
            assert_eq!(
                &*form_decoded(text.as_bytes()),
                decoded.as_bytes(),
                "{text}"
            );
        }
    }
}
