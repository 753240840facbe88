//! RewriteCond, compiled.
//!
//! Called by: `settings`, when the configuration is read.
//! Caveat: the first characters of the pattern decide on its kind, and nearly everything may be a
//! regular expression after all.
//! Out of scope: the lexicographic order promised by the manual; httpd compares lengths first, and
//! so does this.

use crate::{DirectiveError, Notice, Place, SourceLine, arguments, template::Template};
use saker_ap_expr::{Expression, ExpressionOptions, FileTest, Pattern, PatternOptions};
use std::cmp::Ordering;

#[derive(Debug)]
pub(crate) struct Condition {
    pub input: Template,
    pub test: Test,
    pub negated: bool,
    pub caseless: bool,
    pub or_next: bool,
    pub no_vary: bool,
    /// Text as written, for the trace.
    pub text: Vec<u8>,
    pub line: Option<SourceLine>,
}

#[derive(Debug)]
pub(crate) enum Test {
    Pattern(Pattern),
    File(FileTest),
    /// `-U`
    Uri,
    /// `-F`
    FileAccess,
    Text(Relation, Vec<u8>),
    Number(Relation, i64),
    Expression(Box<Expression>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Less,
    LessOrEqual,
    Equal,
    Greater,
    GreaterOrEqual,
}

impl Relation {
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Relation::Less => order.is_lt(),
            Relation::LessOrEqual => order.is_le(),
            Relation::Equal => order.is_eq(),
            Relation::Greater => order.is_gt(),
            Relation::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl Condition {
    /// Compiles the line after the directive's name.
    pub fn compile(line: &[u8], place: Place) -> Result<(Condition, Notice), DirectiveError> {
        let Some((input, text, flags)) = arguments::cut(line) else {
            return Err(error(format!("bad argument line '{}'", lossy(line))));
        };
        let mut condition = Condition {
            input: Template::compile(input),
            test: Test::Uri,
            negated: false,
            caseless: false,
            or_next: false,
            no_vary: false,
            text: text.to_vec(),
            line: None,
        };
        if let Some(flags) = flags {
            condition.set_flags(flags)?;
        }
        let pattern = text.strip_prefix(b"!").unwrap_or(text);
        condition.negated = pattern.len() < text.len();
        let is_expression = input.eq_ignore_ascii_case(b"expr");
        let (test, inverted) = match special(pattern) {
            _ if is_expression => (condition.expression(pattern, place)?, false),
            Some(found) => found,
            None => (condition.pattern(pattern)?, false),
        };
        condition.negated ^= inverted;
        condition.test = test;
        let notice = condition.drop_useless_case(pattern);
        Ok((condition, notice))
    }

    fn set_flags(&mut self, field: &[u8]) -> Result<(), DirectiveError> {
        for (name, _) in arguments::flags(field).ok_or_else(|| error("bad flag delimiters"))? {
            match name.to_ascii_lowercase().as_slice() {
                b"nocase" | b"nc" => self.caseless = true,
                b"ornext" | b"or" => self.or_next = true,
                b"novary" | b"nv" => self.no_vary = true,
                _ => return Err(error(format!("unknown flag '{}'", lossy(name)))),
            }
        }
        Ok(())
    }

    fn pattern(&self, text: &[u8]) -> Result<Test, DirectiveError> {
        let compiled = Pattern::compile(text, PatternOptions::caseless(self.caseless));
        compiled.map(Test::Pattern).map_err(|_| {
            error(format!(
                "cannot compile regular expression '{}'",
                lossy(text)
            ))
        })
    }

    fn expression(&self, text: &[u8], place: Place) -> Result<Test, DirectiveError> {
        let in_htaccess = place == Place::Htaccess;
        let options = ExpressionOptions {
            no_vary: self.no_vary,
            in_htaccess,
            ..ExpressionOptions::default()
        };
        let place = if in_htaccess {
            " in htaccess context"
        } else {
            ""
        };
        let failed = |cause| {
            error(format!(
                "cannot compile expression{place} \"{}\" {cause}",
                lossy(text)
            ))
        };
        Ok(Test::Expression(Box::new(
            Expression::compile(text, options).map_err(failed)?,
        )))
    }

    fn drop_useless_case(&mut self, pattern: &[u8]) -> Notice {
        if !self.caseless || matches!(self.test, Test::Pattern(_) | Test::Text(..)) {
            return None;
        }
        self.caseless = false;
        let pattern = lossy(pattern);
        Some(format!(
            "RewriteCond: NoCase option for non-regex pattern '{pattern}' is not supported and will be ignored."
        ))
    }
}

/// Parses a test other than a regular expression, and whether it is negated.
fn special(text: &[u8]) -> Option<(Test, bool)> {
    let file = |test| Some((Test::File(test), false));
    match text {
        b"-f" => file(FileTest::Regular),
        b"-s" => file(FileTest::NotEmpty),
        b"-d" => file(FileTest::Directory),
        b"-x" => file(FileTest::Executable),
        b"-h" | b"-L" | b"-l" => file(FileTest::Link),
        b"-U" => Some((Test::Uri, false)),
        b"-F" => Some((Test::FileAccess, false)),
        [b'-', first, second, number @ ..] if !number.is_empty() => {
            let (relation, inverted) = match [*first, *second] {
                [b'l', b't'] => (Relation::Less, false),
                [b'l', b'e'] => (Relation::LessOrEqual, false),
                [b'g', b't'] => (Relation::Greater, false),
                [b'g', b'e'] => (Relation::GreaterOrEqual, false),
                [b'e', b'q'] => (Relation::Equal, false),
                [b'n', b'e'] => (Relation::Equal, true),
                _ => return None,
            };
            Some((
                Test::Number(relation, saker_ap_expr::number(number)),
                inverted,
            ))
        }
        [_] | [] => None,
        [b'>', b'=', rest @ ..] => {
            Some((Test::Text(Relation::GreaterOrEqual, rest.to_vec()), false))
        }
        [b'>', rest @ ..] => Some((Test::Text(Relation::Greater, rest.to_vec()), false)),
        [b'<', b'=', rest @ ..] => Some((Test::Text(Relation::LessOrEqual, rest.to_vec()), false)),
        [b'<', rest @ ..] => Some((Test::Text(Relation::Less, rest.to_vec()), false)),
        // `=""` is the empty text.
        b"=\"\"" => Some((Test::Text(Relation::Equal, Vec::new()), false)),
        [b'=', rest @ ..] => Some((Test::Text(Relation::Equal, rest.to_vec()), false)),
        _ => None,
    }
}

fn error(what: impl AsRef<str>) -> DirectiveError {
    DirectiveError(format!("RewriteCond: {}", what.as_ref()))
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(line: &str) -> Condition {
        Condition::compile(line.as_bytes(), Place::Directory)
            .unwrap_or_else(|error| panic!("{line}: {error}"))
            .0
    }

    #[test]
    fn kinds_of_tests() {
        let kind = |line: &str| {
            let condition = compile(line);
            let sign = if condition.negated { "!" } else { "" };
            let test = match &condition.test {
                Test::Pattern(pattern) => format!("/{}/", lossy(pattern.text())),
                Test::File(test) => format!("{test:?}"),
                Test::Uri => "Uri".into(),
                Test::FileAccess => "FileAccess".into(),
                Test::Text(relation, text) => format!("{relation:?} {}", lossy(text)),
                Test::Number(relation, number) => format!("{relation:?} {number}"),
                Test::Expression(expression) => format!("({})", lossy(expression.text())),
            };
            format!("{sign}{test}")
        };
        let cases = [
            ("%{X} ^a$", "/^a$/"),
            ("%{X} !^a$", "!/^a$/"),
            ("%{X} -f", "Regular"),
            ("%{X} !-d", "!Directory"),
            ("%{X} -s", "NotEmpty"),
            ("%{X} -l", "Link"),
            ("%{X} -h", "Link"),
            ("%{X} -L", "Link"),
            ("%{X} -x", "Executable"),
            ("%{X} -U", "Uri"),
            ("%{X} -F", "FileAccess"),
            ("%{X} -ff", "/-ff/"),
            ("%{X} -q", "/-q/"),
            ("%{X} =a", "Equal a"),
            ("%{X} !=a", "!Equal a"),
            ("%{X} '=\"\"'", "Equal "),
            ("%{X} =", "/=/"),
            ("%{X} <b", "Less b"),
            ("%{X} <=b", "LessOrEqual b"),
            ("%{X} >b", "Greater b"),
            ("%{X} >=b", "GreaterOrEqual b"),
            ("%{X} -eq5", "Equal 5"),
            ("%{X} \"-eq 5\"", "Equal 5"),
            ("%{X} \"-ne 5\"", "!Equal 5"),
            ("%{X} \"!-ne 5\"", "Equal 5"),
            ("%{X} \"-lt 5\"", "Less 5"),
            ("%{X} \"-le 5\"", "LessOrEqual 5"),
            ("%{X} \"-gt 5\"", "Greater 5"),
            ("%{X} \"-ge -5\"", "GreaterOrEqual -5"),
            ("%{X} -eq", "/-eq/"),
            ("expr \"true\"", "(true)"),
            ("EXPR \"!true\"", "!(true)"),
        ];
        for (line, expected) in cases {
            assert_eq!(kind(line), expected, "{line}");
        }
    }

    #[test]
    fn flags() {
        let condition = compile("%{X} a \"[NC,ornext, nv]\"");
        assert!(condition.caseless && condition.or_next && condition.no_vary);
        let (condition, notice) =
            Condition::compile(b"%{X} -f [NC]", Place::Server).expect("compiles");
        assert!(!condition.caseless);
        assert!(notice.is_some_and(|text| text.contains("'-f'")));
    }

    #[test]
    fn errors() {
        let error = |line: &str, place| {
            Condition::compile(line.as_bytes(), place)
                .expect_err(line)
                .0
        };
        let cases = [
            ("%{X}", "RewriteCond: bad argument line '%{X}'"),
            ("%{X} a NC", "RewriteCond: bad flag delimiters"),
            ("%{X} a [L]", "RewriteCond: unknown flag 'L'"),
            (
                "%{X} (a",
                "RewriteCond: cannot compile regular expression '(a'",
            ),
            (
                "expr \"%{FOO} == ''\"",
                "RewriteCond: cannot compile expression \"%{FOO} == ''\" Variable 'FOO' does not exist",
            ),
        ];
        for (line, message) in cases {
            assert_eq!(error(line, Place::Directory), message);
        }
        let restricted = error("expr \"file('/') == ''\"", Place::Htaccess);
        assert_eq!(
            restricted,
            "RewriteCond: cannot compile expression in htaccess context \"file('/') == ''\" file not available in restricted context"
        );
    }
}
