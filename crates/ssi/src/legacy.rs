//! The expressions of pages before the server's common language (SSILegacyExprParser): strings,
//! comparisons, `&&`, `||`, `!`, groups.
//!
//! Called by: `page`, for `if` and `elif`.
//! Caveat: `&&` and `||` have the same precedence, from left to right; adjacent strings are one,
//! with a blank between; and if there is a pattern anywhere, both sides of `&&` and `||` are
//! evaluated, so that its groups are available afterwards.

use crate::{
    context::{Matched, SsiContext},
    scanner::is_blank,
    substitution::{Missing, Values},
};
use saker_ap_expr::{Pattern, PatternOptions};

/// Maximum nesting of groups and negations.
const DEPTH_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Text(Vec<u8>),
    Pattern(Vec<u8>),
    Open,
    Close,
    And,
    Or,
    Not,
    Access,
    Compare(Compare),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug)]
enum Node {
    Text(Vec<u8>),
    Compare(Compare, Vec<u8>, Side),
    Not(Box<Node>),
    /// `-A path`
    Access(Vec<u8>),
    /// The first operand, and those after `&&` (true) or `||`, from left to right. Flat, because an
    /// element may contain any number of them.
    Chain(Box<Node>, Vec<(bool, Node)>),
    /// `()`, and nothing behind `!`.
    Nothing,
}

#[derive(Debug)]
enum Side {
    Text(Vec<u8>),
    Pattern(Vec<u8>),
}

/// Returns true if the expression holds; groups of its patterns are left in `matched`. The error
/// describes a syntax error.
pub fn holds(
    expression: &[u8],
    context: &mut dyn SsiContext,
    matched: &mut Matched,
    time_format: &[u8],
) -> Result<bool, String> {
    let tokens = tokens(expression);
    if tokens.is_empty() {
        return Ok(false);
    }
    let has_pattern = tokens
        .iter()
        .any(|token| matches!(token, Token::Pattern(_)));
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
        depth: 0,
    };
    let node = parser.either().and_then(|node| {
        if parser.at == tokens.len() {
            Ok(node)
        } else {
            Err("Unmatched ')'")
        }
    });
    let node =
        node.map_err(|fault| format!("{fault} in \"{}\"", String::from_utf8_lossy(expression)))?;
    Ok(Judge {
        context,
        matched,
        time_format,
        has_pattern,
    }
    .holds(&node))
}

fn tokens(text: &[u8]) -> Vec<Token> {
    let (mut tokens, mut rest) = (Vec::new(), text);
    loop {
        rest = rest
            .get(rest.iter().take_while(|byte| is_blank(**byte)).count()..)
            .unwrap_or_default();
        let is_behind_access = tokens.last() == Some(&Token::Access);
        let (token, length) = match rest {
            [] => return tokens,
            [b'(', ..] => (Token::Open, 1),
            [b')', ..] => (Token::Close, 1),
            [b'=', b'=', ..] => (Token::Compare(Compare::Equal), 2),
            [b'=', ..] => (Token::Compare(Compare::Equal), 1),
            [b'!', b'=', ..] => (Token::Compare(Compare::Unequal), 2),
            [b'!', ..] => (Token::Not, 1),
            [b'|', b'|', ..] => (Token::Or, 2),
            [b'&', b'&', ..] => (Token::And, 2),
            [b'>', b'=', ..] => (Token::Compare(Compare::GreaterOrEqual), 2),
            [b'>', ..] => (Token::Compare(Compare::Greater), 1),
            [b'<', b'=', ..] => (Token::Compare(Compare::LessOrEqual), 2),
            [b'<', ..] => (Token::Compare(Compare::Less), 1),
            [b'-', b'A', ..] => (Token::Access, 2),
            [b'\'', behind @ ..] => {
                let (text, length) = quoted(behind, b'\'');
                (Token::Text(text), length + 1)
            }
            [b'/', behind @ ..] if !is_behind_access => {
                let (text, length) = quoted(behind, b'/');
                (Token::Pattern(text), length + 1)
            }
            bare => {
                let (text, length) = bare_word(bare);
                (Token::Text(text), length)
            }
        };
        tokens.push(token);
        rest = rest.get(length..).unwrap_or_default();
    }
}

/// Reads up to the quote, without backslashes; returns the length including the quote, or nothing
/// if there is none.
fn quoted(text: &[u8], quote: u8) -> (Vec<u8>, usize) {
    let (mut out, mut bytes) = (Vec::new(), text.iter().copied().enumerate());
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => out.extend(bytes.next().map(|(_, byte)| byte)),
            byte if byte == quote => return (out, at + 1),
            byte => out.push(byte),
        }
    }
    (Vec::new(), text.len())
}

/// Up to a blank or an operator; the first byte belongs to it whatever it is.
fn bare_word(text: &[u8]) -> (Vec<u8>, usize) {
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(byte) = text.get(at) {
        let is_double = matches!(byte, b'|' | b'&') && text.get(at + 1) == Some(byte);
        if is_blank(*byte) || at > 0 && (is_double || b"()=!<>".contains(byte)) {
            break;
        }
        if *byte == b'\\' {
            at += 1;
        }
        out.extend(text.get(at));
        at += 1;
    }
    (out, at)
}

struct Parser<'t> {
    tokens: &'t [Token],
    at: usize,
    depth: usize,
}

type Parsed = Result<Node, &'static str>;

const INVALID: &str = "Invalid expression";

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn takes(&mut self, token: &Token) -> bool {
        let is_it = self.peek() == Some(token);
        self.at += usize::from(is_it);
        is_it
    }

    fn either(&mut self) -> Parsed {
        let first = self.one()?;
        let mut rest = Vec::new();
        loop {
            let is_and = match self.peek() {
                Some(Token::And) => true,
                Some(Token::Or) => false,
                _ if rest.is_empty() => return Ok(first),
                _ => return Ok(Node::Chain(Box::new(first), rest)),
            };
            self.at += 1;
            rest.push((is_and, self.one()?));
        }
    }

    fn one(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(INVALID);
        }
        let node = self.simple();
        self.depth -= 1;
        node
    }

    fn simple(&mut self) -> Parsed {
        match self.peek() {
            Some(Token::Not) => {
                self.at += 1;
                self.negated()
            }
            Some(Token::Open) => {
                self.at += 1;
                self.group()
            }
            Some(Token::Access) => {
                self.at += 1;
                self.text().map(Node::Access).ok_or(INVALID)
            }
            _ => self.comparison(),
        }
    }

    /// A comparison has to stand in parentheses to be negated.
    fn negated(&mut self) -> Parsed {
        match self.peek() {
            None | Some(Token::Close) => Ok(Node::Not(Box::new(Node::Nothing))),
            Some(Token::Text(_)) => self
                .text()
                .map(|text| Node::Not(Box::new(Node::Text(text))))
                .ok_or(INVALID),
            _ => Ok(Node::Not(Box::new(self.one()?))),
        }
    }

    fn group(&mut self) -> Parsed {
        if self.takes(&Token::Close) {
            return Ok(Node::Nothing);
        }
        let node = self.either()?;
        if self.takes(&Token::Close) {
            Ok(node)
        } else {
            Err(if self.peek().is_none() {
                "Unmatched '('"
            } else {
                INVALID
            })
        }
    }

    fn comparison(&mut self) -> Parsed {
        let left = self.text().ok_or(INVALID)?;
        let Some(Token::Compare(compare)) = self.peek() else {
            return Ok(Node::Text(left));
        };
        let compare = *compare;
        self.at += 1;
        let is_equality = matches!(compare, Compare::Equal | Compare::Unequal);
        let right = match self.peek() {
            Some(Token::Pattern(text)) if is_equality => {
                let side = Side::Pattern(text.clone());
                self.at += 1;
                side
            }
            _ => Side::Text(self.text().ok_or(INVALID)?),
        };
        // Nothing but a conjunction or the end may follow.
        match self.peek() {
            None | Some(Token::And | Token::Or | Token::Close) => {
                Ok(Node::Compare(compare, left, right))
            }
            Some(_) => Err(INVALID),
        }
    }

    /// Texts beside each other.
    fn text(&mut self) -> Option<Vec<u8>> {
        let mut joined: Option<Vec<u8>> = None;
        while let Some(Token::Text(text)) = self.tokens.get(self.at) {
            self.at += 1;
            joined = Some(match joined {
                Some(before) if before.is_empty() => text.clone(),
                Some(before) => [before.as_slice(), b" ", text].concat(),
                None => text.clone(),
            });
        }
        joined
    }
}

struct Judge<'w> {
    context: &'w mut dyn SsiContext,
    matched: &'w mut Matched,
    time_format: &'w [u8],
    has_pattern: bool,
}

impl Judge<'_> {
    fn text(&mut self, text: &[u8]) -> Vec<u8> {
        Values {
            context: self.context,
            matched: self.matched,
            time_format: self.time_format,
        }
        .put_in(text, Missing::Nothing)
    }

    fn holds(&mut self, node: &Node) -> bool {
        match node {
            Node::Nothing => true,
            Node::Text(text) => !self.text(text).is_empty(),
            Node::Not(inner) => !self.holds(inner),
            Node::Access(path) => {
                let path = self.text(path);
                self.context.is_accessible(&path)
            }
            Node::Chain(first, rest) => {
                let mut left = self.holds(first);
                for (is_and, node) in rest {
                    if left != *is_and && !self.has_pattern {
                        continue;
                    }
                    let right = self.holds(node);
                    left = if *is_and {
                        left && right
                    } else {
                        left || right
                    };
                }
                left
            }
            Node::Compare(compare, left, right) => self.compare(*compare, left, right),
        }
    }

    fn compare(&mut self, compare: Compare, left: &[u8], right: &Side) -> bool {
        let left = self.text(left);
        let right = match right {
            Side::Text(text) => self.text(text),
            Side::Pattern(text) => {
                let text = self.text(text);
                let is_match = self.is_match(&left, &text);
                return is_match == (compare == Compare::Equal);
            }
        };
        let order = left.cmp(&right);
        match compare {
            Compare::Equal => order.is_eq(),
            Compare::Unequal => order.is_ne(),
            Compare::Less => order.is_lt(),
            Compare::LessOrEqual => order.is_le(),
            Compare::Greater => order.is_gt(),
            Compare::GreaterOrEqual => order.is_ge(),
        }
    }

    fn is_match(&mut self, subject: &[u8], pattern: &[u8]) -> bool {
        let Ok(compiled) = Pattern::compile(pattern, PatternOptions::default()) else {
            self.context.complain(format!(
                "unable to compile pattern \"{}\"",
                String::from_utf8_lossy(pattern)
            ));
            // As Apache, which takes its own error for a match.
            return true;
        };
        match compiled.captures(subject) {
            Ok(Some(spans)) => {
                self.matched.0.set(subject, spans);
                true
            }
            // Neither answer would be right: the page ends.
            Err(_) => {
                self.context.give_up();
                false
            }
            Ok(None) => {
                self.matched.0.clear();
                false
            }
        }
    }
}
