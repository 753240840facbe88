//! mod_actions: scripts that answer for a type, a handler or a method.

use crate::{
    arguments::texts,
    reading::{Reading, Set},
};
use saker_apache_syntax::Node;
use saker_auth::settings::as_numbered;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// A media type or the name of a handler.
    pub of: Box<str>,
    /// Path of the script, as a client would write it.
    pub script: Box<str>,
    /// Also where there is no such file.
    pub is_virtual: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Actions {
    /// Outer ones first: the last of a name counts.
    actions: Vec<Action>,
    /// By the method; HEAD is GET.
    scripts: Vec<(Box<[u8]>, Box<str>)>,
}

impl Actions {
    pub const DIRECTIVES: &'static [(&'static str, Set<Actions>)] =
        &[("Action", add_action), ("Script", add_script)];

    pub fn merge(&self, over: &Actions) -> Actions {
        Actions {
            actions: self.actions.iter().chain(&over.actions).cloned().collect(),
            scripts: self.scripts.iter().chain(&over.scripts).cloned().collect(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.actions.is_empty() && self.scripts.is_empty()
    }

    pub fn action(&self, name: &str) -> Option<&Action> {
        self.actions
            .iter()
            .rev()
            .find(|action| action.of.eq_ignore_ascii_case(name))
    }

    /// The script of a method.
    pub fn script(&self, method: &[u8]) -> Option<&str> {
        self.scripts
            .iter()
            .rev()
            .find(|(of, _)| **of == *as_numbered(method))
            .map(|(_, script)| &**script)
    }
}

fn add_action(node: &Node, actions: &mut Actions, _: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let (of, script, option) = match words.as_slice() {
        [of, script] => (of, script, None),
        [of, script, option] => (of, script, Some(option)),
        _ => {
            return Err(
                "Action takes a media type or handler, a script, and perhaps \"virtual\"".into(),
            );
        }
    };
    if let Some(option) = option.filter(|option| !option.eq_ignore_ascii_case("virtual")) {
        return Err(format!("unrecognized option '{option}'"));
    }
    actions.actions.push(Action {
        of: of.as_str().into(),
        script: script.as_str().into(),
        is_virtual: option.is_some(),
    });
    Ok(())
}

fn add_script(node: &Node, actions: &mut Actions, _: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let [method, script] = words.as_slice() else {
        return Err("Script takes a method and a script".into());
    };
    if method == "TRACE" {
        return Err("TRACE not allowed for Script".into());
    }
    // Methods that Apache does not know become known by being named.
    if !saker_http::chars::is_token(method.as_bytes()) {
        return Err("Unknown method type for Script".into());
    }
    let of = as_numbered(method.as_bytes()).into();
    actions.scripts.push((of, script.as_str().into()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actions(all: &[(&str, &str)]) -> Actions {
        let action = |(of, script): &(&str, &str)| Action {
            of: (*of).into(),
            script: (*script).into(),
            is_virtual: false,
        };
        Actions {
            actions: all.iter().map(action).collect(),
            scripts: vec![(b"GET"[..].into(), "/get".into())],
        }
    }

    #[test]
    fn the_innermost_counts() {
        let merged = actions(&[("a/b", "/outer"), ("h", "/one"), ("h", "/two")])
            .merge(&actions(&[("A/B", "/inner")]));
        let script = |name: &str| merged.action(name).map(|action| action.script.to_string());
        assert_eq!(
            (script("a/b"), script("H"), script("x")),
            (Some("/inner".into()), Some("/two".into()), None)
        );
        assert_eq!(
            (
                merged.script(b"HEAD"),
                merged.script(b"POST"),
                merged.script(b"FOO")
            ),
            (Some("/get"), None, None)
        );
    }
}
