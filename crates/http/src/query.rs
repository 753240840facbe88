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
/// `_`.
pub fn is_read_as(sent: &[u8], name: &[u8]) -> bool {
    let decoded = form_decoded(sent);
    let decoded = decoded.split(|byte| *byte == 0).next().unwrap_or_default();
    let decoded = decoded.trim_ascii_start();
    let array = decoded
        .split(|byte| *byte == b'[')
        .next()
        .unwrap_or_default();
    is_alike(decoded, name) || is_alike(array, name)
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
