//! Statements of a file: headers, keys with values, and comments, made of the parser's tokens.
//!
//! Called by: `format`.
//! Caveat: only texts without syntax errors come here; what is unexpected nevertheless becomes part
//! of a scalar, and the comparison at the end refuses the result.

use toml_parser::{
    Source,
    lexer::{Token, TokenKind},
};

/// A line of the file, or several if a value has line breaks.
#[derive(Debug)]
pub struct Statement {
    /// An empty line comes before it.
    pub after_blank: bool,
    pub kind: Kind,
    /// The comment behind it, and its column.
    pub comment: Option<(String, usize)>,
}

#[derive(Debug)]
pub enum Kind {
    Comment(String),
    /// With its brackets.
    Header(String),
    Pair(String, Value),
}

#[derive(Debug)]
pub enum Value {
    Scalar(String),
    /// An array, or an inline table, whose parts are pairs.
    List {
        is_table: bool,
        parts: Vec<Part>,
        /// There is a line break or a comment in it.
        is_broken: bool,
    },
}

/// Something in a list.
#[derive(Debug)]
pub struct Part {
    pub after_blank: bool,
    pub kind: PartKind,
    /// The comment behind it.
    pub comment: Option<String>,
}

#[derive(Debug)]
pub enum PartKind {
    Comment(String),
    Element(Value),
    Pair(String, Value),
}

/// Parses a text into statements.
pub fn parse(text: &str) -> Vec<Statement> {
    let mut parser = Parser {
        text,
        tokens: tokens(text),
        at: 0,
    };
    parser.statements()
}

/// Returns the comments of a text.
pub fn comments(text: &str) -> Vec<&str> {
    let tokens = tokens(text).into_iter();
    tokens
        .filter(|token| token.kind() == TokenKind::Comment)
        .map(|token| slice(text, &token).trim_end())
        .collect()
}

fn tokens(text: &str) -> Vec<Token> {
    Source::new(text).lex().into_vec()
}

fn slice<'t>(text: &'t str, token: &Token) -> &'t str {
    let span = token.span();
    text.get(span.start()..span.end()).unwrap_or_default()
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    at: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> TokenKind {
        self.tokens.get(self.at).map_or(TokenKind::Eof, Token::kind)
    }

    /// The text of the next token, which is passed.
    fn take(&mut self) -> &'t str {
        let token = self.tokens.get(self.at).copied();
        self.at += 1;
        token.map_or("", |token| slice(self.text, &token))
    }

    fn skip_spaces(&mut self) {
        while self.peek() == TokenKind::Whitespace {
            self.at += 1;
        }
    }

    /// Passes spaces and line breaks; returns the number of the latter.
    fn skip_breaks(&mut self) -> usize {
        let mut count = 0;
        loop {
            match self.peek() {
                TokenKind::Whitespace => {}
                TokenKind::Newline => count += 1,
                _ => return count,
            }
            self.at += 1;
        }
    }

    fn statements(&mut self) -> Vec<Statement> {
        let mut statements = Vec::new();
        loop {
            // The line break of the statement before is one of them.
            let breaks = self.skip_breaks();
            let kind = match self.peek() {
                TokenKind::Eof => return statements,
                TokenKind::Comment => Kind::Comment(self.take().trim_end().to_owned()),
                TokenKind::LeftSquareBracket => Kind::Header(self.until_end()),
                _ => {
                    let key = self.key();
                    Kind::Pair(key, self.value())
                }
            };
            let comment = self.comment_behind();
            statements.push(Statement {
                after_blank: breaks > 1,
                kind,
                comment,
            });
        }
    }

    /// The rest of a header, without spaces.
    fn until_end(&mut self) -> String {
        let mut text = String::new();
        loop {
            match self.peek() {
                TokenKind::Newline | TokenKind::Comment | TokenKind::Eof => return text,
                TokenKind::Whitespace => self.at += 1,
                _ => text.push_str(self.take()),
            }
        }
    }

    /// A key without spaces, up to behind its equals sign.
    fn key(&mut self) -> String {
        let mut key = String::new();
        loop {
            match self.peek() {
                TokenKind::Whitespace => self.at += 1,
                TokenKind::Equals => {
                    self.at += 1;
                    return key;
                }
                TokenKind::Newline | TokenKind::Eof => return key,
                _ => key.push_str(self.take()),
            }
        }
    }

    fn value(&mut self) -> Value {
        self.skip_spaces();
        match self.peek() {
            TokenKind::LeftSquareBracket => self.list(false),
            TokenKind::LeftCurlyBracket => self.list(true),
            _ => Value::Scalar(self.scalar()),
        }
    }

    /// A scalar may have several tokens: a number with a fraction, a date with a space.
    fn scalar(&mut self) -> String {
        let mut text = String::new();
        loop {
            match self.peek() {
                TokenKind::Newline
                | TokenKind::Comment
                | TokenKind::Eof
                | TokenKind::Comma
                | TokenKind::RightSquareBracket
                | TokenKind::RightCurlyBracket => {
                    text.truncate(text.trim_end().len());
                    return text;
                }
                _ => text.push_str(self.take()),
            }
        }
    }

    fn list(&mut self, is_table: bool) -> Value {
        self.at += 1;
        let (mut parts, mut is_broken) = (Vec::<Part>::new(), false);
        loop {
            let breaks = self.skip_breaks();
            is_broken |= breaks > 0;
            let after_blank = breaks > 1;
            let kind = match self.peek() {
                TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => {
                    self.at += 1;
                    break;
                }
                TokenKind::Eof => break,
                TokenKind::Comma => {
                    self.at += 1;
                    continue;
                }
                TokenKind::Comment => {
                    is_broken = true;
                    let text = self.take().trim_end().to_owned();
                    match parts.last_mut() {
                        // On the same line as the element before.
                        Some(last) if breaks == 0 && last.comment.is_none() => {
                            last.comment = Some(text);
                            continue;
                        }
                        _ => PartKind::Comment(text),
                    }
                }
                _ if is_table => {
                    let key = self.key();
                    PartKind::Pair(key, self.value())
                }
                _ => PartKind::Element(self.value()),
            };
            parts.push(Part {
                after_blank: after_blank && !parts.is_empty(),
                kind,
                comment: None,
            });
        }
        Value::List {
            is_table,
            parts,
            is_broken,
        }
    }

    fn comment_behind(&mut self) -> Option<(String, usize)> {
        self.skip_spaces();
        if self.peek() != TokenKind::Comment {
            return None;
        }
        let start = self.tokens.get(self.at)?.span().start();
        let before = self.text.get(..start)?;
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count();
        Some((self.take().trim_end().to_owned(), column))
    }
}
