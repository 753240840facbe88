//! mod_substitute: its directives. The filter is `saker_content_filters::substitute`.

use crate::{
    arguments::texts,
    reading::{Reading, Set},
};
use saker_apache_syntax::Node;
use saker_content_filters::substitute::SubstituteRule;
use std::sync::Arc;

/// Apache's default for SubstituteMaxLineLength.
const LINE_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Debug, Default)]
pub struct Substitute {
    /// In the order in which they are applied.
    pub rules: Vec<Arc<SubstituteRule>>,
    inherit_before: Option<bool>,
    line_bytes_max: Option<usize>,
}

impl Substitute {
    pub const DIRECTIVES: &'static [(&'static str, Set<Substitute>)] = &[
        ("Substitute", add_rule),
        ("SubstituteMaxLineLength", set_line_length),
        ("SubstituteInheritBefore", |node, substitute, _| {
            crate::arguments::set_flag(node, &mut substitute.inherit_before)
        }),
    ];

    /// An inner section's rules come first, unless SubstituteInheritBefore says otherwise.
    pub fn merge(&self, over: &Substitute) -> Substitute {
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

fn add_rule(node: &Node, substitute: &mut Substitute, _: &mut Reading<'_>) -> Result<(), String> {
    let words = node.arguments();
    substitute.rules.push(Arc::new(SubstituteRule::parse(
        words.first().map(Vec::as_slice).unwrap_or_default(),
    )?));
    Ok(())
}

/// Bytes, or with one of the letters b, k, m, g behind.
fn set_line_length(
    node: &Node,
    substitute: &mut Substitute,
    _: &mut Reading<'_>,
) -> Result<(), String> {
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
    substitute.line_bytes_max = Some(number.saturating_mul(factor));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_rules_come_first_unless_said_otherwise() {
        let of = |text: &str, inherit_before| Substitute {
            rules: vec![Arc::new(SubstituteRule::parse(text.as_bytes()).unwrap())],
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
        assert_eq!(order(of("s/a/1/", None).merge(&of("s/a/2/", None))), "21");
        assert_eq!(
            order(of("s/a/1/", Some(true)).merge(&of("s/a/2/", None))),
            "12"
        );
        assert_eq!(
            order(of("s/a/1/", Some(true)).merge(&of("s/a/2/", Some(false)))),
            "21"
        );
    }
}
