//! Parses tokens into the tree: the grammar of httpd's `util_expr_parse.y`.
//!
//! Caveat: a parenthesis may begin a condition or a word, and only the following tokens decide; so
//! the same functions parse both into [`Either`], and nothing is read twice.
//! Out of scope: constants of mod_ssl's older language, except for its comparisons.

mod error;
mod scan;
#[cfg(test)]
mod tests;

use crate::{
    FileTest, GlobOptions, Pattern, PatternOptions, Subnet, Variable,
    tree::{Comparison, Condition, Function, List, Substitution, Word},
};
pub use error::{ExpressionError, STRING_BYTES_MAX};
use scan::{Placed, Token};

/// Maximum nesting of parentheses, negations and arguments. httpd stops at 20 while evaluating.
const DEPTH_MAX: usize = 24;

/// Options for parsing and evaluating an expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpressionOptions {
    /// SSLRequire: every comparison is that of mod_ssl's old language (longer is greater).
    pub tls_require: bool,
    /// Functions and tests that look at the file system are errors (server-side includes).
    pub restricted: bool,
    /// Functions that read files are errors, tests of files are not (`.htaccess`).
    pub in_htaccess: bool,
    /// Request fields that are looked at don't go into `Vary`.
    pub no_vary: bool,
}

type Parsed<T> = Result<T, ExpressionError>;

pub(crate) fn condition(text: &[u8], options: ExpressionOptions) -> Parsed<Condition> {
    let mut parser = Parser {
        tokens: scan::condition(text),
        next: 0,
        depth: 0,
        options,
    };
    let condition = parser.condition()?;
    parser.expect(&Token::End, "$end")?;
    Ok(condition)
}

pub(crate) fn string(text: &[u8], options: ExpressionOptions) -> Parsed<Word> {
    let mut parser = Parser {
        tokens: scan::string(text),
        next: 0,
        depth: 0,
        options,
    };
    let word = parser.parts()?;
    parser.expect(&Token::End, "$end")?;
    Ok(word)
}

enum Either {
    Condition(Condition),
    Word(Word),
}

struct Parser {
    tokens: Vec<Placed>,
    next: usize,
    depth: usize,
    options: ExpressionOptions,
}

impl Parser {
    /// The last token is there for ever.
    fn peek(&self) -> &Token {
        self.tokens
            .get(self.next)
            .map_or(&Token::End, |(token, _)| token)
    }

    fn at(&self) -> usize {
        self.tokens
            .get(self.next)
            .or(self.tokens.last())
            .map_or(0, |(_, at)| *at)
    }

    fn take(&mut self) -> Token {
        match self.tokens.get_mut(self.next) {
            Some((token @ (Token::End | Token::Error(_)), _)) => token.clone(),
            Some((token, _)) => {
                self.next += 1;
                std::mem::replace(token, Token::End)
            }
            None => Token::End,
        }
    }

    fn takes(&mut self, wanted: &Token) -> bool {
        let there = self.peek() == wanted;
        if there {
            self.next += 1;
        }
        there
    }

    fn expect(&mut self, wanted: &Token, name: &str) -> Parsed<()> {
        if self.peek() == wanted {
            self.next += 1;
            return Ok(());
        }
        self.unexpected(&[name])
    }

    /// httpd's words for what stands where it can't.
    fn unexpected<T>(&self, expected: &[&str]) -> Parsed<T> {
        if let Token::Error(message) = self.peek() {
            return self.error(message.clone());
        }
        let expecting = if expected.is_empty() {
            String::new()
        } else {
            format!(", expecting {}", expected.join(" or "))
        };
        self.error(format!(
            "syntax error, unexpected {}{expecting}",
            token_name(self.peek())
        ))
    }

    fn error<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(ExpressionError {
            message: message.into(),
            at: self.at(),
        })
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEPTH_MAX {
            return self.error("Recursion limit reached");
        }
        self.depth += 1;
        let parsed = parse(self)?;
        self.depth -= 1;
        Ok(parsed)
    }

    fn condition(&mut self) -> Parsed<Condition> {
        match self.either()? {
            Either::Condition(condition) => Ok(condition),
            Either::Word(_) => self.unexpected(&[]),
        }
    }

    fn word(&mut self) -> Parsed<Word> {
        let term = self.term()?;
        self.concatenated(term)
    }

    fn either(&mut self) -> Parsed<Either> {
        self.nested(Self::any)
    }

    fn any(&mut self) -> Parsed<Either> {
        self.chain(&Token::Or, Self::all, Condition::Any)
    }

    fn all(&mut self) -> Parsed<Either> {
        self.chain(&Token::And, Self::negation, Condition::All)
    }

    fn chain(
        &mut self,
        operator: &Token,
        operand: fn(&mut Self) -> Parsed<Either>,
        make: fn(Vec<Condition>) -> Condition,
    ) -> Parsed<Either> {
        let first = operand(self)?;
        if self.peek() != operator {
            return Ok(first);
        }
        let Either::Condition(first) = first else {
            return self.unexpected(&[]);
        };
        let mut operands = vec![first];
        while self.takes(operator) {
            match operand(self)? {
                Either::Condition(next) => operands.push(next),
                Either::Word(_) => return self.unexpected(&[]),
            }
        }
        Ok(Either::Condition(make(operands)))
    }

    fn negation(&mut self) -> Parsed<Either> {
        if !self.takes(&Token::Not) {
            return self.primary();
        }
        match self.nested(Self::negation)? {
            Either::Condition(condition) => {
                Ok(Either::Condition(Condition::Not(Box::new(condition))))
            }
            Either::Word(_) => self.unexpected(&[]),
        }
    }

    fn primary(&mut self) -> Parsed<Either> {
        match self.peek() {
            Token::True | Token::False => Ok(Either::Condition(Condition::Constant(
                self.take() == Token::True,
            ))),
            Token::Unary(letter) => {
                let letter = *letter;
                self.next += 1;
                let at = self.at();
                let word = self.word()?;
                self.unary(letter, word, at).map(Either::Condition)
            }
            Token::Sign(b'(') => {
                self.next += 1;
                let inside = self.either()?;
                let expected = if matches!(inside, Either::Condition(_)) {
                    "T_OP_OR or T_OP_AND or ')'"
                } else {
                    "')'"
                };
                self.expect(&Token::Sign(b')'), expected)?;
                match inside {
                    Either::Condition(condition) => Ok(Either::Condition(condition)),
                    Either::Word(word) => self.behind_word(word),
                }
            }
            _ => {
                let term = self.term()?;
                self.behind_word(term)
            }
        }
    }

    /// A word begun with `word`, or a comparison.
    fn behind_word(&mut self, word: Word) -> Parsed<Either> {
        let word = self.concatenated(word)?;
        let condition = match self.peek() {
            Token::Compare(numbers, relation) => {
                let comparison = Comparison {
                    numbers: *numbers,
                    relation: *relation,
                };
                self.next += 1;
                Condition::Compare(comparison, word, self.word()?)
            }
            Token::Matches | Token::MatchesNot => {
                let negated = self.take() == Token::MatchesNot;
                Condition::Matches {
                    word,
                    pattern: self.plain_regex()?,
                    negated,
                }
            }
            Token::In => {
                self.next += 1;
                Condition::In(word, self.list()?)
            }
            Token::Binary(name) => {
                let (name, at) = (name.clone(), self.at());
                self.next += 1;
                let argument = self.word()?;
                self.binary(&name, word, argument, at)?
            }
            _ => return Ok(Either::Word(word)),
        };
        Ok(Either::Condition(condition))
    }

    fn concatenated(&mut self, first: Word) -> Parsed<Word> {
        if self.peek() != &Token::Concat {
            return Ok(first);
        }
        let mut words = vec![first];
        while self.takes(&Token::Concat) {
            words.push(self.term()?);
        }
        Ok(Word::Concat(words))
    }

    fn term(&mut self) -> Parsed<Word> {
        self.nested(Self::term_inside)
    }

    fn term_inside(&mut self) -> Parsed<Word> {
        match self.peek() {
            Token::Digit(_) => match self.take() {
                Token::Digit(digits) => Ok(Word::Literal(digits.into())),
                _ => self.unexpected(&[]),
            },
            Token::StringBegin => {
                self.next += 1;
                let word = self.parts()?;
                self.expect(&Token::StringEnd, "T_STR_END")?;
                Ok(word)
            }
            Token::VariableBegin | Token::ExpressionBegin | Token::Backreference(_) => {
                self.variable()
            }
            Token::Id(_) => self.call(),
            Token::Sub => self.substitute(),
            Token::Join => self.join(),
            Token::Sign(b'(') => {
                self.next += 1;
                let word = self.word()?;
                self.expect(&Token::Sign(b')'), "')'")?;
                Ok(word)
            }
            _ => self.unexpected(&[]),
        }
    }

    /// Parses a sequence of text, variables, and backreferences.
    fn parts(&mut self) -> Parsed<Word> {
        let mut words = Vec::new();
        loop {
            match self.peek() {
                Token::Text(_) => {
                    if let Token::Text(text) = self.take() {
                        words.push(Word::Literal(text.into()));
                    }
                }
                Token::VariableBegin | Token::ExpressionBegin | Token::Backreference(_) => {
                    let variable = self.nested(Self::variable)?;
                    words.push(variable);
                }
                _ => break,
            }
        }
        Ok(match words.len() {
            0 => Word::Literal(Box::default()),
            1 => words.swap_remove(0),
            _ => Word::Concat(words),
        })
    }

    fn variable(&mut self) -> Parsed<Word> {
        match self.take() {
            Token::Backreference(digit) => return Ok(Word::Backreference(digit)),
            Token::ExpressionBegin => {
                let inside = self.either()?;
                self.expect(&Token::ExpressionEnd, "T_VAREXP_END")?;
                return Ok(match inside {
                    Either::Word(word) => word,
                    Either::Condition(condition) => Word::Condition(Box::new(condition)),
                });
            }
            _ => {}
        }
        let at = self.at();
        let Token::Id(name) = self.peek() else {
            return self.unexpected(&["T_ID"]);
        };
        let name = name.clone();
        self.next += 1;
        if self.takes(&Token::Sign(b':')) {
            let argument = self.parts()?;
            self.expect(&Token::VariableEnd, "T_VAR_END")?;
            return self.function(&name, argument, at);
        }
        if let Token::Error(message) = self.peek() {
            return self.error(format!(
                "syntax error, unexpected T_ERROR, expecting T_VAR_END or ':': {message}"
            ));
        }
        if !self.takes(&Token::VariableEnd) {
            return self.unexpected(&["T_VAR_END", "':'"]);
        }
        named_variable(&name).ok_or_else(|| not_there("Variable", "", &name, at))
    }

    /// `name(word)` or `replace(word, word, word)`.
    fn call(&mut self) -> Parsed<Word> {
        let at = self.at();
        let Token::Id(name) = self.take() else {
            return self.unexpected(&[]);
        };
        self.expect(&Token::Sign(b'('), "'('")?;
        let mut words = self.words()?;
        self.expect(&Token::Sign(b')'), "')'")?;
        if name.eq_ignore_ascii_case(b"replace") {
            return match <[Word; 3]>::try_from(words) {
                Ok(three) => Ok(Word::Replace(Box::new(three))),
                Err(_) => Err(ExpressionError {
                    message: "replace() function needs exactly 3 arguments".to_owned(),
                    at,
                }),
            };
        }
        match (words.pop(), words.is_empty()) {
            (Some(word), true) => self.function(&name, word, at),
            _ => Err(ExpressionError {
                message: "syntax error, unexpected ','".to_owned(),
                at,
            }),
        }
    }

    fn function(&self, name: &[u8], argument: Word, at: usize) -> Parsed<Word> {
        // mod_ssl's own.
        if let (true, Word::Literal(variable)) = (name.eq_ignore_ascii_case(b"ssl"), &argument) {
            return Ok(Word::TlsVariable(variable.to_ascii_uppercase().into()));
        }
        // The Apache manual, mod_include: pages have their variables under one more name.
        let page_variable = (self.options.restricted && name.eq_ignore_ascii_case(b"v"))
            .then_some(Function::RequestEnvironment);
        let function = page_variable
            .or_else(|| Function::from_name(name))
            .ok_or_else(|| not_there("Function", "", name, at))?;
        if (self.options.restricted || self.options.in_htaccess) && function.is_restricted() {
            return Err(restricted("", name, at));
        }
        Ok(Word::Call(function, Box::new(argument)))
    }

    fn words(&mut self) -> Parsed<Vec<Word>> {
        let mut words = vec![self.word()?];
        while self.takes(&Token::Sign(b',')) {
            words.push(self.word()?);
        }
        Ok(words)
    }

    fn list(&mut self) -> Parsed<List> {
        self.nested(Self::list_inside)
    }

    fn list_inside(&mut self) -> Parsed<List> {
        match self.peek() {
            Token::Sign(b'{') => {
                self.next += 1;
                let words = self.words()?;
                self.expect(&Token::Sign(b'}'), "'}' or ','")?;
                Ok(List::Words(words))
            }
            Token::Sign(b'(') => {
                self.next += 1;
                let list = self.list()?;
                self.expect(&Token::Sign(b')'), "')'")?;
                Ok(list)
            }
            Token::Split => self.split(),
            Token::Id(name) if name.eq_ignore_ascii_case(b"PeerExtList") => {
                self.next += 1;
                self.expect(&Token::Sign(b'('), "'('")?;
                let word = self.word()?;
                self.expect(&Token::Sign(b')'), "')'")?;
                Ok(List::PeerExtensions(word))
            }
            Token::Id(name) => Err(not_there("List-returning function", "", name, self.at())),
            _ => self.unexpected(&["T_ID", "'{'"]),
        }
    }

    fn substitute(&mut self) -> Parsed<Word> {
        let (parenthesis, substitution) = self.operator_head()?;
        let word = self.word()?;
        self.operator_end(parenthesis)?;
        Ok(Word::Substitute {
            word: Box::new(word),
            substitution,
        })
    }

    fn split(&mut self) -> Parsed<List> {
        let (parenthesis, substitution) = self.operator_head()?;
        let list = self.list_or_word()?;
        self.operator_end(parenthesis)?;
        Ok(List::Split {
            list: Box::new(list),
            substitution,
        })
    }

    fn join(&mut self) -> Parsed<Word> {
        self.next += 1;
        let parenthesis = self.takes(&Token::Sign(b'('));
        let list = self.list_or_word()?;
        let separator = if self.takes(&Token::Sign(b',')) {
            Some(Box::new(self.word()?))
        } else {
            None
        };
        self.operator_end(parenthesis)?;
        Ok(Word::Join {
            list: Box::new(list),
            separator,
        })
    }

    /// The operator, perhaps a parenthesis, the pattern and the comma behind it.
    fn operator_head(&mut self) -> Parsed<(bool, Substitution)> {
        self.next += 1;
        let parenthesis = self.takes(&Token::Sign(b'('));
        let substitution = self.substitution()?;
        self.expect(&Token::Sign(b','), "','")?;
        Ok((parenthesis, substitution))
    }

    fn operator_end(&mut self, parenthesis: bool) -> Parsed<()> {
        if parenthesis {
            self.expect(&Token::Sign(b')'), "')'")
        } else {
            Ok(())
        }
    }

    fn list_or_word(&mut self) -> Parsed<List> {
        match self.peek() {
            Token::Sign(b'{') | Token::Split => self.list(),
            Token::Id(name) if name.eq_ignore_ascii_case(b"PeerExtList") => self.list(),
            _ => Ok(List::Words(vec![self.word()?])),
        }
    }

    fn plain_regex(&mut self) -> Parsed<Box<Pattern>> {
        match self.peek() {
            Token::Regex(..) => self.substitution().map(|substitution| substitution.pattern),
            // httpd's scanner comes to the end without a word.
            Token::Error(message) if message == scan::UNTERMINATED_REGEX => {
                self.error("syntax error, unexpected $end, expecting T_REGEX or T_REGEX_I")
            }
            _ => self.unexpected(&["T_REGEX", "T_REGEX_I"]),
        }
    }

    fn substitution(&mut self) -> Parsed<Substitution> {
        let at = self.at();
        let (pattern, replacement, flags) = match self.peek() {
            Token::Regex(pattern, flags) => {
                let parts = (pattern.clone(), None, flags.clone());
                self.next += 1;
                parts
            }
            Token::Substitution(pattern) => {
                let pattern = pattern.clone();
                self.next += 1;
                let replacement = self.parts()?;
                let Token::SubstitutionEnd(flags) = self.take() else {
                    return self.unexpected(&[]);
                };
                (pattern, Some(Box::new(replacement)), flags)
            }
            _ => return self.unexpected(&["T_REGEX"]),
        };
        let options = PatternOptions {
            multiline: flags.contains(&b'm'),
            ..PatternOptions::caseless(flags.contains(&b'i'))
        };
        let failed = |_| ExpressionError {
            message: "Failed to compile regular expression".to_owned(),
            at,
        };
        let pattern = Box::new(Pattern::compile(&pattern, options).map_err(failed)?);
        Ok(Substitution {
            pattern,
            replacement,
            all: flags.contains(&b'g'),
        })
    }

    fn unary(&self, letter: u8, word: Word, at: usize) -> Parsed<Condition> {
        let file = |test| {
            if self.options.restricted {
                Err(restricted("-", &[letter], at))
            } else {
                Ok(test)
            }
        };
        Ok(match letter {
            b'n' => Condition::NotEmpty(word),
            b'z' => Condition::Empty(word),
            b'T' => Condition::Truth(word),
            b'R' => Condition::ClientIn(constant_subnet("R", &word, at)?),
            b'd' => Condition::File(file(FileTest::Directory)?, word),
            b'e' => Condition::File(file(FileTest::Exists)?, word),
            b'f' => Condition::File(file(FileTest::Regular)?, word),
            b's' => Condition::File(file(FileTest::NotEmpty)?, word),
            b'L' | b'h' => Condition::File(file(FileTest::Link)?, word),
            b'x' => Condition::File(file(FileTest::Executable)?, word),
            b'F' => Condition::FileAccessible(word),
            b'U' | b'A' => Condition::UriAccessible(word),
            letter => return Err(not_there("Unary operator", "-", &[letter], at)),
        })
    }

    fn binary(&self, name: &[u8], text: Word, argument: Word, at: usize) -> Parsed<Condition> {
        let options = match name.to_ascii_lowercase().as_slice() {
            b"ipmatch" => {
                return Ok(Condition::AddressIn(
                    text,
                    constant_subnet("ipmatch", &argument, at)?,
                ));
            }
            b"fnmatch" => GlobOptions {
                pathname: true,
                caseless: false,
            },
            b"strmatch" => GlobOptions::default(),
            b"strcmatch" => GlobOptions {
                pathname: false,
                caseless: true,
            },
            _ => return Err(not_there("Binary operator", "-", name, at)),
        };
        Ok(Condition::Glob {
            text,
            pattern: argument,
            options,
        })
    }
}

fn named_variable(name: &[u8]) -> Option<Word> {
    if name
        .get(..4)
        .is_some_and(|start| start.eq_ignore_ascii_case(b"SSL_"))
    {
        return Some(Word::TlsVariable(name.to_ascii_uppercase().into()));
    }
    let row = Variable::from_name(name).filter(|row| row.in_expressions)?;
    Some(Word::Variable(row.variable))
}

fn constant_subnet(name: &str, word: &Word, at: usize) -> Parsed<Subnet> {
    let Word::Literal(text) = word else {
        return Err(ExpressionError {
            message: format!("-{name} requires subnet/netmask as constant argument"),
            at,
        });
    };
    Subnet::parse(text).map_err(|error| ExpressionError {
        message: error.to_string(),
        at,
    })
}

fn not_there(kind: &str, prefix: &str, name: &[u8], at: usize) -> ExpressionError {
    ExpressionError {
        message: format!(
            "{kind} '{prefix}{}' does not exist",
            String::from_utf8_lossy(name)
        ),
        at,
    }
}

fn restricted(prefix: &str, name: &[u8], at: usize) -> ExpressionError {
    let name = String::from_utf8_lossy(name);
    ExpressionError {
        message: format!("{prefix}{name} not available in restricted context"),
        at,
    }
}

/// Name of a token in httpd's grammar.
fn token_name(token: &Token) -> String {
    use crate::tree::Relation::*;
    let name = match token {
        Token::True => "T_TRUE",
        Token::False => "T_FALSE",
        Token::Digit(_) => "T_DIGIT",
        Token::Id(_) => "T_ID",
        Token::Text(_) => "T_STRING",
        Token::StringBegin => "T_STR_BEGIN",
        Token::StringEnd => "T_STR_END",
        Token::VariableBegin => "T_VAR_BEGIN",
        Token::VariableEnd => "T_VAR_END",
        Token::ExpressionBegin => "T_VAREXP_BEGIN",
        Token::ExpressionEnd => "T_VAREXP_END",
        Token::Backreference(_) => "T_REGEX_BACKREF",
        Token::Regex(..) => "T_REGEX",
        Token::Substitution(_) | Token::SubstitutionEnd(_) => "T_REGSUB",
        Token::Unary(_) => "T_OP_UNARY",
        Token::Binary(_) => "T_OP_BINARY",
        Token::Compare(true, relation) => match relation {
            Equal => "T_OP_EQ",
            NotEqual => "T_OP_NE",
            Less => "T_OP_LT",
            LessOrEqual => "T_OP_LE",
            Greater => "T_OP_GT",
            GreaterOrEqual => "T_OP_GE",
        },
        Token::Compare(false, relation) => match relation {
            Equal => "T_OP_STR_EQ",
            NotEqual => "T_OP_STR_NE",
            Less => "T_OP_STR_LT",
            LessOrEqual => "T_OP_STR_LE",
            Greater => "T_OP_STR_GT",
            GreaterOrEqual => "T_OP_STR_GE",
        },
        Token::Matches => "T_OP_REG",
        Token::MatchesNot => "T_OP_NRE",
        Token::In => "T_OP_IN",
        Token::And => "T_OP_AND",
        Token::Or => "T_OP_OR",
        Token::Not => "T_OP_NOT",
        Token::Concat => "T_OP_CONCAT",
        Token::Join => "T_OP_JOIN",
        Token::Split => "T_OP_SPLIT",
        Token::Sub => "T_OP_SUB",
        Token::Sign(sign) => return format!("'{}'", char::from(*sign)),
        Token::Error(_) => "T_ERROR",
        Token::End => "$end",
    };
    name.to_owned()
}
