//! Texts with variables: `$name`, `${name}`, and `$1` to `$9`.
//!
//! Called by: setters, for every argument that may have variables.
//! Caveat: names are resolved when all of the configuration has been read, because a `map` may come
//! behind its use.
//! Out of scope: values (`saker-nginx`).

use crate::variables::{Variable, Variables};

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Literal(Box<[u8]>),
    Variable(Variable),
    /// A group of the last regular expression.
    Capture(u8),
}

/// A compiled text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    pub parts: Box<[Part]>,
    /// As written.
    pub source: Box<str>,
}

impl Text {
    /// Compiles a text.
    ///
    /// # Errors
    /// nginx's message for a `$` without a name.
    pub fn compile(source: &str, variables: &mut Variables) -> Result<Text, String> {
        let mut parts = Vec::new();
        let mut rest = source;
        while let Some(at) = rest.find('$') {
            let (literal, behind) = rest.split_at(at);
            push_literal(&mut parts, literal);
            let behind = behind.get(1..).unwrap_or_default();
            let (name, left) = name_in(behind)?;
            parts.push(match name.parse::<u8>() {
                Ok(group @ 0..=9) if name.len() == 1 => Part::Capture(group),
                _ => Part::Variable(variables.named(name)),
            });
            rest = left;
        }
        push_literal(&mut parts, rest);
        Ok(Text {
            parts: parts.into(),
            source: source.into(),
        })
    }

    /// Returns the text if it has no variables.
    pub fn constant(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] => Some(b""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the text, if it is one without variables, as written.
    pub fn plain(&self) -> Option<&str> {
        self.constant().map(|_| &*self.source)
    }

    /// Returns the text with the values of variables that are known beforehand.
    pub fn with_known(&self, known: impl Fn(&Variable) -> Option<Box<[u8]>>) -> Text {
        let mut parts: Vec<Part> = Vec::new();
        for part in &self.parts {
            let value = match part {
                Part::Literal(text) => Some(text.clone()),
                Part::Variable(variable) => known(variable),
                Part::Capture(_) => None,
            };
            match (value, parts.last_mut()) {
                (Some(value), Some(Part::Literal(before))) => {
                    *before = [&**before, &value].concat().into();
                }
                (Some(value), _) => parts.push(Part::Literal(value)),
                (None, _) => parts.push(part.clone()),
            }
        }
        Text {
            parts: parts.into(),
            source: self.source.clone(),
        }
    }

    /// Returns a text without variables, whatever characters it has.
    pub fn literal(text: &str) -> Text {
        let mut parts = Vec::new();
        push_literal(&mut parts, text);
        Text {
            parts: parts.into(),
            source: text.into(),
        }
    }
}

fn push_literal(parts: &mut Vec<Part>, text: &str) {
    if !text.is_empty() {
        parts.push(Part::Literal(text.as_bytes().into()));
    }
}

/// Splits the name behind a `$` from the rest. A digit stands alone.
fn name_in(text: &str) -> Result<(&str, &str), String> {
    let (is_braced, inner) = match text.strip_prefix('{') {
        Some(inner) => (true, inner),
        None => (false, text),
    };
    if !is_braced && text.starts_with(|first: char| first.is_ascii_digit()) {
        return Ok(text.split_at(1));
    }
    let end = inner.bytes().position(|byte| !is_name_byte(byte));
    let (name, mut rest) = inner.split_at(end.unwrap_or(inner.len()));
    if is_braced && !inner.is_empty() {
        let closed = rest.strip_prefix('}');
        rest = closed
            .ok_or_else(|| format!("the closing bracket in \"{name}\" variable is missing"))?;
    }
    match name.is_empty() {
        true => Err("invalid variable name".to_owned()),
        false => Ok((name, rest)),
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::variables::Builtin;

    fn shown(source: &str) -> String {
        let mut variables = Variables::default();
        match Text::compile(source, &mut variables) {
            Err(error) => error,
            Ok(text) => text
                .parts
                .iter()
                .map(|part| match part {
                    Part::Literal(text) => format!("'{}'", String::from_utf8_lossy(text)),
                    Part::Capture(group) => format!("<{group}>"),
                    Part::Variable(variable) => format!("<{variable:?}>"),
                })
                .collect(),
        }
    }

    #[test]
    fn what_is_known_beforehand_joins_the_text_around_it() {
        let mut variables = Variables::default();
        let text = Text::compile("a${uri}b$host-$1", &mut variables).unwrap();
        let known = |value: &'static [u8]| {
            move |variable: &Variable| match variable {
                Variable::Builtin(Builtin::Uri) => Some(value.into()),
                _ => None,
            }
        };
        let all = text.with_known(known(b"/x"));
        assert_eq!(all.parts[0], Part::Literal(b"a/xb"[..].into()));
        assert_eq!((all.parts.len(), &all.source), (4, &text.source));
        let none = text.with_known(|_| None);
        assert_eq!(none, text);
    }

    #[test]
    fn parts() {
        assert_eq!(shown("a$1b"), "'a'<1>'b'");
        assert_eq!(shown("$10"), "<1>'0'");
        assert_eq!(shown("${uri}x"), "<Builtin(Uri)>'x'");
        assert_eq!(
            shown("$arg_a-$http_x_y"),
            "<Argument(\"a\")>'-'<Field(\"x-y\")>"
        );
        assert_eq!(shown("$x$x$y"), "<Named(0)><Named(0)><Named(1)>");
        assert_eq!(shown(""), "");
        let missing = "the closing bracket in \"a\" variable is missing";
        for text in ["a$", "${", "${}", "$-"] {
            assert_eq!(shown(text), "invalid variable name", "{text}");
        }
        for text in ["${a", "${a-b}"] {
            assert_eq!(shown(text), missing, "{text}");
        }
    }
}
