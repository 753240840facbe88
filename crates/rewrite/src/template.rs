//! Texts with `$1`, `%1`, `%{VARIABLE}`, and `${map:key|default}`: substitutions, test strings,
//! values of flags.
//!
//! Called by: rules and conditions. Compiled when the configuration is read; expanded in one pass,
//! so that request data is never read as a template.
//! Caveat: a 403 depends on the origin of a `?` in the result (written by the administrator, or
//! from the request); so escaped literals are parts of their own.
//! Out of scope: errors about unknown variables; they are empty, as in httpd.

use saker_ap_expr::Variable;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Literal(Vec<u8>),
    /// `\c`.
    Escaped(u8),
    Variable(Lookup),
    /// `$n`
    RuleGroup(usize),
    /// `%n`
    ConditionGroup(usize),
    /// `${map:key|default}`
    Map {
        name: String,
        key: Template,
        default: Template,
    },
}

/// Variable named by `%{…}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// Unknown, or without a name.
    Nothing,
    Variable(Variable),
    /// `HTTP:`
    RequestField(Vec<u8>),
    /// `ENV:`
    Environment(Vec<u8>),
    /// `SSL:`
    Tls(Vec<u8>),
    /// `LA-U:`, `LA-F:`; the name is for the trace.
    LookAhead {
        by_file: bool,
        name: Vec<u8>,
        inner: Box<Lookup>,
    },
}

/// Maximum nesting depth of `${…}`.
const DEPTH_MAX: usize = 16;
/// Longest text between curlies.
const CURLIES_BYTES_MAX: usize = 8192;

impl Template {
    /// The lookup that the template consists of, if it is nothing else.
    pub fn lookup(&self) -> Option<&Lookup> {
        match self.parts.as_slice() {
            [Part::Variable(lookup)] => Some(lookup),
            _ => None,
        }
    }

    pub fn compile(text: &[u8]) -> Template {
        Template::compile_inside(text, 0)
    }

    fn compile_inside(text: &[u8], depth: usize) -> Template {
        let (mut parts, mut literal, mut at) = (Vec::new(), Vec::new(), 0);
        while let Some(byte) = text.get(at) {
            let rest = &text[at..];
            let part = match byte {
                b'\\' if rest.len() > 1 => Some((Part::Escaped(rest[1]), 2)),
                b'$' | b'%' => special(rest, depth),
                _ => None,
            };
            match part {
                Some((part, taken)) => {
                    flush(&mut literal, &mut parts);
                    parts.push(part);
                    at += taken;
                }
                None => {
                    literal.push(*byte);
                    at += 1;
                }
            }
        }
        flush(&mut literal, &mut parts);
        Template { parts }
    }
}

fn flush(literal: &mut Vec<u8>, parts: &mut Vec<Part>) {
    if !literal.is_empty() {
        parts.push(Part::Literal(std::mem::take(literal)));
    }
}

/// Parses an expansion that begins with `$` or `%`; returns it with its length.
fn special(text: &[u8], depth: usize) -> Option<(Part, usize)> {
    match (text[0], *text.get(1)?) {
        (b'$', digit @ b'0'..=b'9') => Some((Part::RuleGroup(usize::from(digit - b'0')), 2)),
        (_, digit @ b'0'..=b'9') => Some((Part::ConditionGroup(usize::from(digit - b'0')), 2)),
        (sign, b'{') if depth < DEPTH_MAX => {
            let inside = &text[2..];
            let end = in_curlies(inside, b'}')?;
            let inside = &inside[..end];
            let part = if sign == b'%' {
                Part::Variable(Lookup::parse(inside))
            } else {
                map(inside, depth + 1)?
            };
            Some((part, end + 3))
        }
        _ => None,
    }
}

fn map(inside: &[u8], depth: usize) -> Option<Part> {
    let colon = in_curlies(inside, b':')?;
    let (name, key) = (&inside[..colon], &inside[colon + 1..]);
    let bar = in_curlies(key, b'|').unwrap_or(key.len());
    let default = key.get(bar + 1..).unwrap_or_default();
    Some(Part::Map {
        name: String::from_utf8_lossy(name).into_owned(),
        key: Template::compile_inside(&key[..bar], depth),
        default: Template::compile_inside(default, depth),
    })
}

/// Returns the position of `wanted` outside nested braces. The closing brace is found only if it is
/// the byte wanted.
fn in_curlies(text: &[u8], wanted: u8) -> Option<usize> {
    let mut depth = 1;
    for (at, byte) in text.iter().enumerate().take(CURLIES_BYTES_MAX) {
        if *byte == wanted && depth == 1 {
            return Some(at);
        }
        match byte {
            b'}' => depth -= 1,
            b'{' => depth += 1,
            _ => {}
        }
        if depth == 0 {
            return None;
        }
    }
    None
}

impl Lookup {
    pub fn parse(text: &[u8]) -> Lookup {
        let prefixed = |prefix: &[u8]| {
            let (start, name) = text.split_at_checked(prefix.len())?;
            (start.eq_ignore_ascii_case(prefix) && !name.is_empty()).then(|| name.to_vec())
        };
        if text.get(3) == Some(&b':') {
            let environment = prefixed(b"ENV:").map(Lookup::Environment);
            return environment
                .or_else(|| prefixed(b"SSL:").map(Lookup::Tls))
                .unwrap_or(Lookup::Nothing);
        }
        if text.get(4) != Some(&b':') {
            let row = Variable::from_name(text).filter(|row| row.in_rewrite);
            return row.map_or(Lookup::Nothing, |row| Lookup::Variable(row.variable));
        }
        let ahead = |name: Vec<u8>, by_file| {
            // Sub-requests of sub-requests are refused when they are made; here their names must
            // not nest without end.
            let nests = name.get(4) == Some(&b':') && name[..2].eq_ignore_ascii_case(b"LA");
            let inner = Box::new(if nests {
                Lookup::Nothing
            } else {
                Lookup::parse(&name)
            });
            Lookup::LookAhead {
                by_file,
                name,
                inner,
            }
        };
        prefixed(b"HTTP:")
            .map(Lookup::RequestField)
            .or_else(|| prefixed(b"LA-U:").map(|name| ahead(name, false)))
            .or_else(|| prefixed(b"LA-F:").map(|name| ahead(name, true)))
            .unwrap_or(Lookup::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Part {
        Part::Literal(text.as_bytes().to_vec())
    }

    fn variable(variable: Variable) -> Part {
        Part::Variable(Lookup::Variable(variable))
    }

    #[test]
    fn parts() {
        let nested = Part::Map {
            name: "m".into(),
            key: Template {
                parts: vec![
                    literal("k"),
                    Part::RuleGroup(1),
                    variable(Variable::HttpHost),
                ],
            },
            default: Template {
                parts: vec![literal("d"), Part::ConditionGroup(2)],
            },
        };
        let cases = [
            ("", vec![]),
            ("/a/b", vec![literal("/a/b")]),
            ("$1%2", vec![Part::RuleGroup(1), Part::ConditionGroup(2)]),
            (
                r"a\$1\\",
                vec![
                    literal("a"),
                    Part::Escaped(b'$'),
                    literal("1"),
                    Part::Escaped(b'\\'),
                ],
            ),
            ("\\", vec![literal("\\")]),
            ("$x%y$", vec![literal("$x%y$")]),
            (
                "%{REQUEST_URI}?",
                vec![variable(Variable::RequestUri), literal("?")],
            ),
            ("%{request_uri}", vec![variable(Variable::RequestUri)]),
            (
                "%{HANDLER}%{NO}",
                vec![
                    Part::Variable(Lookup::Nothing),
                    Part::Variable(Lookup::Nothing),
                ],
            ),
            ("%{REQUEST_URI", vec![literal("%{REQUEST_URI")]),
            ("${m:k$1%{HTTP_HOST}|d%2}", vec![nested]),
            ("${m}", vec![literal("${m}")]),
            (
                "${m:{|}:}",
                vec![Part::Map {
                    name: "m".into(),
                    key: Template::compile(b"{|}:"),
                    default: Template::compile(b""),
                }],
            ),
        ];
        for (text, parts) in cases {
            assert_eq!(
                Template::compile(text.as_bytes()),
                Template { parts },
                "{text}"
            );
        }
    }

    #[test]
    fn names_with_a_colon() {
        assert_eq!(Lookup::parse(b"env:X"), Lookup::Environment(b"X".to_vec()));
        assert_eq!(Lookup::parse(b"ENV:"), Lookup::Nothing);
        assert_eq!(Lookup::parse(b"FOO:X"), Lookup::Nothing);
        assert_eq!(Lookup::parse(b"SSL:SSL_X"), Lookup::Tls(b"SSL_X".to_vec()));
        assert_eq!(
            Lookup::parse(b"HTTP:X-Y"),
            Lookup::RequestField(b"X-Y".to_vec())
        );
        assert_eq!(Lookup::parse(b"HTTP:"), Lookup::Nothing);
        let ahead = Lookup::parse(b"LA-U:REMOTE_USER");
        let inner = Box::new(Lookup::Variable(Variable::RemoteUser));
        assert_eq!(
            ahead,
            Lookup::LookAhead {
                by_file: false,
                name: b"REMOTE_USER".to_vec(),
                inner
            }
        );
        assert!(
            matches!(Lookup::parse(b"LA-F:LA-U:TIME"), Lookup::LookAhead { by_file: true, inner, .. } if *inner == Lookup::Nothing)
        );
        assert_eq!(Lookup::parse(b""), Lookup::Nothing);
    }
}
