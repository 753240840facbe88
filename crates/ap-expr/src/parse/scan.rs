//! Tokens of expressions.
//!
//! Called by: the parser.
//! Caveat: the language has modes: strings inside conditions, variables inside strings, conditions
//! inside variables. Each mode is a function that appends tokens until its own end, so the list is
//! flat and the parser needs no modes.
//! Out of scope: escapes inside patterns' delimiters, which httpd does not have either.

use super::error::{ExpressionError, STRING_BYTES_MAX};
use crate::tree::Relation;

/// A pattern without its end.
pub(super) const UNTERMINATED_REGEX: &str = "Unterminated regexp";
/// Maximum nesting depth of modes.
const DEPTH_MAX: usize = 20;
const SEPARATORS: &[u8] = b"/#$%^|?!'\",;:._-";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    True,
    False,
    Digit(Vec<u8>),
    Id(Vec<u8>),
    /// Literal part of a string.
    Text(Vec<u8>),
    StringBegin,
    StringEnd,
    VariableBegin,
    VariableEnd,
    ExpressionBegin,
    ExpressionEnd,
    Backreference(u8),
    /// A pattern and its flags.
    Regex(Vec<u8>, Vec<u8>),
    /// A pattern; the replacement follows as parts of a string, then [`Token::SubstitutionEnd`].
    Substitution(Vec<u8>),
    SubstitutionEnd(Vec<u8>),
    Unary(u8),
    Binary(Vec<u8>),
    /// Numbers or texts, and how.
    Compare(bool, Relation),
    Matches,
    MatchesNot,
    In,
    And,
    Or,
    Not,
    Concat,
    Join,
    Split,
    Sub,
    Sign(u8),
    /// Syntax error; always the last token.
    Error(String),
    End,
}

/// A token and where it begins.
pub(super) type Placed = (Token, usize);

/// The tokens of a condition; the last is `End` or `Error`.
pub(super) fn condition(text: &[u8]) -> Vec<Placed> {
    scan(text, |scanner| scanner.expression(false))
}

/// The tokens of a string without delimiters.
pub(super) fn string(text: &[u8]) -> Vec<Placed> {
    scan(text, |scanner| scanner.string(None))
}

fn scan(text: &[u8], mode: impl FnOnce(&mut Scanner<'_>) -> Scanned) -> Vec<Placed> {
    let mut scanner = Scanner {
        text,
        at: 0,
        tokens: Vec::new(),
        depth: 0,
    };
    let end = match mode(&mut scanner) {
        Ok(()) => Token::End,
        Err(error) => {
            scanner.at = error.at;
            Token::Error(error.message)
        }
    };
    scanner.tokens.push((end, scanner.at));
    scanner.tokens
}

type Scanned = Result<(), ExpressionError>;

struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
    tokens: Vec<Placed>,
    depth: usize,
}

impl Scanner<'_> {
    fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, ExpressionError> {
        Err(ExpressionError {
            message: message.into(),
            at: self.at,
        })
    }

    fn push(&mut self, token: Token, length: usize) {
        self.tokens.push((token, self.at));
        self.at += length;
    }

    fn nested(&mut self, mode: impl FnOnce(&mut Self) -> Scanned) -> Scanned {
        if self.depth == DEPTH_MAX {
            return self.error("Recursion limit reached");
        }
        self.depth += 1;
        mode(self)?;
        self.depth -= 1;
        Ok(())
    }

    /// A condition, to the end of the text or, inside a variable, to `:}`.
    fn expression(&mut self, inside: bool) -> Scanned {
        while let Some(byte) = self.peek(0) {
            match byte {
                b' ' | b'\t' | b'\n' => self.at += 1,
                b':' if inside && self.peek(1) == Some(b'}') => {
                    self.push(Token::ExpressionEnd, 2);
                    return Ok(());
                }
                _ => self.expression_token(byte)?,
            }
        }
        if inside {
            self.error("Unterminated expression")
        } else {
            Ok(())
        }
    }

    fn expression_token(&mut self, byte: u8) -> Scanned {
        match byte {
            b'"' | b'\'' => {
                self.push(Token::StringBegin, 1);
                self.nested(|scanner| scanner.string(Some(byte)))
            }
            b'%' if self.peek(1) == Some(b'{') => self.variable(),
            b'$' if self.peek(1).is_some_and(|digit| digit.is_ascii_digit()) => {
                self.backreference();
                Ok(())
            }
            b'/' => self.regex(1, byte),
            b'm' | b's' if self.starts_regex() => {
                let delimiter = self.peek(1).unwrap_or_default();
                if byte == b'm' {
                    self.regex(2, delimiter)
                } else {
                    self.substitution(delimiter)
                }
            }
            b'0'..=b'9' => self.digits(),
            b'-' if self.peek(1).is_some_and(|digit| digit.is_ascii_digit()) => self.digits(),
            b'-' if self
                .peek(1)
                .is_some_and(|letter| letter.is_ascii_alphabetic() || letter == b'_') =>
            {
                self.dash_operator()
            }
            b'a'..=b'z' | b'A'..=b'Z' => self.word(),
            _ => self.sign(byte),
        }
    }

    /// `m` or `s` and a separator, unless a longer name begins here.
    fn starts_regex(&self) -> bool {
        let separator = self.peek(1).is_some_and(|byte| SEPARATORS.contains(&byte));
        separator && !(self.peek(1) == Some(b'_') && self.peek(2).is_some_and(is_name))
    }

    fn digits(&mut self) -> Scanned {
        let sign = usize::from(self.peek(0) == Some(b'-'));
        let length = sign
            + self
                .rest()
                .iter()
                .skip(sign)
                .take_while(|byte| byte.is_ascii_digit())
                .count();
        let text = self.rest()[..length].to_vec();
        self.push(Token::Digit(text), length);
        Ok(())
    }

    fn dash_operator(&mut self) -> Scanned {
        let length = 1 + self
            .rest()
            .iter()
            .skip(1)
            .take_while(|byte| is_name(**byte))
            .count();
        let name = self.rest()[1..length].to_vec();
        let token = match name.as_slice() {
            b"in" => Token::In,
            [letter] => Token::Unary(*letter),
            name => number_relation(name).unwrap_or_else(|| Token::Binary(name.to_vec())),
        };
        self.push(token, length);
        Ok(())
    }

    fn word(&mut self) -> Scanned {
        let length = self
            .rest()
            .iter()
            .take_while(|byte| is_name(**byte))
            .count();
        let name = self.rest()[..length].to_vec();
        let token = match name.as_slice() {
            b"true" => Token::True,
            b"false" => Token::False,
            b"and" => Token::And,
            b"or" => Token::Or,
            b"not" => Token::Not,
            b"in" => Token::In,
            b"join" => Token::Join,
            b"split" => Token::Split,
            b"sub" => Token::Sub,
            _ => number_relation(&name).unwrap_or(Token::Id(name)),
        };
        // Behind `split` and `sub` any separator begins the pattern, with or without its letter.
        let operator = matches!(token, Token::Split | Token::Sub);
        self.push(token, length);
        if operator {
            self.operand_regex()
        } else {
            Ok(())
        }
    }

    /// `split/…/` without the `m`.
    fn operand_regex(&mut self) -> Scanned {
        match self.peek(0) {
            Some(delimiter) if SEPARATORS.contains(&delimiter) => self.regex(1, delimiter),
            _ => Ok(()),
        }
    }

    fn sign(&mut self, byte: u8) -> Scanned {
        let second = self.peek(1);
        let (token, length) = match (byte, second) {
            (b'=', Some(b'~')) => (Token::Matches, 2),
            (b'!', Some(b'~')) => (Token::MatchesNot, 2),
            (b'=', Some(b'=')) => (Token::Compare(false, Relation::Equal), 2),
            (b'=', _) => (Token::Compare(false, Relation::Equal), 1),
            (b'!', Some(b'=')) => (Token::Compare(false, Relation::NotEqual), 2),
            (b'<', Some(b'=')) => (Token::Compare(false, Relation::LessOrEqual), 2),
            (b'<', _) => (Token::Compare(false, Relation::Less), 1),
            (b'>', Some(b'=')) => (Token::Compare(false, Relation::GreaterOrEqual), 2),
            (b'>', _) => (Token::Compare(false, Relation::Greater), 1),
            (b'&', Some(b'&')) => (Token::And, 2),
            (b'|', Some(b'|')) => (Token::Or, 2),
            (b'!', _) => (Token::Not, 1),
            (b'.', _) => (Token::Concat, 1),
            (b'(' | b')' | b'{' | b'}' | b',', _) => (Token::Sign(byte), 1),
            _ => {
                return self.error(format!(
                    "Parse error near '{}'",
                    char::from(byte).escape_default()
                ));
            }
        };
        self.push(token, length);
        Ok(())
    }

    fn backreference(&mut self) {
        let digit = self.peek(1).unwrap_or(b'0') - b'0';
        self.push(Token::Backreference(digit), 2);
    }

    /// `%{NAME}`, `%{name:argument}` or `%{:condition:}`.
    fn variable(&mut self) -> Scanned {
        if self.peek(2) == Some(b':') {
            self.push(Token::ExpressionBegin, 3);
            return self.nested(|scanner| scanner.expression(true));
        }
        self.push(Token::VariableBegin, 2);
        loop {
            match self.peek(0) {
                Some(b'}') => {
                    self.push(Token::VariableEnd, 1);
                    return Ok(());
                }
                Some(b':') => {
                    self.push(Token::Sign(b':'), 1);
                    self.nested(|scanner| scanner.string(Some(b'}')))?;
                    // The closing brace ended the argument; it ends the variable too.
                    if let Some(last) = self.tokens.last_mut() {
                        last.0 = Token::VariableEnd;
                    }
                    return Ok(());
                }
                Some(byte) if byte.is_ascii_alphabetic() => {
                    let length = self
                        .rest()
                        .iter()
                        .take_while(|byte| is_name(**byte))
                        .count();
                    let name = self.rest()[..length].to_vec();
                    self.push(Token::Id(name), length);
                }
                Some(byte) => {
                    return self.error(format!(
                        "Invalid character in variable name '{}'",
                        char::from(byte).escape_default()
                    ));
                }
                None => return self.error("Unterminated string or variable"),
            }
        }
    }

    /// Parts of a string up to `delimiter`, or to the end of the text.
    fn string(&mut self, delimiter: Option<u8>) -> Scanned {
        let mut part = Vec::new();
        let mut begin = self.at;
        loop {
            let Some(byte) = self.peek(0) else {
                self.flush(&mut part, begin);
                return if delimiter.is_none() {
                    Ok(())
                } else {
                    self.error("Unterminated string or variable")
                };
            };
            if Some(byte) == delimiter {
                self.flush(&mut part, begin);
                self.push(Token::StringEnd, 1);
                return Ok(());
            }
            let special = match (byte, self.peek(1)) {
                (b'%', Some(b'{')) => true,
                (b'$', Some(digit)) => digit.is_ascii_digit(),
                _ => false,
            };
            if special {
                self.flush(&mut part, begin);
                if byte == b'%' {
                    self.nested(Self::variable)?
                } else {
                    self.backreference()
                }
                begin = self.at;
                continue;
            }
            self.character(byte, &mut part)?;
        }
    }

    /// Scans one character of a string, perhaps escaped.
    fn character(&mut self, byte: u8, part: &mut Vec<u8>) -> Scanned {
        if part.len() >= STRING_BYTES_MAX {
            return self.error("String too long");
        }
        let (value, length) = match byte {
            b'\n' => return self.error("Unterminated string or variable"),
            b'\\' => self.escape()?,
            byte => (byte, 1),
        };
        part.push(value);
        self.at += length;
        Ok(())
    }

    fn escape(&self) -> Result<(u8, usize), ExpressionError> {
        let simple = |value| Ok((value, 2));
        match self.peek(1) {
            None => Ok((b'\\', 1)),
            Some(b'n') => simple(b'\n'),
            Some(b'r') => simple(b'\r'),
            Some(b't') => simple(b'\t'),
            Some(b'b') => simple(8),
            Some(b'f') => simple(12),
            Some(b'0'..=b'9') => self.octal(),
            Some(other) => simple(other),
        }
    }

    fn octal(&self) -> Result<(u8, usize), ExpressionError> {
        let digits = self
            .rest()
            .iter()
            .skip(1)
            .take(3)
            .take_while(|byte| matches!(byte, b'0'..=b'7'))
            .count();
        let value = self.rest()[1..=digits]
            .iter()
            .fold(0u32, |value, digit| value * 8 + u32::from(digit - b'0'));
        match u8::try_from(value) {
            _ if digits == 0 => self.error("Bad escape sequence"),
            Ok(value) => Ok((value, digits + 1)),
            Err(_) => self.error("Escape sequence out of bound"),
        }
    }

    fn flush(&mut self, part: &mut Vec<u8>, begin: usize) {
        if !part.is_empty() {
            self.tokens.push((Token::Text(std::mem::take(part)), begin));
        }
    }

    /// A pattern behind `skip` bytes, and its flags.
    fn regex(&mut self, skip: usize, delimiter: u8) -> Scanned {
        let begin = self.at;
        self.at += skip;
        let pattern = self.until(delimiter)?;
        let flags = self.flags()?;
        self.tokens.push((Token::Regex(pattern, flags), begin));
        Ok(())
    }

    fn substitution(&mut self, delimiter: u8) -> Scanned {
        let begin = self.at;
        self.at += 2;
        let pattern = self.until(delimiter)?;
        self.tokens.push((Token::Substitution(pattern), begin));
        self.nested(|scanner| scanner.string(Some(delimiter)))?;
        self.tokens.pop();
        let at = self.at;
        let flags = self.flags()?;
        self.tokens.push((Token::SubstitutionEnd(flags), at));
        Ok(())
    }

    fn until(&mut self, delimiter: u8) -> Result<Vec<u8>, ExpressionError> {
        let Some(length) = memchr::memchr(delimiter, self.rest()) else {
            return self.error(UNTERMINATED_REGEX);
        };
        if length > STRING_BYTES_MAX {
            return self.error("Regexp too long");
        }
        let pattern = self.rest()[..length].to_vec();
        self.at += length + 1;
        Ok(pattern)
    }

    fn flags(&mut self) -> Result<Vec<u8>, ExpressionError> {
        let length = self
            .rest()
            .iter()
            .take_while(|byte| b"ismg".contains(byte))
            .count();
        let flags = self.rest()[..length].to_vec();
        self.at += length;
        if self
            .peek(0)
            .is_some_and(|byte| byte.is_ascii_alphanumeric())
        {
            return self.error("Invalid regexp flag(s)");
        }
        Ok(flags)
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn number_relation(name: &[u8]) -> Option<Token> {
    let relation = match name {
        b"eq" => Relation::Equal,
        b"ne" => Relation::NotEqual,
        b"lt" => Relation::Less,
        b"le" => Relation::LessOrEqual,
        b"gt" => Relation::Greater,
        b"ge" => Relation::GreaterOrEqual,
        _ => return None,
    };
    Some(Token::Compare(true, relation))
}
