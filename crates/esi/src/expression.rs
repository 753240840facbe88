//! Conditions of `when` and of `test` (ESI 1.0 section 4.2): comparisons, `!`, `&`, `|`,
//! parentheses.
//!
//! Numbers are compared as numbers if both sides are numeric, else as text. An expression that
//! can't be parsed is always false.

use crate::{
    facts::Facts,
    value::{self, Value},
};
use std::cmp::Ordering;

/// Parentheses and negations inside one another.
const DEPTH_MAX: usize = 32;

#[derive(Clone, Debug)]
pub(crate) enum Expression {
    Any(Vec<Expression>),
    All(Vec<Expression>),
    Not(Box<Expression>),
    Compare(Value, Comparison, Value),
    /// A value alone: there is one, and it is not `false`.
    Truth(Value),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison {
    less: bool,
    equal: bool,
    greater: bool,
}

impl Expression {
    /// Parses an expression; `None` if it is invalid.
    pub fn parse(text: &[u8]) -> Option<Expression> {
        let mut parser = Parser {
            rest: text,
            depth: 0,
        };
        let expression = parser.any()?;
        parser.skip_space();
        parser.rest.is_empty().then_some(expression)
    }

    /// Returns an expression that is always false.
    pub fn never() -> Expression {
        Expression::Any(Vec::new())
    }

    pub fn holds(&self, facts: &Facts) -> bool {
        match self {
            Expression::Any(parts) => parts.iter().any(|part| part.holds(facts)),
            Expression::All(parts) => parts.iter().all(|part| part.holds(facts)),
            Expression::Not(part) => !part.holds(facts),
            Expression::Compare(left, comparison, right) => {
                comparison.holds(order(&left.plain(facts), &right.plain(facts)))
            }
            Expression::Truth(value) => {
                !matches!(value.plain(facts).as_slice(), b"" | b"false" | b"0")
            }
        }
    }
}

impl Comparison {
    fn holds(self, order: Ordering) -> bool {
        match order {
            Ordering::Less => self.less,
            Ordering::Equal => self.equal,
            Ordering::Greater => self.greater,
        }
    }
}

fn order(left: &[u8], right: &[u8]) -> Ordering {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<i64>().ok();
    match (number(left), number(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => left.cmp(right),
    }
}

struct Parser<'t> {
    rest: &'t [u8],
    depth: usize,
}

impl Parser<'_> {
    fn any(&mut self) -> Option<Expression> {
        let mut parts = vec![self.all()?];
        while self.take(b"||") || self.take(b"|") {
            parts.push(self.all()?);
        }
        Some(if parts.len() == 1 {
            parts.pop()?
        } else {
            Expression::Any(parts)
        })
    }

    fn all(&mut self) -> Option<Expression> {
        let mut parts = vec![self.one()?];
        while self.take(b"&&") || self.take(b"&") {
            parts.push(self.one()?);
        }
        Some(if parts.len() == 1 {
            parts.pop()?
        } else {
            Expression::All(parts)
        })
    }

    fn one(&mut self) -> Option<Expression> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let expression = if self.take(b"!") {
            Expression::Not(Box::new(self.one()?))
        } else if self.take(b"(") {
            let inside = self.any()?;
            self.take(b")").then_some(inside)?
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Some(expression)
    }

    fn comparison(&mut self) -> Option<Expression> {
        let left = self.operand()?;
        let compare = |less, equal, greater| {
            Some(Comparison {
                less,
                equal,
                greater,
            })
        };
        let comparison = match () {
            () if self.take(b"==") => compare(false, true, false),
            () if self.take(b"!=") => compare(true, false, true),
            () if self.take(b"<=") => compare(true, true, false),
            () if self.take(b">=") => compare(false, true, true),
            () if self.take(b"<") => compare(true, false, false),
            () if self.take(b">") => compare(false, false, true),
            () => None,
        };
        match comparison {
            Some(comparison) => Some(Expression::Compare(left, comparison, self.operand()?)),
            None => Some(Expression::Truth(left)),
        }
    }

    fn operand(&mut self) -> Option<Value> {
        self.skip_space();
        if let Some((variable, length)) = value::variable(self.rest) {
            self.rest = &self.rest[length..];
            return Some(Value::of(variable));
        }
        if let Some(quoted) = self.rest.strip_prefix(b"'") {
            let end = memchr::memchr(b'\'', quoted)?;
            self.rest = &quoted[end + 1..];
            return Some(Value::parse(&quoted[..end]));
        }
        let is_word = |byte: &u8| {
            byte.is_ascii_alphanumeric()
                || matches!(byte, b'-' | b'.' | b'_' | b'+' | b'/' | b'%' | 0x80..)
        };
        let end = self
            .rest
            .iter()
            .position(|byte| !is_word(byte))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then(|| Value::literal(word))
    }

    fn take(&mut self, word: &[u8]) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(word) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }
}
