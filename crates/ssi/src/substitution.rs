//! `$name` and `${name}` in the values of arguments.

use crate::{
    context::{Matched, SsiContext},
    variables::{Lazy, VALUE_BYTES_MAX, Value},
};

/// Replacement for an undefined variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Nothing,
    /// Its name as it was written: the shell may know it.
    Name,
}

/// Source of values.
pub struct Values<'v> {
    pub context: &'v mut dyn SsiContext,
    pub matched: &'v Matched,
    pub time_format: &'v [u8],
}

impl Values<'_> {
    /// The value of a variable, or of a group of the last pattern (`0` to `9`).
    pub fn value(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        if let [digit @ b'0'..=b'9'] = name {
            return self.matched.group(*digit).map(<[u8]>::to_vec);
        }
        match self.context.variables().value(name)?.clone() {
            Value::Text(text) => Some(text.into_vec()),
            Value::Lazy(lazy) => Some(self.made(name, lazy)),
        }
    }

    fn made(&mut self, name: &[u8], lazy: Lazy) -> Vec<u8> {
        let value = self.context.lazy(lazy, self.time_format);
        self.context.variables().set(name, &value);
        value
    }

    /// `text` with variables put in; what becomes too long ends where it does.
    pub fn put_in(&mut self, text: &[u8], missing: Missing) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\\' | b'$')) {
            let (before, special) = rest.split_at(at);
            out.extend_from_slice(before);
            rest = match special {
                [b'\\', b'$', rest @ ..] => {
                    out.push(b'$');
                    rest
                }
                [b'\\', rest @ ..] => {
                    out.push(b'\\');
                    rest
                }
                _ => match self.variable(special, missing, &mut out) {
                    Some(length) => special.get(length..).unwrap_or_default(),
                    // A brace that is not closed ends the text.
                    None => return out,
                },
            };
            if out.len() > VALUE_BYTES_MAX {
                self.context
                    .complain("a value is too long: it is cut".to_owned());
                out.truncate(VALUE_BYTES_MAX);
                return out;
            }
        }
        out.extend_from_slice(rest);
        out
    }

    /// Appends the value of the variable at a dollar sign; returns the length of its reference.
    fn variable(&mut self, text: &[u8], missing: Missing, out: &mut Vec<u8>) -> Option<usize> {
        let (name, length) = match text.get(1) {
            Some(b'{') => {
                let Some(end) = text.iter().position(|byte| *byte == b'}') else {
                    self.context.complain(format!(
                        "Missing '}}' on variable \"{}\"",
                        String::from_utf8_lossy(text.get(2..).unwrap_or_default())
                    ));
                    return None;
                };
                (text.get(2..end).unwrap_or_default(), end + 1)
            }
            _ => {
                let behind = text.get(1..).unwrap_or_default();
                let length = behind
                    .iter()
                    .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
                    .count();
                (behind.get(..length).unwrap_or_default(), length + 1)
            }
        };
        if name.is_empty() {
            out.push(b'$');
            return Some(1);
        }
        match (self.value(name), missing) {
            (Some(value), _) => out.extend_from_slice(&value),
            (None, Missing::Name) => out.extend_from_slice(text.get(..length).unwrap_or_default()),
            (None, Missing::Nothing) => {}
        }
        Some(length)
    }
}
