//! Text with variables: `$(HTTP_COOKIE{group}|none)`.
//!
//! Called by: parser and steps.
//! Caveat: client input must stay a value wherever it is inserted. In text it is escaped as HTML,
//! in URLs percent-encoded (except for a whole query string, which is encoded already).

use crate::facts::Facts;
use saker_http::escape;

/// Maximum length of a variable.
const VARIABLE_BYTES_MAX: usize = 1024;
/// A value that has so many bytes already is not filled in further.
const MADE_BYTES_MAX: usize = 64 << 10;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Value(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(Vec<u8>),
    Variable(Variable),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    name: Vec<u8>,
    key: Option<Vec<u8>>,
    default: Option<Vec<u8>>,
}

impl Value {
    pub fn parse(text: &[u8]) -> Value {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, variable, after)) = split(rest) {
            if !before.is_empty() {
                pieces.push(Piece::Literal(before.to_vec()));
            }
            pieces.push(Piece::Variable(variable));
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest.to_vec()));
        }
        Value(pieces)
    }

    pub fn literal(text: &[u8]) -> Value {
        Value(vec![Piece::Literal(text.to_vec())])
    }

    pub fn of(variable: Variable) -> Value {
        Value(vec![Piece::Variable(variable)])
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name of a variable, if the value is nothing else.
    pub fn only_name(&self) -> Option<&[u8]> {
        match self.0.as_slice() {
            [
                Piece::Variable(Variable {
                    name, key: None, ..
                }),
            ] => Some(name),
            _ => None,
        }
    }

    /// The plain value, for comparisons.
    pub fn plain(&self, facts: &Facts) -> Vec<u8> {
        self.made(|variable, out| out.extend_from_slice(&variable.value(facts)))
    }

    /// The value escaped for text of the page.
    pub fn html(&self, facts: &Facts) -> Vec<u8> {
        self.made(|variable, out| escape::html(&variable.value(facts), out))
    }

    /// The value encoded for URLs.
    pub fn address(&self, facts: &Facts) -> Vec<u8> {
        self.made(|variable, out| {
            let is_query = variable.name == b"QUERY_STRING" && variable.key.is_none();
            percent_encode(
                &variable.value(facts),
                if is_query { b"&=%+/;:@,!*" } else { b"" },
                out,
            );
        })
    }

    fn made(&self, mut put: impl FnMut(&Variable, &mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in &self.0 {
            if out.len() > MADE_BYTES_MAX {
                break;
            }
            match piece {
                Piece::Literal(text) => out.extend_from_slice(text),
                Piece::Variable(variable) => put(variable, &mut out),
            }
        }
        out
    }
}

impl Variable {
    fn value(&self, facts: &Facts) -> Vec<u8> {
        let found = facts
            .value(&self.name, self.key.as_deref())
            .filter(|value| !value.is_empty());
        found.or_else(|| self.default.clone()).unwrap_or_default()
    }
}

/// Splits at the first variable: the text before it, the variable, and the rest.
pub(crate) fn split(text: &[u8]) -> Option<(&[u8], Variable, &[u8])> {
    let mut from = 0;
    loop {
        let at = from + memchr::memmem::find(text.get(from..)?, b"$(")?;
        if let Some((variable, length)) = variable(&text[at..]) {
            return Some((&text[..at], variable, &text[at + length..]));
        }
        from = at + 2;
    }
}

/// A variable at the beginning of a text, and its length there.
pub(crate) fn variable(text: &[u8]) -> Option<(Variable, usize)> {
    let text = text.get(..text.len().min(VARIABLE_BYTES_MAX))?;
    let rest = text.strip_prefix(b"$(")?;
    let end = rest
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')?;
    let (name, mut rest) = rest.split_at(end);
    let mut key = None;
    if let Some(from) = rest.strip_prefix(b"{") {
        let end = memchr::memchr(b'}', from)?;
        key = Some(unquoted(&from[..end]).to_vec());
        rest = &from[end + 1..];
    }
    let mut default = None;
    if let Some(from) = rest.strip_prefix(b"|") {
        let end = match from.strip_prefix(b"'") {
            Some(quoted) => memchr::memchr(b'\'', quoted)? + 2,
            None => memchr::memchr(b')', from)?,
        };
        default = Some(unquoted(&from[..end]).to_vec());
        rest = &from[end..];
    }
    let rest = rest.strip_prefix(b")").filter(|_| !name.is_empty())?;
    Some((
        Variable {
            name: name.to_vec(),
            key,
            default,
        },
        text.len() - rest.len(),
    ))
}

fn unquoted(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii();
    text.strip_prefix(b"'")
        .and_then(|text| text.strip_suffix(b"'"))
        .unwrap_or(text)
}

fn percent_encode(text: &[u8], allowed: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(byte) || allowed.contains(byte) {
            true => out.push(*byte),
            false => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
}
