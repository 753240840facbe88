//! Query parameters and cookies: their names and values, and edits of them.
//!
//! Called by: tests, variables, and edits of requests.
//! Caveat: parameters are decoded once (`+` is a space), so that every spelling is the same value.
//! Cookies have no escapes. Edits take along what some program knows by the edited name.
//! Out of scope: parameters in content.

use saker_http::query::is_read_as;
use std::borrow::Cow;

/// Returns the decoded names and values of a query, in its order.
pub fn parameters(query: &[u8]) -> impl Iterator<Item = (Cow<'_, [u8]>, Cow<'_, [u8]>)> {
    raw_parameters(query).map(|(name, value)| (decoded(name), decoded(value.unwrap_or_default())))
}

pub(crate) fn raw_parameters(query: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    query
        .split(|byte| *byte == b'&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| match pair.iter().position(|byte| *byte == b'=') {
            Some(at) => (&pair[..at], pair.get(at + 1..)),
            None => (pair, None),
        })
}

/// Percent-decoding; a percent sign without two digits stands for itself.
pub(crate) fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let digit = |at: usize| {
        text.get(at)
            .and_then(|byte| char::from(*byte).to_digit(16))
            .map(|digit| digit as u8)
    };
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(byte) = text.get(at) {
        at += 1;
        match (byte, digit(at), digit(at + 1)) {
            (b'%', Some(high), Some(low)) => {
                out.push(high << 4 | low);
                at += 2;
            }
            (b'+', ..) => out.push(b' '),
            (byte, ..) => out.push(*byte),
        }
    }
    Cow::Owned(out)
}

/// Returns the names and values of a Cookie field (RFC 6265 section 4.2.1).
pub fn cookies(field: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    field.split(|byte| *byte == b';').filter_map(|pair| {
        let pair = pair.trim_ascii();
        let at = pair.iter().position(|byte| *byte == b'=')?;
        Some((&pair[..at], &pair[at + 1..]))
    })
}

/// An edit of a query parameter, by its decoded name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParameterEdit {
    /// Replaces all parameters of this name; the text is encoded.
    Set(Vec<u8>),
    Remove,
}

/// Returns the query with edits applied. Everything else stays as it is, byte for byte. `None`:
/// nothing is left of it.
pub fn edit_parameters(
    query: Option<&[u8]>,
    edits: &[(Box<str>, ParameterEdit)],
) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(query.map_or(0, <[u8]>::len) + 16);
    let is_edited = |name: &[u8]| {
        edits
            .iter()
            .any(|(edited, _)| is_read_as(name, edited.as_bytes()))
    };
    let pairs = query.unwrap_or_default().split(|byte| *byte == b'&');
    for pair in pairs.filter(|pair| !pair.is_empty()) {
        let Some(kept) = without_edited(pair, b';', is_edited) else {
            continue;
        };
        separate(&mut out);
        out.extend_from_slice(&kept);
    }
    for (name, edit) in edits {
        let ParameterEdit::Set(value) = edit else {
            continue;
        };
        separate(&mut out);
        crate::sink::encode_component(name.as_bytes(), &mut out);
        out.push(b'=');
        out.extend_from_slice(value);
    }
    (!out.is_empty()).then_some(out)
}

/// Returns what an edit leaves of a parameter or cookie. `separator`: some programs begin another one
/// behind this byte, so such a part goes alone. `None`: all of it goes.
pub fn without_edited(
    pair: &[u8],
    separator: u8,
    is_edited: impl Fn(&[u8]) -> bool,
) -> Option<Cow<'_, [u8]>> {
    let name_end = |part: &[u8]| {
        let end = part.iter().position(|byte| *byte == b'=');
        end.unwrap_or(part.len())
    };
    if is_edited(&pair[..name_end(pair)]) {
        return None;
    }
    if !pair.contains(&separator) {
        return Some(Cow::Borrowed(pair));
    }
    let (mut kept, mut goes) = (Vec::with_capacity(pair.len()), false);
    for (at, part) in pair.split(|byte| *byte == separator).enumerate() {
        let name = &part[..name_end(part)];
        // A part without a name of its own belongs to the value before it.
        if at > 0 && (is_edited(name) || name.len() < part.len()) {
            goes = is_edited(name);
        }
        if goes {
            continue;
        }
        if at > 0 {
            kept.push(separator);
        }
        kept.extend_from_slice(part);
    }
    Some(Cow::Owned(kept))
}

fn separate(out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.push(b'&');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_happens_once() {
        for (text, expected) in [
            ("a", "a"),
            ("a+b%20c", "a b c"),
            ("%2541", "%41"),
            ("100%", "100%"),
            ("%4", "%4"),
            ("%zz%41", "%zzA"),
        ] {
            assert_eq!(decoded(text.as_bytes()), expected.as_bytes(), "{text}");
        }
    }

    #[test]
    fn edits() {
        let edit = |query: Option<&str>, edits: &[(&str, Option<&str>)]| {
            let edits: Vec<(Box<str>, ParameterEdit)> = edits
                .iter()
                .map(|(name, value)| {
                    let edit = value.map_or(ParameterEdit::Remove, |value| {
                        ParameterEdit::Set(value.as_bytes().to_vec())
                    });
                    ((*name).into(), edit)
                })
                .collect();
            edit_parameters(query.map(str::as_bytes), &edits)
                .map(|query| String::from_utf8(query).unwrap())
        };
        assert_eq!(
            edit(Some("a=1&b&%61=2"), &[("a", None)]).as_deref(),
            Some("b")
        );
        assert_eq!(edit(Some("a=1"), &[("a", None)]), None);
        assert_eq!(edit(None, &[("a&", Some("x"))]).as_deref(), Some("a%26=x"));
        assert_eq!(
            edit(Some("x=%20&a=1"), &[("a", Some("2"))]).as_deref(),
            Some("x=%20&a=2")
        );
        let others = "is.admin=1&+is_admin=2&is_admin[]=3&is%20admin&IS_ADMIN&is_admin%00x=4";
        assert_eq!(edit(Some(others), &[("is_admin", None)]), None);
        assert_eq!(
            edit(Some("a=1;is_admin=2;3;b;c=4&d;e"), &[("is_admin", None)]).as_deref(),
            Some("a=1;c=4&d;e")
        );
        assert_eq!(edit(Some("is_admin=2;b=3"), &[("is_admin", None)]), None);
    }
}
