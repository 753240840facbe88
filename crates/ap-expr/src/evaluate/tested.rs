//! Conditions that test one part of the request, recorded with their results instead of the part.
//!
//! Called by: the evaluation of each condition, where tests are recorded.
//! Caveat: the value of the part is not a dependency here, so it must go nowhere but into the
//! recorded tests.
//! Out of scope: conditions about texts that are put together of several parts.

use super::{Text, Walk};
use crate::{
    Pattern, Predicate, RequestPart, RequestTest, glob_matches,
    tree::{Comparison, Condition, Function, List, Relation, Word},
};

impl<'f> Walk<'_, 'f> {
    /// The result of a condition about one part, recorded. `None`: it is about something else.
    pub(super) fn tested(&mut self, condition: &Condition) -> Option<bool> {
        match condition {
            Condition::Matches {
                word,
                pattern,
                negated,
            } => {
                let (part, text) = self.part(word)?;
                Some(self.match_test(part, &text, pattern) != *negated)
            }
            Condition::Compare(comparison, word, Word::Literal(text))
            | Condition::Compare(comparison, Word::Literal(text), word) => {
                let wanted = self.equality(*comparison)?;
                let (part, value) = self.part(word)?;
                Some(self.equality_test(part, &value, text) == wanted)
            }
            Condition::In(word, List::Words(words)) => {
                let texts: Option<Vec<&[u8]>> = words.iter().map(literal).collect();
                let (texts, (part, value)) = (texts?, self.part(word)?);
                Some(
                    texts
                        .into_iter()
                        .any(|text| self.equality_test(part.clone(), &value, text)),
                )
            }
            Condition::NotEmpty(word) => {
                let (part, value) = self.part(word)?;
                Some(!self.equality_test(part, &value, b""))
            }
            Condition::Empty(word) => {
                let (part, value) = self.part(word)?;
                Some(self.equality_test(part, &value, b""))
            }
            Condition::Glob {
                text,
                pattern: Word::Literal(pattern),
                options,
            } => {
                let (part, text) = self.part(text)?;
                let result = glob_matches(pattern, &text, *options);
                self.record(part, Predicate::Glob(pattern.clone(), *options), result);
                Some(result)
            }
            Condition::ClientIn(subnet) => {
                let part = self.as_received(RequestPart::ClientAddress)?;
                let address = self.evaluation.facts.client_address()?;
                let result = subnet.contains(address);
                self.record(part, Predicate::Within(*subnet), result);
                Some(result)
            }
            _ => None,
        }
    }

    /// The part that a word is, and its text.
    fn part(&mut self, word: &Word) -> Option<(RequestPart, Text<'f>)> {
        let facts = self.evaluation.facts;
        let name: &[u8] = match word {
            Word::Variable(variable) => match variable.row().request_field {
                Some(field) => field.as_bytes(),
                None => {
                    let part = self.as_received(variable.part()?)?;
                    return Some((part, facts.variable(*variable).unwrap_or_default()));
                }
            },
            Word::Call(Function::Request | Function::RequestNoVary, name) => literal(name)?,
            _ => return None,
        };
        let part = self.as_received(RequestPart::of_field(name)?)?;
        let varies = !matches!(word, Word::Call(Function::RequestNoVary, _));
        if varies && !self.options.no_vary {
            self.evaluation.dependencies.add_vary(name);
        }
        Some((part, facts.request_field(name).unwrap_or_default()))
    }

    fn as_received(&self, part: RequestPart) -> Option<RequestPart> {
        self.evaluation.facts.is_as_received(&part).then_some(part)
    }

    fn match_test(&mut self, part: RequestPart, text: &[u8], pattern: &Pattern) -> bool {
        let result = self.matches(text, pattern);
        let spans = self.evaluation.backreferences.spans_of(pattern, result);
        let (predicate, result) = match spans {
            Some(spans) => Predicate::of_match(pattern, text, Some(&spans)),
            None => (Predicate::Matches(pattern.clone()), result),
        };
        self.record(part, predicate, result);
        result
    }

    /// `Some(true)` for a comparison that asks whether texts are equal, `Some(false)` for one that
    /// asks whether they differ.
    fn equality(&self, comparison: Comparison) -> Option<bool> {
        match comparison.relation {
            _ if comparison.numbers => None,
            Relation::Equal => Some(true),
            Relation::NotEqual => Some(false),
            _ => None,
        }
    }

    fn equality_test(&mut self, part: RequestPart, value: &[u8], text: &[u8]) -> bool {
        let result = value == text;
        self.record(part, Predicate::Equals(text.into()), result);
        result
    }

    fn record(&mut self, part: RequestPart, predicate: Predicate, result: bool) {
        self.evaluation.dependencies.add_test(RequestTest {
            part,
            predicate,
            result,
        });
    }
}

fn literal(word: &Word) -> Option<&[u8]> {
    match word {
        Word::Literal(text) => Some(text),
        _ => None,
    }
}
