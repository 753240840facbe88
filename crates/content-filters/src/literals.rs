//! Replaces texts in content, wherever they stand (nginx's `sub_filter`).
//!
//! Called by: the front ends, through [`apply`].
//! Caveat: texts are compared regardless of the case of ASCII letters; the first one in the list that
//! begins at a place wins, and what has replaced a text is not searched again.
//! Out of scope: patterns (`substitute`), which see lines.

use crate::{
    budget::within_budget,
    transform::{Transform, transform_response},
};
use saker_pipeline::{BodyError, RequestBudget, Response};
use std::rc::Rc;

/// A text and its replacement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Literal {
    pub text: Vec<u8>,
    pub replacement: Vec<u8>,
}

/// Replaces texts in the content of a response. `once`: each at its first place only.
pub fn apply(
    response: &mut Response,
    literals: Vec<Literal>,
    once: bool,
    budget: &Rc<RequestBudget>,
) {
    if let Some(replacer) = Replacer::new(literals, once, Rc::clone(budget)) {
        transform_response(response, replacer);
    }
}

struct Replacer {
    /// In lower case; replaced ones are empty.
    literals: Vec<Literal>,
    /// First bytes of the texts, in both cases.
    begins: [bool; 256],
    bytes_max: usize,
    once: bool,
    /// Input that may be the beginning of a text.
    held: Vec<u8>,
    budget: Rc<RequestBudget>,
}

impl Replacer {
    fn new(literals: Vec<Literal>, once: bool, budget: Rc<RequestBudget>) -> Option<Replacer> {
        let mut replacer = Replacer {
            literals,
            begins: [false; 256],
            bytes_max: 0,
            once,
            held: Vec::new(),
            budget,
        };
        replacer.literals.retain(|literal| !literal.text.is_empty());
        for literal in &mut replacer.literals {
            literal.text.make_ascii_lowercase();
        }
        replacer.prepare();
        (!replacer.literals.is_empty()).then_some(replacer)
    }

    fn prepare(&mut self) {
        self.begins = [false; 256];
        self.bytes_max = 0;
        for literal in &self.literals {
            let Some(first) = literal.text.first() else {
                continue;
            };
            for byte in [first.to_ascii_lowercase(), first.to_ascii_uppercase()] {
                if let Some(begins) = self.begins.get_mut(usize::from(byte)) {
                    *begins = true;
                }
            }
            self.bytes_max = self.bytes_max.max(literal.text.len());
        }
    }

    /// Handles the bytes that cannot be the beginning of a longer text; at the end, all.
    fn replace(&mut self, is_end: bool, output: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        let mut at = 0;
        while let Some(byte) = held.get(at) {
            let rest = held.get(at..).unwrap_or_default();
            let is_begin = self.begins.get(usize::from(*byte)) == Some(&true);
            if is_begin && rest.len() < self.bytes_max && !is_end {
                break;
            }
            let found = is_begin.then(|| self.found(rest)).flatten();
            let Some(number) = found else {
                output.push(*byte);
                at += 1;
                continue;
            };
            let Some(literal) = self.literals.get(number) else {
                break;
            };
            output.extend_from_slice(&literal.replacement);
            self.budget.work().make(literal.replacement.len());
            at += literal.text.len();
            if self.once {
                self.literals.remove(number);
                self.prepare();
            }
        }
        self.held = held.get(at..).unwrap_or_default().to_vec();
    }

    fn found(&self, rest: &[u8]) -> Option<usize> {
        self.literals.iter().position(|literal| {
            let begin = rest.get(..literal.text.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(&literal.text))
        })
    }
}

impl Transform for Replacer {
    fn push(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<(), BodyError> {
        self.budget.work().grant_for(input.len());
        self.held.extend_from_slice(input);
        self.replace(false, output);
        within_budget(&self.budget, "sub_filter")
    }

    fn finish(&mut self, output: &mut Vec<u8>) -> Result<(), BodyError> {
        self.replace(true, output);
        within_budget(&self.budget, "sub_filter")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(literals: &[(&str, &str)], once: bool, text: &str, piece: usize) -> String {
        let literal = |(text, replacement): &(&str, &str)| Literal {
            text: text.as_bytes().to_vec(),
            replacement: replacement.as_bytes().to_vec(),
        };
        let literals = literals.iter().map(literal).collect();
        let mut replacer = Replacer::new(literals, once, Rc::default()).unwrap();
        let mut output = Vec::new();
        for piece in text.as_bytes().chunks(piece) {
            replacer.push(piece, &mut output).unwrap();
        }
        replacer.finish(&mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn texts_are_replaced_however_they_arrive() {
        let text = "<HEAD>one two One tw two";
        for piece in 1..=text.len() {
            let all = replaced(&[("one", "1"), ("two", "zwei")], false, text, piece);
            assert_eq!(all, "<HEAD>1 zwei 1 tw zwei");
            let once = replaced(&[("one", "1"), ("<head>", "<head>x")], true, text, piece);
            assert_eq!(once, "<head>x1 two One tw two");
            let nested = replaced(&[("aa", "a"), ("a", "b")], false, "aaa", piece);
            assert_eq!(nested, "ab");
            assert_eq!(replaced(&[("ab", "")], false, "aabb ab a", piece), "ab  a");
        }
    }

    #[test]
    fn nothing_to_replace_is_no_filter() {
        assert!(Replacer::new(vec![Literal::default()], false, Rc::default()).is_none());
    }
}
