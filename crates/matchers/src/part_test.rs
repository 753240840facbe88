//! Tests of a header field, a query parameter, or a cookie.
//!
//! Called by: matchers, and cached routes, which run recorded tests again for later requests.
//! Caveat: repeated fields are one text, joined by `, `. Of repeated parameters and cookies, one
//! that passes is enough, and so is one that PHP or another program reads under the name. Absent is
//! a parameter or cookie of exactly this name.
//! Out of scope: trailers.

use crate::{
    PathPattern,
    evaluation::{Evaluation, MatchError},
    parameters::{decoded, raw_parameters},
};
use saker_ap_expr::{
    LimitReached, Pattern, PatternError, PatternOptions, Predicate, RequestPart, TextPredicate,
};
use saker_http::query::{Parameter, is_spelling_from, is_spelling_of};
use std::{borrow::Cow, rc::Rc, sync::Arc};

/// A question about one text.
#[derive(Clone, Debug)]
pub enum ValueTest {
    Present,
    Absent,
    Equals(Box<str>),
    /// A text with `*` for any run of bytes.
    Stars(PathPattern),
    Matches(Pattern),
}

impl ValueTest {
    /// Parses `text`, `te*t`, `~regex`, or `~*caseless regex`.
    pub fn parse(text: &str) -> Result<ValueTest, PatternError> {
        if let Some(pattern) = text.strip_prefix('~') {
            let (pattern, caseless) = match pattern.strip_prefix('*') {
                Some(rest) => (rest, true),
                None => (pattern, false),
            };
            return Pattern::compile(pattern, PatternOptions::caseless(caseless))
                .map(ValueTest::Matches);
        }
        Ok(match text.contains('*') {
            true => ValueTest::Stars(PathPattern::new(text)),
            false => ValueTest::Equals(text.into()),
        })
    }

    /// Tests a text; `None`: there is none.
    pub fn holds(&self, text: Option<&[u8]>) -> Result<bool, LimitReached> {
        Ok(match (self, text) {
            (ValueTest::Absent, text) => text.is_none(),
            (_, None) => false,
            (ValueTest::Present, _) => true,
            (ValueTest::Equals(wanted), Some(text)) => text == wanted.as_bytes(),
            (ValueTest::Stars(stars), Some(text)) => stars.is_match(text)?,
            (ValueTest::Matches(pattern), Some(text)) => pattern.is_match(text)?,
        })
    }
}

/// The part of a request whose values are tested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A header field, by its name in lower case.
    Field(Box<str>),
    /// A query parameter, by its decoded name, or the beginning of it before a `*`.
    Parameter(Box<str>),
    /// A cookie, by its name, or the beginning of it before a `*`.
    Cookie(Box<str>),
}

/// Tests of which one must hold.
#[derive(Debug)]
pub struct PartTest {
    pub source: Source,
    pub tests: Box<[ValueTest]>,
}

impl PartTest {
    fn part(&self) -> Option<RequestPart> {
        match &self.source {
            Source::Field(name) => RequestPart::of_field(name.as_bytes()),
            Source::Parameter(_) => Some(RequestPart::Query),
            Source::Cookie(_) => RequestPart::of_field(b"cookie"),
        }
    }

    /// Tests the text of the part as received.
    fn holds(&self, text: Option<&[u8]>) -> Result<bool, LimitReached> {
        match &self.source {
            Source::Field(_) => self.any(text),
            Source::Parameter(name) => {
                let text = text.unwrap_or_default();
                let pairs =
                    raw_parameters(text).map(|(known, value)| (known, value.unwrap_or_default()));
                self.any_of(name, pairs, (text, *b"&;"), decoded)
            }
            Source::Cookie(name) => {
                let text = text.unwrap_or_default();
                self.any_of(name, cookies(text), (text, *b";,"), Cow::Borrowed)
            }
        }
    }

    fn any(&self, text: Option<&[u8]>) -> Result<bool, LimitReached> {
        for test in &self.tests {
            if test.holds(text)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Tests the values of a name. Programs may separate by the second byte as well.
    fn any_of<'t>(
        &self,
        name: &str,
        pairs: impl Iterator<Item = (&'t [u8], &'t [u8])>,
        (text, [first, second]): (&'t [u8], [u8; 2]),
        read: impl Fn(&'t [u8]) -> Cow<'t, [u8]>,
    ) -> Result<bool, LimitReached> {
        let mut is_absent = true;
        for (known, value) in pairs {
            if !is_named(name, known) {
                continue;
            }
            is_absent &= !name.ends_with('*') && *read(known) != *name.as_bytes();
            if self.any(Some(&read(value)))? {
                return Ok(true);
            }
        }
        if is_absent && self.any(None)? {
            return Ok(true);
        }
        if !text.contains(&second) {
            return Ok(false);
        }
        let pairs = text.split(|byte| *byte == first);
        let parts = pairs.flat_map(|pair| pair.split(|byte| *byte == second).skip(1));
        for part in parts.map(|part| Parameter::new(part.trim_ascii())) {
            let value = part.value.unwrap_or_default();
            if is_named(name, part.name) && self.any(Some(&read(value)))? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Cookies of a field; for PHP, one without a value is there, too.
fn cookies(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|byte| *byte == b';').map(|pair| {
        let pair = Parameter::new(pair.trim_ascii());
        (pair.name, pair.value.unwrap_or_default())
    })
}

/// Compares names as programs read them: a client must not escape a rule about a name by another
/// spelling. A `*` at the end stands for any end.
fn is_named(wanted: &str, known: &[u8]) -> bool {
    match wanted.strip_suffix('*') {
        Some(start) => is_spelling_from(known, start.as_bytes()),
        None => is_spelling_of(known, wanted.as_bytes()),
    }
}

/// Evaluates the test and records it.
pub(crate) fn matches(
    test: &Arc<PartTest>,
    evaluation: &mut Evaluation<'_>,
) -> Result<bool, MatchError> {
    if evaluation.is_exhausted() {
        return Err(LimitReached.into());
    }
    let facts = evaluation.facts;
    let Some(part) = test.part() else {
        // The host has a matcher of its own, which reads its canonical form.
        return Ok(test.any(Some(facts.host()))?);
    };
    let field;
    let text = match &part {
        RequestPart::Field(name) => {
            field = facts.request_field(name.as_bytes());
            field.as_deref()
        }
        _ => facts.query(),
    };
    evaluation.charge(text.map_or(0, <[u8]>::len));
    let result = test.holds(text)?;
    match (&test.source, &*test.tests) {
        (Source::Field(_), [ValueTest::Present]) => {
            evaluation.record(part, Predicate::Present, result)
        }
        (Source::Field(_), [ValueTest::Absent]) => {
            evaluation.record(part, Predicate::Present, !result)
        }
        (Source::Field(_), [ValueTest::Equals(text)]) if !text.is_empty() => {
            evaluation.record(part, Predicate::Equals(text.as_bytes().into()), result)
        }
        _ => evaluation.record(
            part,
            Predicate::Other(Rc::new(RecordedTest(Arc::clone(test)))),
            result,
        ),
    }
    Ok(result)
}

#[derive(Debug)]
struct RecordedTest(Arc<PartTest>);

impl TextPredicate for RecordedTest {
    fn holds(&self, text: Option<&[u8]>) -> Option<bool> {
        self.0.holds(text).ok()
    }

    fn identify(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"matcher\0");
        out.extend((Arc::as_ptr(&self.0) as usize).to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(source: Source, texts: &[&str]) -> PartTest {
        PartTest {
            source,
            tests: texts
                .iter()
                .map(|text| ValueTest::parse(text).unwrap())
                .collect(),
        }
    }

    #[test]
    fn values() {
        let cases = [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*", "abc", true),
            ("*b*", "abc", true),
            ("~^A", "abc", false),
            ("~*^A", "abc", true),
            ("~b$", "abc\n", false),
        ];
        for (test, text, expected) in cases {
            let test = ValueTest::parse(test).unwrap();
            assert_eq!(
                test.holds(Some(text.as_bytes())),
                Ok(expected),
                "{test:?} {text}"
            );
            assert_eq!(test.holds(None), Ok(false));
        }
        assert!(ValueTest::parse("~(").is_err());
    }

    #[test]
    fn parameters_in_every_spelling() {
        let debug = test(Source::Parameter("de bug".into()), &["1", "x+y"]);
        for (query, expected) in [
            ("de+bug=1", true),
            ("a=b&de%20bug=%31", true),
            ("de%20bug=0&de%20bug=1", true),
            ("de+bug=x%2By", true),
            ("de+bug=x+y", false),
            ("de+bug", false),
            ("xde+bug=1", false),
            ("", false),
        ] {
            assert_eq!(debug.holds(Some(query.as_bytes())), Ok(expected), "{query}");
        }
        let absent = PartTest {
            source: Source::Parameter("a".into()),
            tests: [ValueTest::Absent].into(),
        };
        assert_eq!(absent.holds(Some(b"b=1")), Ok(true));
        assert_eq!(absent.holds(None), Ok(true));
        assert_eq!(absent.holds(Some(b"%61")), Ok(false));
    }

    #[test]
    fn cookies_by_name() {
        let cookie = test(Source::Cookie("session".into()), &["a*"]);
        for (text, expected) in [
            ("session=abc", true),
            ("x=1; session=abc", true),
            ("x=1;session=abc ;y=2", true),
            ("xsession=abc", false),
            ("Session=abc", false),
            ("session", false),
        ] {
            assert_eq!(cookie.holds(Some(text.as_bytes())), Ok(expected), "{text}");
        }
    }

    #[test]
    fn names_with_any_end() {
        let cookie = PartTest {
            source: Source::Cookie("wordpress_logged_in*".into()),
            tests: [ValueTest::Present].into(),
        };
        for (text, expected) in [
            ("wordpress_logged_in_abc=1", true),
            ("a=b; wordpress.logged in=", true),
            ("wordpress[logged_in_abc=1", true),
            ("wordpress_logged_i=1", false),
            ("xwordpress_logged_in=1", false),
        ] {
            assert_eq!(cookie.holds(Some(text.as_bytes())), Ok(expected), "{text}");
        }
        let parameter = PartTest {
            source: Source::Parameter("utm_*".into()),
            tests: [ValueTest::Present].into(),
        };
        assert_eq!(parameter.holds(Some(b"a&utm%5Fsource=x")), Ok(true));
        assert_eq!(parameter.holds(Some(b"utm.source=x")), Ok(true));
        assert_eq!(parameter.holds(Some(b"ut_source=x")), Ok(false));
    }

    #[test]
    fn spellings_of_a_name_pass_a_test_and_are_not_the_name() {
        let with = |source, tests: [ValueTest; 1]| PartTest {
            source,
            tests: tests.into(),
        };
        let parameter = || Source::Parameter("is_admin".into());
        for (query, spelled, absent) in [
            ("is_admin=1", true, false),
            ("is.admin=1", true, true),
            ("a&+is_admin", true, true),
            ("is%5Badmin=1", true, true),
            ("is_admin[]=1", true, true),
            ("is%5fadmin%00x", true, true),
            ("a=1;is_admin=1", true, true),
            ("is-admin=1", false, true),
            ("Is_Admin=1&is_admins&a=1;b", false, true),
        ] {
            let text = Some(query.as_bytes());
            let present = with(parameter(), [ValueTest::Present]);
            assert_eq!(present.holds(text), Ok(spelled), "{query}");
            let absence = with(parameter(), [ValueTest::Absent]);
            assert_eq!(absence.holds(text), Ok(absent), "{query}");
        }
        let cookie = || Source::Cookie("user_id".into());
        for (text, spelled) in [
            ("a=1; user_id=x", true),
            ("user.id=x", true),
            ("user_id =x", true),
            ("user_id[]=x", true),
            ("user%5fid=x", true),
            ("a=1,user_id=x", true),
            ("a=1, user id=x,y", true),
            ("a=1,x", false),
            ("user_ids=x; user_id=y", false),
        ] {
            let equal = with(cookie(), [ValueTest::Equals("x".into())]);
            assert_eq!(equal.holds(Some(text.as_bytes())), Ok(spelled), "{text}");
        }
        let present = with(cookie(), [ValueTest::Present]);
        assert_eq!(present.holds(Some(b"user_id")), Ok(true));
    }

    #[test]
    fn a_pattern_that_takes_too_long_has_no_result() {
        let slow = test(Source::Field("x".into()), &["~^(a+)+$"]);
        let text = [b"a".repeat(4000), b"!".to_vec()].concat();
        assert_eq!(slow.holds(Some(&text)), Err(LimitReached));
        assert_eq!(RecordedTest(Arc::new(slow)).holds(Some(&text)), None);
    }
}
