//! Reads VCL 4 into a tree.
//!
//! Called by: `lib`.
//! Caveat: the first error ends the reading: what follows it can't be trusted. Nesting is limited.
//! Out of scope: meaning of names; `include` is not followed.

use crate::{
    lexer::{FILE_BYTES_MAX, LexError, Token, TokenKind, tokens},
    syntax::{Acl, AclEntry, Backend, Expression, Place, Statement, StatementKind, Sub, VclFile},
};

/// Maximum nesting of blocks and parentheses.
const DEPTH_MAX: usize = 64;

/// Maximum operators of an expression: in a chain, each is a level of the tree.
const CHAIN_MAX: usize = 1000;

/// Reads a file.
/// # Errors
/// The first error of syntax.
pub fn parse(text: &str) -> Result<VclFile, LexError> {
    if text.len() > FILE_BYTES_MAX {
        return Err(LexError {
            message: format!("the file is larger than {FILE_BYTES_MAX} bytes"),
            line: 1,
            column: 1,
        });
    }
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
        operators: 0,
    };
    let mut file = VclFile::default();
    while parser.peek() != &TokenKind::End {
        parser.declaration(&mut file)?;
    }
    Ok(file)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// Operators of the expression so far, those in parentheses and arguments included.
    operators: usize,
}

type Parsed<T> = Result<T, LexError>;

impl Parser {
    fn peek(&self) -> &TokenKind {
        self.tokens
            .get(self.at)
            .map_or(&TokenKind::End, |token| &token.kind)
    }

    fn place(&self) -> Place {
        let token = self.tokens.get(self.at).or(self.tokens.last());
        token.map_or_else(Place::default, |token| Place {
            line: token.line,
            column: token.column,
        })
    }

    fn next(&mut self) -> TokenKind {
        let kind = self.peek().clone();
        self.at += 1;
        kind
    }

    fn error<T>(&self, expected: &str) -> Parsed<T> {
        let found = match self.peek() {
            TokenKind::Name(text) | TokenKind::Number(text) => format!("`{text}`"),
            TokenKind::Text(_) => "a string".to_owned(),
            TokenKind::Sign(sign) => format!("`{sign}`"),
            TokenKind::InlineC => "inline C".to_owned(),
            TokenKind::End => "the end of the file".to_owned(),
        };
        let Place { line, column } = self.place();
        Err(LexError {
            message: format!("expected {expected}, not {found}"),
            line,
            column,
        })
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), TokenKind::Sign(found) if *found == sign)
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let is_there = self.is_sign(sign);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, sign: &str) -> Parsed<()> {
        match self.take_sign(sign) {
            true => Ok(()),
            false => self.error(&format!("`{sign}`")),
        }
    }

    fn name(&mut self, expected: &str) -> Parsed<String> {
        match self.peek().clone() {
            TokenKind::Name(name) => {
                self.at += 1;
                Ok(name)
            }
            _ => self.error(expected),
        }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Parser) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEPTH_MAX {
            return self.error("less nesting");
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn declaration(&mut self, file: &mut VclFile) -> Parsed<()> {
        let place = self.place();
        if self.peek() == &TokenKind::InlineC {
            self.at += 1;
            file.others.push(("inline C".into(), place));
            return Ok(());
        }
        let word = self.name("a declaration (`backend`, `acl`, `sub`)")?;
        match word.as_str() {
            "vcl" => self.skip_past_semicolon(),
            "import" | "include" => {
                file.others.push((word, place));
                self.skip_past_semicolon()
            }
            "backend" => {
                let name = self.name("the name of the backend")?;
                let mut attributes = Vec::new();
                if self.is_sign("{") {
                    self.attributes("", &mut attributes)?;
                } else {
                    self.skip_past_semicolon()?;
                }
                file.backends.push(Backend {
                    name,
                    attributes,
                    place,
                });
                Ok(())
            }
            "probe" => {
                let name = self.name("the name of the probe")?;
                let mut attributes = Vec::new();
                self.attributes("", &mut attributes)?;
                file.probes.push((name, attributes));
                Ok(())
            }
            "acl" => {
                let acl = self.acl()?;
                file.acls.push(acl);
                Ok(())
            }
            "sub" => {
                let name = self.name("the name of the subroutine")?;
                let body = self.block()?;
                file.subs.push(Sub { name, body, place });
                Ok(())
            }
            _ => {
                self.at -= 1;
                self.error("`backend`, `acl`, `probe`, `import`, `include` or `sub`")
            }
        }
    }

    fn skip_past_semicolon(&mut self) -> Parsed<()> {
        while !self.is_sign(";") {
            if self.peek() == &TokenKind::End {
                return self.error("`;`");
            }
            self.at += 1;
        }
        self.expect(";")
    }

    /// `{ .host = "a"; .probe = { .url = "/"; } }`
    fn attributes(&mut self, prefix: &str, found: &mut Vec<(String, String)>) -> Parsed<()> {
        self.expect("{")?;
        while !self.take_sign("}") {
            self.expect(".")?;
            let name = format!("{prefix}{}", self.name("an attribute")?);
            self.expect("=")?;
            if self.is_sign("{") {
                self.deeper(|parser| parser.attributes(&format!("{name}."), found))?;
                self.take_sign(";");
                continue;
            }
            let mut value = String::new();
            while !self.is_sign(";") {
                match self.next() {
                    TokenKind::Text(text) | TokenKind::Name(text) | TokenKind::Number(text) => {
                        value.push_str(&text)
                    }
                    TokenKind::Sign(sign @ ("-" | "+" | ".")) => value.push_str(sign),
                    _ => {
                        self.at -= 1;
                        return self.error("`;`");
                    }
                }
            }
            self.expect(";")?;
            found.push((name, value));
        }
        Ok(())
    }

    fn acl(&mut self) -> Parsed<Acl> {
        let name = self.name("the name of the list")?;
        // Flags of newer versions: `acl a -pedantic +log {`.
        while !self.is_sign("{") {
            if self.peek() == &TokenKind::End {
                return self.error("`{`");
            }
            self.at += 1;
        }
        self.expect("{")?;
        let mut entries = Vec::new();
        while !self.take_sign("}") {
            let place = self.place();
            let is_excluded = self.take_sign("!");
            let in_brackets = self.take_sign("(");
            let TokenKind::Text(address) = self.peek().clone() else {
                return self.error("an address in quotes");
            };
            self.at += 1;
            let prefix = match self.take_sign("/") {
                true => match self.next() {
                    TokenKind::Number(bits) => Some(bits),
                    _ => {
                        self.at -= 1;
                        return self.error("the length of the prefix");
                    }
                },
                false => None,
            };
            if in_brackets {
                self.expect(")")?;
            }
            self.expect(";")?;
            entries.push(AclEntry {
                address,
                prefix,
                is_excluded,
                place,
            });
        }
        Ok(Acl { name, entries })
    }

    fn block(&mut self) -> Parsed<Vec<Statement>> {
        self.deeper(|parser| {
            parser.expect("{")?;
            let mut body = Vec::new();
            while !parser.take_sign("}") {
                body.push(parser.statement()?);
            }
            Ok(body)
        })
    }

    fn statement(&mut self) -> Parsed<Statement> {
        let place = self.place();
        if self.peek() == &TokenKind::InlineC {
            self.at += 1;
            let kind = StatementKind::InlineC;
            return Ok(Statement { kind, place });
        }
        let word = self.name("a statement")?;
        let kind = match word.as_str() {
            "if" => StatementKind::If(self.branches()?),
            "set" => {
                let name = self.name("a variable")?;
                let is_assigned = ["=", "+=", "-=", "*=", "/="]
                    .iter()
                    .any(|sign| self.take_sign(sign));
                if !is_assigned {
                    return self.error("`=`");
                }
                let value = self.expression()?;
                self.expect(";")?;
                StatementKind::Set { name, value }
            }
            "unset" | "remove" => {
                let name = self.name("a variable")?;
                self.expect(";")?;
                StatementKind::Unset(name)
            }
            "call" => {
                let name = self.name("a subroutine")?;
                self.expect(";")?;
                StatementKind::Call(name)
            }
            "new" => {
                let name = self.name("a name")?;
                self.expect("=")?;
                let value = self.expression()?;
                self.expect(";")?;
                StatementKind::New(name, value)
            }
            "return" => self.action()?,
            _ => {
                self.at -= 1;
                let value = self.expression()?;
                self.expect(";")?;
                StatementKind::Expression(value)
            }
        };
        Ok(Statement { kind, place })
    }

    /// `return (synth(404, "x"));`, `return;`
    fn action(&mut self) -> Parsed<StatementKind> {
        if self.take_sign(";") {
            return Ok(StatementKind::Return(String::new(), Vec::new()));
        }
        self.expect("(")?;
        let action = match self.expression()? {
            Expression::Name(name) => (name, Vec::new()),
            Expression::Function(name, arguments) => (name, arguments),
            _ => return self.error("an action"),
        };
        self.expect(")")?;
        self.expect(";")?;
        Ok(StatementKind::Return(action.0, action.1))
    }

    fn branches(&mut self) -> Parsed<Vec<(Option<Expression>, Vec<Statement>)>> {
        let mut branches = Vec::new();
        loop {
            self.expect("(")?;
            let condition = self.expression()?;
            self.expect(")")?;
            branches.push((Some(condition), self.block()?));
            let TokenKind::Name(word) = self.peek().clone() else {
                return Ok(branches);
            };
            match word.as_str() {
                "elseif" | "elsif" | "elif" => self.at += 1,
                "else" => {
                    self.at += 1;
                    if !matches!(self.peek(), TokenKind::Name(word) if word == "if") {
                        branches.push((None, self.block()?));
                        return Ok(branches);
                    }
                    self.at += 1;
                }
                _ => return Ok(branches),
            }
        }
    }

    fn expression(&mut self) -> Parsed<Expression> {
        self.operators = 0;
        self.inner_expression()
    }

    /// An expression in another one.
    fn inner_expression(&mut self) -> Parsed<Expression> {
        self.deeper(|parser| parser.level(0))
    }

    /// Operators from those that bind least.
    fn level(&mut self, level: usize) -> Parsed<Expression> {
        const LEVELS: [&[&str]; 5] = [
            &["||"],
            &["&&"],
            &["==", "!=", "~", "!~", "<=", ">=", "<", ">"],
            &["+", "-"],
            &["*", "/"],
        ];
        let Some(signs) = LEVELS.get(level) else {
            return self.operand();
        };
        // `!client.ip ~ list` denies the comparison, not the address.
        if level == 2 && self.take_sign("!") {
            return self.deeper(|parser| Ok(Expression::Not(Box::new(parser.level(2)?))));
        }
        let mut left = self.level(level + 1)?;
        loop {
            let found = match self.peek() {
                TokenKind::Sign(sign) if signs.contains(sign) => *sign,
                // Strings next to each other are one (VCL 3 and 4).
                TokenKind::Text(_) if level == 3 => "+",
                _ => return Ok(left),
            };
            if self.operators == CHAIN_MAX {
                return self.error("a shorter expression");
            }
            self.operators += 1;
            self.at += usize::from(self.is_sign(found));
            let right = self.level(level + 1)?;
            left = Expression::Binary(found, Box::new(left), Box::new(right));
        }
    }

    fn operand(&mut self) -> Parsed<Expression> {
        if self.take_sign("(") {
            let inner = self.inner_expression()?;
            self.expect(")")?;
            return Ok(inner);
        }
        self.take_sign("-");
        match self.peek().clone() {
            TokenKind::Text(text) => {
                self.at += 1;
                Ok(Expression::Text(text))
            }
            TokenKind::Number(number) => {
                self.at += 1;
                Ok(Expression::Number(number))
            }
            TokenKind::Name(name) => {
                self.at += 1;
                if !self.take_sign("(") {
                    return Ok(Expression::Name(name));
                }
                let mut arguments = Vec::new();
                while !self.take_sign(")") {
                    let argument = self.inner_expression()?;
                    // `name = value`
                    if self.take_sign("=") {
                        self.inner_expression()?;
                    }
                    arguments.push(argument);
                    if !self.is_sign(")") {
                        self.expect(",")?;
                    }
                }
                Ok(Expression::Function(name, arguments))
            }
            _ => self.error("a value"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_places() {
        for (text, line, column) in [
            ("vcl 4.1;\nbackend a { host = \"a\"; }", 2, 13),
            ("sub a { set req.url; }", 1, 20),
            ("sub a {", 1, 8),
            ("sub a { if req.url { } }", 1, 12),
            ("acl a { \"a\"/x; }", 1, 13),
            ("nothing", 1, 1),
            ("sub a { return (hash) }", 1, 23),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(
                (error.line, error.column),
                (line, column),
                "{text}: {error:?}"
            );
        }
    }

    #[test]
    fn nesting_is_limited() {
        let nested = |depth: usize| {
            format!(
                "sub a {{ set x = {}1{}; }}",
                "(".repeat(depth),
                ")".repeat(depth)
            )
        };
        assert!(parse(&nested(DEPTH_MAX - 2)).is_ok());
        assert!(parse(&nested(DEPTH_MAX)).is_err());
        assert!(parse(&nested(100_000)).is_err());
        assert!(parse(&format!("sub a {{ set x = {}1; }}", "!".repeat(100_000))).is_err());
        assert!(parse(&"a".repeat(FILE_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn expressions_have_a_maximum_length() {
        let chain = |operators: usize, sign: &str| {
            format!(
                "sub a {{ set x = a{}; }}",
                format!("{sign}a").repeat(operators)
            )
        };
        for sign in [" || ", " && ", " == ", " + ", " * "] {
            assert!(parse(&chain(CHAIN_MAX, sign)).is_ok(), "{sign}");
            assert!(parse(&chain(CHAIN_MAX + 1, sign)).is_err(), "{sign}");
        }
        let strings = format!("sub a {{ set x = {}; }}", "\"\" ".repeat(250_000));
        for text in [chain(249_999, "*"), strings] {
            let error = parse(&text).unwrap_err();
            assert!(error.message.contains("a shorter expression"), "{error:?}");
        }
        // Parentheses and arguments are part of the expression; the next one begins anew.
        let half = format!("a{}", " + a".repeat(CHAIN_MAX / 2));
        assert!(parse(&format!("sub a {{ set x = ({half}) * f({half}); }}")).is_err());
        assert!(parse(&format!("sub a {{ set x = {half}; set x = {half} + a; }}")).is_ok());
    }

    #[test]
    fn operators_bind_as_in_vcl() {
        let file =
            parse("sub a { if (a && b ~ \"x\" \"y\" || !c) { call d; } else if (e) { } }").unwrap();
        let StatementKind::If(branches) = &file.subs[0].body[0].kind else {
            panic!("{file:?}")
        };
        let condition = branches[0].0.as_ref().unwrap();
        let parts = condition.chain("||");
        assert_eq!((branches.len(), parts.len()), (2, 2));
        assert_eq!(parts[0].chain("&&").len(), 2);
        assert!(matches!(parts[1], Expression::Not(_)));
    }
}
