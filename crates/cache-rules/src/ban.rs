//! Bans in Varnish's notation: `req.url ~ ^/shop && obj.http.X-Magento-Tags ~ cat_1`.
//!
//! Called by: the page cache, which parses a ban once and checks older entries against it.
//! Caveat: an entry stands for past requests, so `req.url` and `req.http.host` mean the request
//! that it was made for.
//! Out of scope: compiling patterns (handed in, because their limits are set elsewhere); times and
//! other `req` fields, which an entry does not keep, are rejected, not ignored.

use saker_http::Fields;
use std::fmt;

/// Maximum number of tests in a ban.
const TESTS_MAX: usize = 32;

/// The properties of an entry that a ban can test.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Path and query.
    pub url: &'a [u8],
    pub host: &'a [u8],
    pub status: u16,
    pub fields: &'a Fields,
}

/// A ban: an entry is banned if all tests hold. `P` is a compiled pattern.
#[derive(Clone, Debug)]
pub struct Ban<P> {
    tests: Vec<Test<P>>,
}

#[derive(Clone, Debug)]
struct Test<P> {
    what: What,
    negated: bool,
    argument: Argument<P>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Url,
    Host,
    Status,
    Field(String),
}

#[derive(Clone, Debug)]
enum Argument<P> {
    Text(Vec<u8>),
    Pattern(P),
}

/// Why an expression is invalid, with the word in question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BanError {
    Empty,
    /// A word is missing after this one.
    Unfinished(String),
    UnknownField(String),
    UnknownOperator(String),
    /// Something other than `&&` between tests.
    ExpectedAnd(String),
    BadPattern(String, String),
    TooMany,
}

impl fmt::Display for BanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BanError::Empty => f.write_str("the ban has no test"),
            BanError::Unfinished(word) => write!(f, "something is missing after `{word}`"),
            BanError::UnknownField(word) => {
                write!(
                    f,
                    "`{word}` is none of req.url, req.http.host, obj.status, obj.http.NAME"
                )
            }
            BanError::UnknownOperator(word) => write!(f, "`{word}` is none of ==, !=, ~, !~"),
            BanError::ExpectedAnd(word) => write!(f, "`{word}` stands where only && can"),
            BanError::BadPattern(pattern, why) => write!(f, "`{pattern}` is no pattern: {why}"),
            BanError::TooMany => write!(f, "a ban has at most {TESTS_MAX} tests"),
        }
    }
}

impl<P> Ban<P> {
    /// Parses an expression; `compile` compiles a pattern or says why it can't.
    pub fn parse(
        text: &str,
        mut compile: impl FnMut(&str) -> Result<P, String>,
    ) -> Result<Ban<P>, BanError> {
        let mut words = words(text)?.into_iter();
        let mut tests = Vec::new();
        loop {
            let field = words.next().ok_or(if tests.is_empty() {
                BanError::Empty
            } else {
                BanError::Unfinished("&&".into())
            })?;
            let what = What::parse(&field)?;
            let operator = words.next().ok_or(BanError::Unfinished(field))?;
            let argument = words
                .next()
                .ok_or_else(|| BanError::Unfinished(operator.clone()))?;
            tests.push(test(what, &operator, argument, &mut compile)?);
            if tests.len() > TESTS_MAX {
                return Err(BanError::TooMany);
            }
            match words.next().as_deref() {
                None => return Ok(Ban { tests }),
                Some("&&") => {}
                Some(word) => return Err(BanError::ExpectedAnd(word.into())),
            }
        }
    }

    /// True if an entry is banned. A pattern that gives up (`None`) bans: refetching a page too
    /// many is harmless, serving a stale one is not.
    pub fn matches(
        &self,
        subject: Subject<'_>,
        is_match: impl Fn(&P, &[u8]) -> Option<bool>,
    ) -> bool {
        self.tests.iter().all(|test| {
            let text = test.what.of(subject);
            let found = match (&text, &test.argument) {
                (None, _) => Some(false),
                (Some(text), Argument::Text(want)) => Some(text == want),
                (Some(text), Argument::Pattern(pattern)) => is_match(pattern, text),
            };
            found.is_none_or(|found| found != test.negated)
        })
    }
}

impl What {
    fn parse(word: &str) -> Result<What, BanError> {
        match word.to_ascii_lowercase().as_str() {
            "req.url" | "obj.http.x-url" => Ok(What::Url),
            "req.http.host" | "obj.http.x-host" => Ok(What::Host),
            "obj.status" => Ok(What::Status),
            lower => match lower
                .strip_prefix("obj.http.")
                .filter(|name| saker_http::chars::is_token(name.as_bytes()))
            {
                Some(name) => Ok(What::Field(name.to_owned())),
                None => Err(BanError::UnknownField(word.to_owned())),
            },
        }
    }

    /// `None` for a missing field; several lines count as one list.
    fn of(&self, subject: Subject<'_>) -> Option<Vec<u8>> {
        match self {
            What::Url => Some(subject.url.to_vec()),
            What::Host => Some(subject.host.to_vec()),
            What::Status => Some(subject.status.to_string().into_bytes()),
            What::Field(name) => {
                let lines: Vec<&[u8]> =
                    crate::rules::targeted::lines(subject.fields, name).collect();
                (!lines.is_empty()).then(|| lines.join(&b","[..]))
            }
        }
    }
}

fn test<P>(
    what: What,
    operator: &str,
    argument: String,
    compile: &mut impl FnMut(&str) -> Result<P, String>,
) -> Result<Test<P>, BanError> {
    let (negated, pattern) = match operator {
        "==" => (false, false),
        "!=" => (true, false),
        "~" => (false, true),
        "!~" => (true, true),
        _ => return Err(BanError::UnknownOperator(operator.to_owned())),
    };
    let argument = match pattern {
        false => Argument::Text(argument.into_bytes()),
        true => Argument::Pattern(
            compile(&argument).map_err(|why| BanError::BadPattern(argument, why))?,
        ),
    };
    Ok(Test {
        what,
        negated,
        argument,
    })
}

/// Splits at white space; quotes group, with a backslash before a quote within them.
fn words(text: &str) -> Result<Vec<String>, BanError> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(inner) => quoted(inner).ok_or_else(|| BanError::Unfinished(rest.to_owned()))?,
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        words.push(word);
        rest = after.trim_start();
    }
    Ok(words)
}

fn quoted(inner: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut symbols = inner.char_indices();
    while let Some((at, symbol)) = symbols.next() {
        match symbol {
            '"' => return Some((word, &inner[at + 1..])),
            // Other backslashes belong to the pattern.
            '\\' if inner[at + 1..].starts_with('"') => {
                symbols.next();
                word.push('"');
            }
            symbol => word.push(symbol),
        }
    }
    None
}

/// The purge that `X-Magento-Tags-Pattern` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MagentoPurge {
    All,
    Tags(Vec<Vec<u8>>),
    /// A pattern of another form: ban by `obj.http.X-Magento-Tags ~`.
    Pattern,
}

/// Patterns that are alternatives of `((^
/// ,)TAG(,
/// $))` become tags, which need no search.
pub fn magento_purge(pattern: &[u8]) -> MagentoPurge {
    if pattern == b".*" {
        return MagentoPurge::All;
    }
    let tag = |alternative: &[u8]| {
        let tag = alternative
            .strip_prefix(b"((^|,)")?
            .strip_suffix(b"(,|$))")?;
        let plain = !tag.is_empty()
            && tag
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        plain.then(|| tag.to_vec())
    };
    alternatives(pattern)
        .into_iter()
        .map(tag)
        .collect::<Option<Vec<_>>>()
        .map_or(MagentoPurge::Pattern, MagentoPurge::Tags)
}

/// Splits at the bars outside all parentheses.
fn alternatives(pattern: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let (mut depth, mut start) = (0i32, 0);
    for (at, byte) in pattern.iter().enumerate() {
        match byte {
            b'(' => depth = depth.saturating_add(1),
            b')' => depth = depth.saturating_sub(1),
            b'|' if depth == 0 => {
                found.push(&pattern[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&pattern[start..]);
    found
}

#[cfg(test)]
mod tests;
