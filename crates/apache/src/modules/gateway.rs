//! Paths and handlers that belong to programs behind a gateway: which they are, so that nothing else answers for them.
//!
//! There is no gateway yet. What Apache would have handed to another program must not be looked for below the document root, where the
//! program's own source often lies. Absent on purpose: where it would have gone.

use super::alias::{From, compile, prefix_length};
use crate::{
    local::{Local, Set},
    reading::{Place, Reading},
};
use saker_config_apache::Node;

/// ProxyPass or ProxyPassMatch.
#[derive(Clone, Debug)]
pub struct Pass {
    from: From,
    /// `!`: not this one.
    is_exception: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Gateway {
    passes: Vec<Pass>,
}

impl Gateway {
    pub const DIRECTIVES: &'static [(&'static str, Set)] = &[
        ("ProxyPass", |node, local, reading| add(node, local, reading, false)),
        ("ProxyPassMatch", |node, local, reading| add(node, local, reading, true)),
    ];

    /// Inner ones are asked first.
    pub fn under(&self, over: &Gateway) -> Gateway {
        Gateway { passes: over.passes.iter().chain(&self.passes).cloned().collect() }
    }

    /// Whether a decoded path would go to another program; `None`: nothing is said about it.
    pub fn takes(&self, path: &[u8]) -> Option<bool> {
        self.passes.iter().find(|pass| pass.is_for(path)).map(|pass| !pass.is_exception)
    }
}

impl Pass {
    fn is_for(&self, path: &[u8]) -> bool {
        match &self.from {
            From::Prefix(prefix) => prefix_length(path, prefix).is_some(),
            // One that is given up is taken to match: better no answer than a wrong one.
            From::Pattern(pattern) => pattern.is_match(path).unwrap_or(true),
            From::Section => true,
        }
    }
}

/// `[path] url [name=value …]`; in a section without the path.
fn add(node: &Node, local: &mut Local, reading: &mut Reading<'_>, by_pattern: bool) -> Result<(), String> {
    let words = node.arguments();
    let in_section = reading.place != Place::Server;
    let (from, to) = match words.as_slice() {
        [to, ..] if in_section => (From::Section, to),
        [path, to, ..] if by_pattern => (From::Pattern(compile(path)?), to),
        [path, to, ..] => (From::Prefix(path.as_slice().into()), to),
        _ => return Err(format!("{} needs a path when not defined in a location", node.canonical_name())),
    };
    local.gateway.passes.push(Pass { from, is_exception: to == b"!" });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(prefix: &str, is_exception: bool) -> Pass {
        Pass { from: From::Prefix(prefix.as_bytes().into()), is_exception }
    }

    #[test]
    fn the_first_that_matches_decides_inner_ones_before_outer_ones() {
        let outer = Gateway { passes: vec![pass("/static", true), pass("/", false)] };
        assert_eq!((outer.takes(b"/static/x"), outer.takes(b"/statics"), outer.takes(b"/x")), (Some(false), Some(true), Some(true)));
        let inner = Gateway { passes: vec![pass("/static/app", false)] };
        let merged = outer.under(&inner);
        assert_eq!((merged.takes(b"/static/app/x"), merged.takes(b"/static/x")), (Some(true), Some(false)));
        assert_eq!(inner.takes(b"/x"), None);
    }
}
