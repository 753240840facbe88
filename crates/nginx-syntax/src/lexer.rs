//! Text to tokens: words with nginx's quoting, and the marks `;`, `{`, and `}`.
//!
//! Called by: `read`.
//! Caveat: `{` ends a word, except behind `$`; so a regular expression with braces needs quotes, as
//! nginx's manual says. `#` and quotes count at the beginning of a word only.
//! Out of scope: directives and their blocks.

/// Size of nginx's buffer, which a word has to fit in, with what ends it.
const WORD_BYTES_MAX: usize = 4096;

/// A word of a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    /// From 1.
    pub line: u32,
    pub column: u32,
    /// Written in quotes.
    pub is_quoted: bool,
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    Word(Word),
    /// `;`
    End,
    /// `{`
    Open,
    /// `}`
    Close,
}

/// A character that cannot stand where it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LexError {
    /// In nginx's words.
    pub message: String,
    pub line: u32,
}

/// Reads tokens one by one.
#[derive(Debug)]
pub struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
    line: u32,
    /// Offset of the first byte of the line.
    line_start: usize,
    /// The last token was a quoted word, which must be followed by space or a mark.
    after_quote: bool,
}

impl<'t> Lexer<'t> {
    pub fn new(text: &'t str) -> Lexer<'t> {
        let text = text.as_bytes();
        Lexer {
            text: text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text),
            at: 0,
            line: 1,
            line_start: 0,
            after_quote: false,
        }
    }

    /// Returns the line of the next byte, from 1.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// Returns the next token; `None` at the end of the text.
    ///
    /// # Errors
    /// A quoted word without an end, or text directly behind one.
    pub fn next_token(&mut self) -> Result<Option<Token>, LexError> {
        if std::mem::take(&mut self.after_quote)
            && let Some(byte) = self.peek()
            && !(byte.is_ascii_whitespace() || matches!(byte, b';' | b'{' | b')'))
        {
            return Err(self.error(format!("unexpected \"{}\"", char::from(byte))));
        }
        self.skip_space()?;
        let Some(byte) = self.peek() else {
            return Ok(None);
        };
        let mark = match byte {
            b';' => Token::End,
            b'{' => Token::Open,
            b'}' => Token::Close,
            b'"' | b'\'' => return self.quoted(byte).map(|word| Some(Token::Word(word))),
            _ => return self.bare().map(|word| Some(Token::Word(word))),
        };
        self.advance();
        Ok(Some(mark))
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn advance(&mut self) {
        if self.peek() == Some(b'\n') {
            self.line += 1;
            self.line_start = self.at + 1;
        }
        self.at += 1;
    }

    /// Skips white space and comments.
    fn skip_space(&mut self) -> Result<(), LexError> {
        let mut comment = None;
        while let Some(byte) = self.peek() {
            match (byte, comment) {
                (b'\n', Some(start)) => {
                    self.check_length(start, self.line)?;
                    comment = None;
                }
                (_, Some(_)) => {}
                (b'#', None) => comment = Some(self.at),
                _ if byte.is_ascii_whitespace() => {}
                _ => return Ok(()),
            }
            self.advance();
        }
        Ok(())
    }

    /// Refuses text that nginx's buffer does not hold, and names the line where it begins.
    fn check_length(&self, start: usize, line: u32) -> Result<(), LexError> {
        let text = self.text.get(start..self.at).unwrap_or_default();
        if text.len() < WORD_BYTES_MAX {
            return Ok(());
        }
        let beginning = String::from_utf8_lossy(text.get(..10).unwrap_or_default());
        Err(LexError {
            message: format!("too long parameter \"{beginning}...\" started"),
            line,
        })
    }

    fn word_at(&self) -> (u32, u32) {
        let column = u32::try_from(self.at - self.line_start).unwrap_or(u32::MAX - 1) + 1;
        (self.line, column)
    }

    fn quoted(&mut self, quote: u8) -> Result<Word, LexError> {
        let (line, column) = self.word_at();
        self.advance();
        let start = self.at;
        let mut bytes = Vec::new();
        loop {
            if self.at - start >= WORD_BYTES_MAX {
                let mark = char::from(quote);
                let message = format!(
                    "too long parameter, probably missing terminating \"{mark}\" character"
                );
                return Err(LexError { message, line });
            }
            match self.peek() {
                None => {
                    return Err(
                        self.error("unexpected end of file, expecting \";\" or \"}\"".to_owned())
                    );
                }
                Some(b'\\') => self.escaped(&mut bytes),
                Some(byte) => {
                    self.advance();
                    if byte == quote {
                        break;
                    }
                    bytes.push(byte);
                }
            }
        }
        self.after_quote = true;
        self.check_length(start, line)?;
        Ok(word(bytes, (line, column), true))
    }

    fn bare(&mut self) -> Result<Word, LexError> {
        let place = self.word_at();
        let start = self.at;
        let mut bytes = Vec::new();
        let mut behind_dollar = false;
        while let Some(byte) = self.peek() {
            let ends = byte.is_ascii_whitespace() || byte == b';' || byte == b'{' && !behind_dollar;
            if ends {
                break;
            }
            behind_dollar = byte == b'$';
            match byte {
                b'\\' => self.escaped(&mut bytes),
                _ => {
                    self.advance();
                    bytes.push(byte);
                }
            }
        }
        self.check_length(start, place.0)?;
        Ok(word(bytes, place, false))
    }

    /// A backslash and what it stands before. It stays unless it names a quote, itself, or a
    /// control character.
    fn escaped(&mut self, out: &mut Vec<u8>) {
        self.advance();
        let Some(byte) = self.peek() else {
            return out.push(b'\\');
        };
        self.advance();
        match byte {
            b'"' | b'\'' | b'\\' => out.push(byte),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'n' => out.push(b'\n'),
            _ => out.extend([b'\\', byte]),
        }
    }

    fn error(&self, message: String) -> LexError {
        LexError {
            message,
            line: self.line,
        }
    }
}

fn word(bytes: Vec<u8>, (line, column): (u32, u32), is_quoted: bool) -> Word {
    Word {
        text: String::from_utf8_lossy(&bytes).into_owned(),
        line,
        column,
        is_quoted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut lexer = Lexer::new(text);
        let mut out = Vec::new();
        loop {
            match lexer.next_token() {
                Ok(None) => return out.join(" "),
                Ok(Some(Token::Word(word))) => out.push(format!("<{}>", word.text)),
                Ok(Some(Token::End)) => out.push(";".into()),
                Ok(Some(Token::Open)) => out.push("{".into()),
                Ok(Some(Token::Close)) => out.push("}".into()),
                Err(error) => return format!("{}:{}", error.line, error.message),
            }
        }
    }

    #[test]
    fn words_marks_and_comments() {
        let cases = [
            ("a b;# c;\nd{e;}", "<a> <b> ; <d> { <e> ; }"),
            ("a${b}c d;", "<a${b}c> <d> ;"),
            (r#"a "b c" 'd"e';"#, "<a> <b c> <d\"e> ;"),
            (r#"a "b\"c\\d\.e";"#, "<a> <b\"c\\d\\.e> ;"),
            (r"location ~ \.php$ {}", r"<location> <~> <\.php$> { }"),
            ("a b#c;", "<a> <b#c> ;"),
            (r"a \;b;", r"<a> <\;b> ;"),
            ("a '\\n';", "<a> <\n> ;"),
            ("a \"b\"c;", "1:unexpected \"c\""),
            (
                "a\n'b",
                "2:unexpected end of file, expecting \";\" or \"}\"",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn words_fit_in_a_buffer() {
        let long = |count: usize| "a".repeat(count);
        let started = "2:too long parameter \"aaaaaaaaaa...\" started";
        let quoted = "2:too long parameter, probably missing terminating \"'\" character";
        let word = |count| format!("<{}> ;", long(count));
        let rows = [
            (format!("\n{};", long(4095)), word(4095)),
            (format!("\n{};", long(4096)), started.to_owned()),
            (format!("\n'{}';", long(4094)), word(4094)),
            (format!("\n'{}';", long(4095)), started.to_owned()),
            (format!("\n'{}\n';", long(4096)), quoted.to_owned()),
            (format!("\n'{}", long(8000)), quoted.to_owned()),
            (
                format!("\n#{}\n", long(4095)),
                "2:too long parameter \"#aaaaaaaaa...\" started".to_owned(),
            ),
            (format!("\n#{}\na;", long(4094)), "<a> ;".to_owned()),
        ];
        for (text, expected) in rows {
            assert_eq!(shown(&text), expected, "{} bytes", text.len());
        }
    }

    #[test]
    fn places_are_counted_from_one() {
        let mut lexer = Lexer::new("a\n  bc;");
        let word = |token| match token {
            Ok(Some(Token::Word(word))) => (word.line, word.column),
            other => panic!("{other:?}"),
        };
        assert_eq!(word(lexer.next_token()), (1, 1));
        assert_eq!(word(lexer.next_token()), (2, 3));
    }
}
