//! mod_http2's hints: fields that clients get in a 103 response (RFC 8297) while the request is carried
//! out.
//!
//! Called by: the fixups, through [`Http2::hints`].
//! Caveat: resources to be pushed are hinted at instead, because browsers no longer accept pushed
//! ones. Fields of the connection and of content are refused: they would be about the 103 itself.
//! Out of scope: hints of programs and upstreams, which the gateway passes on; protocols and limits
//! (`connections`).

use crate::{
    arguments::{set_flag, texts},
    reading::{Reading, Set},
};
use saker_apache_syntax::Node;

/// Fields that no hint has.
const REFUSED: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "date",
    "set-cookie",
];

/// A field of a 103 response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    pub name: Box<str>,
    pub value: Box<[u8]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Http2 {
    is_on: Option<bool>,
    /// Outer ones first; links before the others, as Apache writes them.
    links: Vec<Hint>,
    fields: Vec<Hint>,
}

impl Http2 {
    pub const DIRECTIVES: &'static [(&'static str, Set<Http2>)] = &[
        ("H2EarlyHints", |node, http2, _| {
            set_flag(node, &mut http2.is_on)
        }),
        ("H2EarlyHint", add_field),
        ("H2PushResource", add_resource),
    ];

    pub fn merge(&self, over: &Http2) -> Http2 {
        let both = |outer: &[Hint], inner: &[Hint]| outer.iter().chain(inner).cloned().collect();
        Http2 {
            is_on: over.is_on.or(self.is_on),
            links: both(&self.links, &over.links),
            fields: both(&self.fields, &over.fields),
        }
    }

    /// Fields of the 103 response; none where hints are off, as they are by default.
    pub fn hints(&self) -> impl Iterator<Item = &Hint> {
        let all = self.links.iter().chain(&self.fields);
        all.filter(|_| self.is_on == Some(true))
    }
}

/// `H2EarlyHint NAME VALUE`
fn add_field(node: &Node, http2: &mut Http2, _: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let [name, value] = words.as_slice() else {
        return Err("H2EarlyHint takes a name and a value".into());
    };
    let lower = name.to_ascii_lowercase();
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if !is_name || REFUSED.contains(&&*lower) || lower.starts_with("content-") {
        return Err(format!("H2EarlyHint: '{name}' cannot be a hint"));
    }
    http2.fields.push(hint(name, value)?);
    Ok(())
}

/// `H2PushResource [add] PATH [critical]`
fn add_resource(node: &Node, http2: &mut Http2, _: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let words = match words.as_slice() {
        [add, rest @ ..] if !rest.is_empty() && add.eq_ignore_ascii_case("add") => rest,
        words => words,
    };
    let (path, end) = match words {
        [path] => (path, ""),
        [path, critical] if critical.eq_ignore_ascii_case("critical") => (path, "; critical"),
        _ => return Err("H2PushResource takes a path, and the word critical".into()),
    };
    if path.contains(['<', '>']) {
        return Err(format!("H2PushResource: '{path}' is not a path"));
    }
    http2
        .links
        .push(hint("Link", &format!("<{path}>; rel=preload{end}"))?);
    Ok(())
}

fn hint(name: &str, value: &str) -> Result<Hint, String> {
    let value = value.trim_matches([' ', '\t']);
    match value.is_empty() || value.contains(char::is_control) {
        true => Err(format!("{name}: the value cannot be sent")),
        false => Ok(Hint {
            name: name.into(),
            value: value.as_bytes().into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(is_on: Option<bool>, link: &str) -> Http2 {
        Http2 {
            is_on,
            links: vec![hint("Link", link).unwrap()],
            fields: vec![hint("X", "1").unwrap()],
        }
    }

    #[test]
    fn hints_add_up_and_have_to_be_on() {
        let names = |http2: &Http2| {
            let hints = http2.hints().map(|hint| hint.value.to_vec());
            hints
                .map(|value| String::from_utf8(value).unwrap())
                .collect::<Vec<_>>()
        };
        let merged = with(None, "</a>").merge(&with(Some(true), "</b>"));
        assert_eq!(names(&merged), ["</a>", "</b>", "1", "1"]);
        assert!(names(&merged.merge(&with(Some(false), "</c>"))).is_empty());
        assert!(names(&with(None, "</a>")).is_empty());
    }

    #[test]
    fn values_stay_in_their_line() {
        assert!(hint("Link", "</a>\r\nX: y").is_err());
        assert!(hint("Link", " ").is_err());
    }
}
