//! mod_substitute: the rules. What they do to content is in `content_filters::substitute`.

use super::core::texts;
use crate::{
    local::{Local, Set},
    reading::Reading,
};
use saker_ap_expr::{Pattern, PatternOptions};
use saker_apache_syntax::Node;
use std::sync::Arc;

/// Apache's default for SubstituteMaxLineLength.
const LINE_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Debug, Default)]
pub struct Substitute {
    /// In the order in which they are applied.
    pub rules: Vec<Arc<Rule>>,
    inherit_before: Option<bool>,
    line_bytes_max: Option<usize>,
}

/// `s/pattern/replacement/flags`
#[derive(Debug)]
pub struct Rule {
    pub pattern: Pattern,
    pub replacement: Box<[u8]>,
    /// The replacement is taken as it stands (`n`).
    pub is_literal: bool,
    /// Later rules see the line as a whole (`f`, the default), not its pieces (`q`).
    pub flatten: bool,
}

impl Substitute {
    pub const DIRECTIVES: &'static [(&'static str, Set)] = &[
        ("Substitute", add_rule),
        ("SubstituteMaxLineLength", set_line_length),
        ("SubstituteInheritBefore", |node, local, _| {
            super::dir::set_flag(node, &mut local.substitute.inherit_before)
        }),
    ];

    /// An inner section's rules come first, unless SubstituteInheritBefore says otherwise.
    pub fn under(&self, over: &Substitute) -> Substitute {
        let inherit_before = over.inherit_before.or(self.inherit_before);
        let (first, second) = if inherit_before == Some(true) {
            (self, over)
        } else {
            (over, self)
        };
        Substitute {
            rules: first.rules.iter().chain(&second.rules).cloned().collect(),
            inherit_before,
            line_bytes_max: over.line_bytes_max.or(self.line_bytes_max),
        }
    }

    pub fn line_bytes_max(&self) -> usize {
        self.line_bytes_max.unwrap_or(LINE_BYTES_MAX)
    }
}

fn add_rule(node: &Node, local: &mut Local, _: &mut Reading<'_>) -> Result<(), String> {
    let words = node.arguments();
    local.substitute.rules.push(Arc::new(Rule::parse(
        words.first().map(Vec::as_slice).unwrap_or_default(),
    )?));
    Ok(())
}

impl Rule {
    pub fn parse(text: &[u8]) -> Result<Rule, String> {
        let [b's' | b'S', rest @ ..] = text else {
            return Err("Bad Substitute format, must be an s/// pattern".into());
        };
        let incomplete = || "Bad Substitute format, must be a complete s/// pattern".to_owned();
        let (delimiter, rest) = rest.split_first().ok_or_else(incomplete)?;
        let mut parts = rest.splitn(3, |byte| byte == delimiter);
        let (Some(from), Some(to)) = (parts.next().filter(|from| !from.is_empty()), parts.next())
        else {
            return Err(incomplete());
        };
        let (mut caseless, mut is_literal, mut flatten) = (false, false, true);
        for flag in parts.next().unwrap_or_default() {
            match flag.to_ascii_lowercase() {
                b'i' => caseless = true,
                b'n' => is_literal = true,
                b'f' => flatten = true,
                b'q' => flatten = false,
                _ => return Err("Bad Substitute flag, only s///[infq] are supported".into()),
            }
        }
        let escaped = if is_literal {
            literal(from)
        } else {
            from.to_vec()
        };
        // Of a literal nothing means anything else.
        let options = if is_literal {
            PatternOptions {
                caseless,
                ..PatternOptions::HTTPD
            }
        } else {
            PatternOptions::caseless(caseless)
        };
        let pattern = Pattern::compile(&escaped, options)
            .map_err(|_| "Substitute could not compile regex".to_owned())?;
        Ok(Rule {
            pattern,
            replacement: to.into(),
            is_literal,
            flatten,
        })
    }
}

/// A pattern that matches nothing but this text: every byte that could mean something is escaped.
fn literal(text: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(text.len());
    for byte in text {
        if byte.is_ascii_punctuation() {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern
}

/// Bytes, or with one of the letters b, k, m, g behind.
fn set_line_length(node: &Node, local: &mut Local, _: &mut Reading<'_>) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    let wrong = || {
        "SubstituteMaxLineLength must be a non-negative integer optionally suffixed with 'b', 'k', 'm' or 'g'.".to_owned()
    };
    let digits = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor: usize = match word
        .get(digits.len()..)
        .unwrap_or_default()
        .to_ascii_lowercase()
        .as_str()
    {
        "" | "b" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return Err(wrong()),
    };
    let number: usize = digits.parse().map_err(|_| wrong())?;
    local.substitute.line_bytes_max = Some(number.saturating_mul(factor));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_apache_reads_them() {
        let rule = Rule::parse(b"s|a.c|x$0|iq").unwrap();
        assert!(
            rule.pattern.is_match(b"ABC").unwrap()
                && !rule.flatten
                && !rule.is_literal
                && *rule.replacement == *b"x$0"
        );
        let rule = Rule::parse(b"s/a.c//n").unwrap();
        assert!(
            rule.pattern.is_match(b"a.c").unwrap()
                && !rule.pattern.is_match(b"abc").unwrap()
                && rule.replacement.is_empty()
        );
        assert!(Rule::parse(b"S/a/b").unwrap().flatten);
        for (text, part) in [
            ("x/a/b/", "must be an s///"),
            ("s/a", "complete"),
            ("s//b/", "complete"),
            ("s", "complete"),
            ("s/(/b/", "compile"),
            ("s/a/b/x", "flag"),
        ] {
            assert!(
                Rule::parse(text.as_bytes()).unwrap_err().contains(part),
                "{text}"
            );
        }
    }

    #[test]
    fn inner_rules_come_first_unless_said_otherwise() {
        let of = |text: &str, inherit_before| Substitute {
            rules: vec![Arc::new(Rule::parse(text.as_bytes()).unwrap())],
            inherit_before,
            line_bytes_max: None,
        };
        let order = |merged: Substitute| {
            merged
                .rules
                .iter()
                .map(|rule| rule.replacement[0] as char)
                .collect::<String>()
        };
        assert_eq!(order(of("s/a/1/", None).under(&of("s/a/2/", None))), "21");
        assert_eq!(
            order(of("s/a/1/", Some(true)).under(&of("s/a/2/", None))),
            "12"
        );
        assert_eq!(
            order(of("s/a/1/", Some(true)).under(&of("s/a/2/", Some(false)))),
            "21"
        );
    }
}
