//! `rewrite` as routes.
//!
//! Called by: `route`, and `locations`.
//! Caveat: in a server, nginx rewrites once; Saker looks for a route again. A rule that might match its
//! own result is named, unless that result is one path. Nothing is reached by that which nginx would
//! not serve to a client that asks for the result.
//! Out of scope: rules in `if`, which are denied with it.

use super::text::{quoted, template_of_groups};
use crate::tree::Directive;

/// The lines of a route for all paths.
pub const ALL: &str = "path = \"*\"\n";

/// A rule, converted.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// It is for all paths.
    pub is_whole: bool,
    pub effect: Effect,
}

/// Effects of rules.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Lines of a redirect.
    Redirect(String),
    /// Another path, with its key.
    Path {
        line: String,
        /// It is answered where it was rewritten.
        is_break: bool,
        /// The rules behind it are applied to the result.
        is_open: bool,
    },
}

/// Returns the rule of a directive; `None`: it cannot be said.
pub fn rule(directive: &Directive, server_name: Option<&str>) -> Option<Rule> {
    let (regex, target) = (directive.argument(0), directive.argument(1));
    let text = template_of_groups(target, server_name)?;
    let mut variables = text.split('$').skip(1);
    if !regex.contains('(') && variables.any(is_group) {
        return None;
    }
    let mut starts = ["http://", "https://", "$scheme"].iter();
    let is_url = starts.any(|start| target.starts_with(start));
    let effect = match directive.argument(2) {
        "permanent" => redirect(&text, 301)?,
        "redirect" => redirect(&text, 302)?,
        _ if is_url => redirect(&text, 302)?,
        flag => Effect::Path {
            line: path(&text)?,
            is_break: flag == "break",
            is_open: flag.is_empty(),
        },
    };
    Some(Rule {
        is_whole: matches!(regex, "^" | ".*" | "^.*" | "^.*$" | "^/" | "^/.*" | "^/.*$"),
        effect,
    })
}

/// Returns true for what follows the dollar sign of a group.
fn is_group(behind: &str) -> bool {
    behind.starts_with(|sign: char| matches!(sign, '1'..='9'))
}

fn is_plain(text: &str) -> bool {
    !text.chars().any(|sign| sign == ' ' || sign.is_control())
}

/// A redirect with the query of the request, as nginx adds it.
fn redirect(text: &str, status: u16) -> Option<Effect> {
    let is_url = text.starts_with(['/', '$']) || text.contains("://");
    if !is_url || !is_plain(text) {
        return None;
    }
    let target = match text.strip_suffix('?') {
        Some(bare) => bare.to_owned(),
        None if text.contains('?') => format!("{text}&$args"),
        None => format!("{text}$query"),
    };
    let target = quoted(&target);
    Some(Effect::Redirect(format!(
        "redirect = {target}\nstatus = {status}\n"
    )))
}

/// The line of another path. Without a question mark, the query stays.
fn path(text: &str) -> Option<String> {
    const ENCODED: &[&str] = &[
        "$path",
        "${path}",
        "$query",
        "${query}",
        "$args",
        "${args}",
        "$is_args",
        "${is_args}",
    ];
    let (path, _) = text.split_once('?').unwrap_or((text, ""));
    let is_path = path.starts_with('/') || path.strip_prefix('$').is_some_and(is_group);
    let has_dots = path.split('/').any(|part| matches!(part, "." | ".."));
    if !is_path || !is_plain(text) || has_dots || ENCODED.iter().any(|name| path.contains(name)) {
        return None;
    }
    let text = match text.strip_suffix('?') {
        Some(bare) if bare.contains('?') => bare.to_owned(),
        Some(_) => text.to_owned(),
        None if text.contains('?') => format!("{text}&$args"),
        None => text.to_owned(),
    };
    Some(format!("rewrite = {}\n", quoted(&text)))
}

/// The condition of a rule that nginx applies once: its result, where that is one path, is left alone.
pub fn applied_once(directive: &Directive) -> String {
    match literal_target(directive) {
        (literal, true) => format!("not = {{ path = {} }}", quoted(literal)),
        _ => String::new(),
    }
}

/// Returns true if a rule might match its own result.
pub fn may_repeat(directive: &Directive) -> bool {
    let (literal, is_whole) = literal_target(directive);
    let is_apart = |start: String| !start.starts_with(literal) && !literal.starts_with(&start);
    !is_whole && !literal_start(directive.argument(0)).is_some_and(is_apart)
}

/// The beginning of a rule's result, and whether it is all of the path.
fn literal_target(directive: &Directive) -> (&str, bool) {
    let path = directive.argument(1).split('?').next().unwrap_or_default();
    let literal = path.split('$').next().unwrap_or_default();
    (literal, literal == path && !literal.contains('*'))
}

/// The text with which everything begins that an expression matches; `None`: there is none.
fn literal_start(regex: &str) -> Option<String> {
    let mut start = String::new();
    let mut signs = regex.strip_prefix('^')?.chars().peekable();
    if regex.contains('|') {
        return None;
    }
    while let Some(sign) = signs.next() {
        let sign = match sign {
            '\\' => signs.next().filter(char::is_ascii_punctuation),
            '/' | '-' | '_' | '%' | '~' => Some(sign),
            _ => Some(sign).filter(|sign| sign.is_alphanumeric()),
        };
        let Some(sign) = sign else { break };
        if matches!(signs.peek(), Some('*' | '?' | '{')) {
            break;
        }
        start.push(sign);
    }
    Some(start)
}

/// The lines that say for which paths a rule's route is, inside of the paths of its location.
pub fn place_of_rule(directive: &Directive, location: &str, is_whole: bool, once: &str) -> String {
    let regex = format!("path_regex = {}\n", quoted(directive.argument(0)));
    let (own, outer) = match (is_whole, location) {
        (true, _) => (location, ""),
        (false, ALL) => (regex.as_str(), ""),
        (false, _) => (regex.as_str(), location.trim_end()),
    };
    let conditions = [outer, once].into_iter().filter(|one| !one.is_empty());
    let conditions: Vec<&str> = conditions.collect();
    match conditions.is_empty() {
        true => own.to_owned(),
        false => format!("{own}match = {{ {} }}\n", conditions.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_of_expressions() {
        let start = |regex| literal_start(regex);
        assert_eq!(start(r"^/a\.b/(.*)$").as_deref(), Some("/a.b/"));
        assert_eq!(start("^/ab?c").as_deref(), Some("/a"));
        assert_eq!(start(r"^/\d+").as_deref(), Some("/"));
        assert_eq!(start("^/a|/b"), None);
        assert_eq!(start("/a"), None);
    }

    #[test]
    fn targets() {
        for (text, line) in [
            ("/x", "/x"),
            ("/x?", "/x?"),
            ("/x?a=$1", "/x?a=$1&$args"),
            ("/x?a=$1?", "/x?a=$1"),
            ("$2", "$2"),
        ] {
            assert_eq!(
                path(text),
                Some(format!("rewrite = \"{line}\"\n")),
                "{text}"
            );
        }
        for text in ["x", "/a/../b", "$path$query", "/a b", "$uri"] {
            assert_eq!(path(text), None, "{text}");
        }
        for (text, target) in [
            ("/new/$1", "/new/$1$query"),
            ("https://a.test$path$query?", "https://a.test$path$query"),
            ("/a?b", "/a?b&$args"),
        ] {
            let lines = format!("redirect = \"{target}\"\nstatus = 301\n");
            assert_eq!(redirect(text, 301), Some(Effect::Redirect(lines)), "{text}");
        }
        assert_eq!(redirect("a", 301), None);
    }
}
