//! Evaluation of one RewriteCond.

use super::{Run, Shown};
use crate::{
    condition::{Condition, Relation, Test},
    template::Lookup,
};
use saker_ap_expr::{
    Dependency, Evaluation, Facts, FileTest, Pattern, Predicate, RequestPart, RequestTest, Spans,
    compare_by_length, number,
};

impl Run<'_> {
    /// True if the condition is met.
    pub(crate) fn is_met(&mut self, condition: &Condition) -> bool {
        let part = self.tested_part(condition);
        let input = match (&condition.test, &part) {
            (Test::Expression(_), _) => Vec::new(),
            (_, Some((part, lookup))) => self.part_text(part, lookup),
            _ => self.expand(&condition.input),
        };
        self.spend(input.len());
        let met = match &condition.test {
            Test::Pattern(pattern) => {
                let found = self.matches_condition(pattern, &input);
                self.record_match(part.map(|(part, _)| part), pattern, &input, found.as_ref());
                let matched = found.is_some();
                if let Some(spans) = found.filter(|_| !condition.negated) {
                    self.condition_groups.set(&input, spans);
                }
                matched
            }
            Test::File(test) => self.file_test(&input, *test),
            Test::Uri => self.uri_test(&input),
            Test::FileAccess => self.access_test(&input),
            Test::Text(Relation::Equal, text) if !condition.caseless => {
                let result = input == *text;
                if let Some((part, _)) = part {
                    self.record(part, Predicate::Equals(text.as_slice().into()), result);
                }
                result
            }
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

    /// The part of the request that a condition tests, if it is one part as received and the
    /// test's result is all that counts.
    fn tested_part<'c>(&self, condition: &'c Condition) -> Option<(RequestPart, &'c Lookup)> {
        let is_recorded = match condition.test {
            Test::Pattern(_) => true,
            Test::Text(Relation::Equal, _) => !condition.caseless,
            _ => false,
        };
        let lookup = condition.input.lookup().filter(|_| is_recorded)?;
        let part = match lookup {
            Lookup::Variable(variable) => variable.part(),
            Lookup::RequestField(name) => RequestPart::of_field(name),
            _ => None,
        }?;
        self.overlay()
            .is_as_received(&part)
            .then_some((part, lookup))
    }

    /// The text of a part; not a dependency, because its test is recorded.
    fn part_text(&mut self, part: &RequestPart, lookup: &Lookup) -> Vec<u8> {
        match (part, lookup) {
            (RequestPart::Field(name), _) => {
                // The response varies by a field that is there, under the name that the rule has.
                let written = match lookup {
                    Lookup::RequestField(written) => written.as_ref(),
                    Lookup::Variable(variable) => variable
                        .row()
                        .request_field
                        .map_or(name.as_bytes(), str::as_bytes),
                    _ => name.as_bytes(),
                };
                let is_present = self.context.as_facts().request_field(written).is_some();
                self.record(part.clone(), Predicate::Present, is_present);
                self.field_text(written)
            }
            (_, Lookup::Variable(variable)) => {
                let overlay = self.overlay();
                overlay.variable(*variable).unwrap_or_default().into_owned()
            }
            _ => Vec::new(),
        }
    }

    /// Runs a pattern. One that hits its limit does not match, and the run ends.
    fn matches_condition(&mut self, pattern: &Pattern, input: &[u8]) -> Option<Spans> {
        match self.captures(pattern, input) {
            Ok(found) => found,
            Err(_) => {
                self.gave_up(pattern.text());
                None
            }
        }
    }

    fn record_match(
        &mut self,
        part: Option<RequestPart>,
        pattern: &Pattern,
        input: &[u8],
        spans: Option<&Spans>,
    ) {
        if let Some(part) = part {
            let (predicate, result) = Predicate::of_match(pattern, input, spans);
            self.record(part, predicate, result);
        }
    }

    fn record(&mut self, part: RequestPart, predicate: Predicate, result: bool) {
        self.dependencies.add_test(RequestTest {
            part,
            predicate,
            result,
        });
    }

    fn file_test(&mut self, path: &[u8], test: FileTest) -> bool {
        self.dependencies.add(Dependency::Files);
        self.context.as_facts().file_test(path, test)
    }

    fn uri_test(&mut self, uri: &[u8]) -> bool {
        self.dependencies.add(Dependency::Subrequest);
        if uri.is_empty() {
            return false;
        }
        let Some(status) = self.context.as_facts().uri_status(uri) else {
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
        let Some(status) = self.context.as_facts().file_status(path) else {
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
        let mut evaluation = Evaluation::recording_tests(&overlay);
        let outcome = expression.evaluate(&mut evaluation);
        let (dependencies, groups) = (evaluation.dependencies, evaluation.backreferences);
        // The result varies by everything that the expression read, whatever its value.
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
