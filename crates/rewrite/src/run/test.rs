//! One RewriteCond.

use super::{Run, Shown};
use crate::condition::{Condition, Test};
use saker_ap_expr::{Dependency, Evaluation, FileTest, Pattern, compare_by_length, number};

impl Run<'_> {
    /// True if the condition is met.
    pub(crate) fn is_met(&mut self, condition: &Condition) -> bool {
        let input = match condition.test {
            Test::Expression(_) => Vec::new(),
            _ => self.expand(&condition.input),
        };
        self.spend(input.len());
        let met = match &condition.test {
            Test::Pattern(pattern) => self.matches_condition(pattern, &input, condition.negated),
            Test::File(test) => self.file_test(&input, *test),
            Test::Uri => self.uri_test(&input),
            Test::FileAccess => self.access_test(&input),
            Test::Text(relation, text) if condition.caseless => {
                relation.holds(input.to_ascii_lowercase().cmp(&text.to_ascii_lowercase()))
            }
            Test::Text(relation, text) => relation.holds(compare_by_length(&input, text)),
            Test::Number(relation, wanted) => relation.holds(number(&input).cmp(wanted)),
            Test::Expression(_) => self.expression_test(condition),
        };
        let met = met != condition.negated;
        self.trace(4, true, |_| {
            let case = if condition.caseless { " [NC]" } else { "" };
            let result = if met { "matched" } else { "not-matched" };
            // An expression has no input.
            let input: &[u8] = if matches!(condition.test, Test::Expression(_)) {
                b"(null)"
            } else {
                &input
            };
            format!(
                "RewriteCond: input='{}' pattern='{}'{case} => {result}",
                Shown(input),
                Shown(&condition.text)
            )
        });
        met
    }

    fn matches_condition(&mut self, pattern: &Pattern, input: &[u8], negated: bool) -> bool {
        match self.captures(pattern, input) {
            Ok(Some(spans)) => {
                if !negated {
                    self.condition_groups.set(input, spans);
                }
                true
            }
            Ok(None) => false,
            Err(_) => {
                self.gave_up(pattern.text());
                false
            }
        }
    }

    fn file_test(&mut self, path: &[u8], test: FileTest) -> bool {
        self.dependencies.add(Dependency::Files);
        self.world.as_facts().file_test(path, test)
    }

    fn uri_test(&mut self, uri: &[u8]) -> bool {
        self.dependencies.add(Dependency::Subrequest);
        if uri.is_empty() {
            return false;
        }
        let Some(status) = self.world.as_facts().uri_status(uri) else {
            return false;
        };
        self.trace(5, false, |_| {
            format!(
                "RewriteCond URI (-U check: path={} -> status={status}",
                Shown(uri)
            )
        });
        status < 400
    }

    fn access_test(&mut self, path: &[u8]) -> bool {
        self.dependencies.add(Dependency::Subrequest);
        if path.is_empty() {
            return false;
        }
        let Some(status) = self.world.as_facts().file_status(path) else {
            return false;
        };
        self.trace(5, false, |_| {
            format!(
                "RewriteCond file (-F check: path={0} -> file={0} status={status}",
                Shown(path)
            )
        });
        status < 300 && self.file_test(path, FileTest::Exists)
    }

    /// A broken evaluation is a condition not met.
    fn expression_test(&mut self, condition: &Condition) -> bool {
        let Test::Expression(expression) = &condition.test else {
            return false;
        };
        let overlay = self.overlay();
        let mut evaluation = Evaluation::new(&overlay);
        let outcome = expression.evaluate(&mut evaluation);
        let (dependencies, groups) = (evaluation.dependencies, evaluation.backreferences);
        // The answer varies by what the expression looked at, whatever it said.
        dependencies
            .vary()
            .for_each(|name| push_new(&mut self.effects.vary, name));
        self.dependencies.merge_without_vary(&dependencies);
        match outcome {
            Ok(true) => {
                if !condition.negated {
                    self.condition_groups = groups;
                }
                true
            }
            Ok(false) => false,
            Err(error) => {
                let text = format!(
                    "RewriteCond: expr='{}' evaluation failed: {error}",
                    Shown(&condition.text)
                );
                self.trace(1, true, |_| text);
                false
            }
        }
    }
}

pub(super) fn push_new(names: &mut Vec<String>, name: &str) {
    if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        names.push(name.to_owned());
    }
}
