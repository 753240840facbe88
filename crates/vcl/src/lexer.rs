//! Tokens of VCL 4.
//!
//! Called by: `parser`.
//! Caveat: names contain dots and hyphens (`req.http.X-Forwarded-For`), so a minus sign stands
//! alone only after a space.
//! Out of scope: what tokens mean.

/// Longer files are refused.
pub const FILE_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    Name(String),
    Text(String),
    /// A number with its unit: `10`, `0.5s`, `1h`.
    Number(String),
    /// Punctuation or an operator.
    Sign(&'static str),
    /// Inline C, which only Varnish runs.
    InlineC,
    End,
}

/// A token with its place: line and column from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub line: u32,
    pub column: u32,
}

/// An error in the text, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LexError {
    pub message: String,
    pub line: u32,
    pub column: u32,
}

const SIGNS: [&str; 27] = [
    "==", "!=", "!~", "&&", "||", "<=", ">=", "+=", "-=", "*=", "/=", "{", "}", "(", ")", ";", ",",
    "=", "~", "!", "<", ">", "+", "-", "*", "/", ".",
];

/// All tokens of a file; the last one is [`TokenKind::End`].
/// # Errors
/// The first character that begins no token, or an open comment or string.
pub fn tokens(text: &str) -> Result<Vec<Token>, LexError> {
    let mut lexer = Lexer {
        rest: text,
        line: 1,
        column: 1,
    };
    let mut found = Vec::new();
    loop {
        lexer.skip_space()?;
        let (line, column) = (lexer.line, lexer.column);
        let kind = lexer.next_kind()?;
        let is_end = kind == TokenKind::End;
        found.push(Token { kind, line, column });
        if is_end {
            return Ok(found);
        }
    }
}

struct Lexer<'t> {
    rest: &'t str,
    line: u32,
    column: u32,
}

impl<'t> Lexer<'t> {
    fn error(&self, message: &str) -> LexError {
        LexError {
            message: message.to_owned(),
            line: self.line,
            column: self.column,
        }
    }

    /// Takes that many bytes, which end at a character.
    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        for letter in taken.chars() {
            if letter == '\n' {
                (self.line, self.column) = (self.line + 1, 1);
            } else {
                self.column += 1;
            }
        }
        self.rest = rest;
        taken
    }

    fn skip_space(&mut self) -> Result<(), LexError> {
        loop {
            let space = self.rest.len() - self.rest.trim_start().len();
            self.take(space);
            if self.rest.starts_with('#') || self.rest.starts_with("//") {
                self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                let Some(end) = self.rest.find("*/") else {
                    return Err(self.error("the comment has no end"));
                };
                self.take(end + 2);
            } else {
                return Ok(());
            }
        }
    }

    fn next_kind(&mut self) -> Result<TokenKind, LexError> {
        let Some(first) = self.rest.chars().next() else {
            return Ok(TokenKind::End);
        };
        if self.rest.starts_with("C{") {
            return self.between("C{", "}C").map(|_| TokenKind::InlineC);
        }
        if self.rest.starts_with("{\"") {
            return self.between("{\"", "\"}").map(TokenKind::Text);
        }
        if self.rest.starts_with("\"\"\"") {
            return self.between("\"\"\"", "\"\"\"").map(TokenKind::Text);
        }
        if first == '"' {
            return self.string();
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_.-:".contains(letter);
            return Ok(TokenKind::Name(self.take_while(is_part).to_owned()));
        }
        if first.is_ascii_digit() {
            let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '.';
            return Ok(TokenKind::Number(self.take_while(is_part).to_owned()));
        }
        match SIGNS.iter().find(|sign| self.rest.starts_with(**sign)) {
            Some(sign) => {
                self.take(sign.len());
                Ok(TokenKind::Sign(sign))
            }
            None => Err(self.error("unexpected character")),
        }
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|letter| !is_part(letter));
        self.take(end.unwrap_or(self.rest.len()))
    }

    fn between(&mut self, open: &str, close: &str) -> Result<String, LexError> {
        let Some(end) = self
            .rest
            .get(open.len()..)
            .and_then(|rest| rest.find(close))
        else {
            return Err(self.error("the string has no end"));
        };
        self.take(open.len());
        let inside = self.take(end).to_owned();
        self.take(close.len());
        Ok(inside)
    }

    /// A string of one line; VCL has no escapes in it but `%xx`, which is left as it is.
    fn string(&mut self) -> Result<TokenKind, LexError> {
        let inside = self.rest.get(1..).unwrap_or_default();
        match inside.find(['"', '\n']) {
            Some(end) if inside[end..].starts_with('"') => {
                self.take(1);
                let text = self.take(end).to_owned();
                self.take(1);
                Ok(TokenKind::Text(text))
            }
            _ => Err(self.error("the string has no end on its line")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_places() {
        let text =
            "# one\nset req.http.X-A = \"a b\" + 10.5s; /* c\n */ if (!x ~ {\"a\"b\"}) C{ int; }C";
        let found = tokens(text).unwrap();
        let kinds: Vec<TokenKind> = found.iter().map(|token| token.kind.clone()).collect();
        let name = |text: &str| TokenKind::Name(text.into());
        let sign = TokenKind::Sign;
        assert_eq!(
            kinds,
            [
                name("set"),
                name("req.http.X-A"),
                sign("="),
                TokenKind::Text("a b".into()),
                sign("+"),
                TokenKind::Number("10.5s".into()),
                sign(";"),
                name("if"),
                sign("("),
                sign("!"),
                name("x"),
                sign("~"),
                TokenKind::Text("a\"b".into()),
                sign(")"),
                TokenKind::InlineC,
                TokenKind::End
            ]
        );
        assert_eq!((found[0].line, found[0].column), (2, 1));
        assert_eq!((found[7].line, found[7].column), (3, 5));
    }

    #[test]
    fn texts_without_an_end() {
        for (text, line, column) in [
            ("a \"b", 1, 3),
            ("\"a\nb\"", 1, 1),
            ("\n /* c", 2, 2),
            ("{\"a\"", 1, 1),
            ("C{ a", 1, 1),
            ("a $", 1, 3),
            ("ä", 1, 1),
        ] {
            let error = tokens(text).unwrap_err();
            assert_eq!((error.line, error.column), (line, column), "{text}");
        }
    }
}
