//! mod_setenvif: variables by what a request brings. Those of the server and its hosts are set
//! before anything else happens, those of sections once the file is known.
//!
//! Difficulty: what is set here depends on the request, yet most configurations set something that
//! nobody ever looks at (Debian's own for browsers of the last century). So setting a variable does
//! not keep an outcome from being kept; looking at one does.

use crate::{
    facts::Seen,
    host::Host,
    local::{Local, Set},
    modules::{geo, ssl},
    reading::{Place, Reading},
    state::{peek, state},
};
use saker_ap_expr::words::words;
use saker_ap_expr::{Evaluation, Expression, Facts, Pattern, PatternOptions, Variable};
use saker_apache_syntax::Node;
use saker_files::Watcher;
use saker_pipeline::Exchange;
use std::{borrow::Cow, rc::Rc, sync::Arc};

#[derive(Debug)]
enum Subject {
    RemoteAddress,
    RemoteHost,
    RemoteUser,
    RequestUri,
    RequestMethod,
    RequestProtocol,
    ServerAddress,
    /// A field, or else a variable set before.
    Field(Box<str>),
    /// The last field whose name matches.
    AnyField(Box<Pattern>),
}

#[derive(Debug)]
enum Test {
    Matches {
        subject: Subject,
        pattern: Box<Pattern>,
        has_groups: bool,
    },
    Holds(Expression),
}

/// A name, and its value; `None`: taken away.
type Change = (Box<[u8]>, Option<Box<[u8]>>);

/// What is set (or taken away) when the test holds.
#[derive(Debug)]
struct Rule {
    test: Test,
    /// Another request for the same path may come out otherwise.
    varies: bool,
    changes: Vec<Change>,
}

type Rules = Vec<Arc<Rule>>;

#[derive(Clone, Debug, Default)]
pub struct SetEnvIf {
    /// Of the server and its hosts.
    server: Rules,
    /// Of sections and `.htaccess`.
    section: Rules,
}

impl SetEnvIf {
    pub const DIRECTIVES: &'static [(&'static str, Set)] = &[
        ("SetEnvIf", |node, local, reading| {
            add_named(node, local, reading, false)
        }),
        ("SetEnvIfNoCase", |node, local, reading| {
            add_named(node, local, reading, true)
        }),
        ("SetEnvIfExpr", add_expression),
        ("BrowserMatch", |node, local, reading| {
            add_browser(node, local, reading, false)
        }),
        ("BrowserMatchNoCase", |node, local, reading| {
            add_browser(node, local, reading, true)
        }),
    ];

    pub fn under(&self, over: &SetEnvIf) -> SetEnvIf {
        let merged = |outer: &Rules, inner: &Rules| outer.iter().chain(inner).cloned().collect();
        SetEnvIf {
            server: merged(&self.server, &over.server),
            section: merged(&self.section, &over.section),
        }
    }

    fn of_place(&mut self, reading: &Reading<'_>) -> &mut Rules {
        if reading.place == Place::Server {
            &mut self.server
        } else {
            &mut self.section
        }
    }
}

/// Whether a variable (of that name, or any) may have another value in another request for the same
/// path.
pub fn may_vary(host: &Host, local: &Local, name: Option<&[u8]>) -> bool {
    if host.process.names_requests
        && name.is_none_or(|name| name.eq_ignore_ascii_case(b"UNIQUE_ID"))
    {
        return true;
    }
    let rules = host
        .defaults
        .setenvif
        .server
        .iter()
        .chain(&local.setenvif.section);
    let sets = |rule: &Rule| {
        name.is_none_or(|name| rule.changes.iter().any(|(known, _)| **known == *name))
    };
    rules.filter(|rule| rule.varies).any(|rule| sets(rule))
        || ssl::may_vary(host, local, name)
        || geo::may_vary(host, local, name)
}

/// Bytes of a text that take as long to look at as one variable.
const ENTRY_COST_BYTES: usize = 8;

/// Before everything else.
pub fn of_server(exchange: &mut Exchange, host: &Host, watcher: &Watcher) {
    apply(exchange, host, watcher, &host.defaults.setenvif.server);
}

/// Once the file is known.
pub fn of_section(exchange: &mut Exchange, host: &Host, watcher: &Watcher, local: &Local) {
    apply(exchange, host, watcher, &local.setenvif.section);
}

fn apply(exchange: &mut Exchange, host: &Host, watcher: &Watcher, rules: &Rules) {
    if rules.is_empty() {
        return;
    }
    let own = peek(exchange).cloned().unwrap_or_default();
    let budget = Rc::clone(exchange.budget());
    for rule in rules {
        if budget.work().is_exhausted() {
            return;
        }
        let (changes, vary) = rule.changes(&Seen::new(exchange, &own, host, watcher));
        if !vary.is_empty() {
            state(exchange).vary.extend(vary);
        }
        for (name, value) in changes {
            // The list is looked through from its beginning.
            budget
                .work()
                .look_at(exchange.environment.len().saturating_mul(ENTRY_COST_BYTES));
            budget.work().make(value.as_ref().map_or(0, Vec::len));
            match value {
                Some(value) => exchange.environment.set(&name, &value),
                None => exchange.environment.unset(&name),
            }
        }
    }
}

type Changes = Vec<(Box<[u8]>, Option<Vec<u8>>)>;

impl Rule {
    /// What is to be changed, and names for the Vary field.
    fn changes(&self, seen: &Seen<'_>) -> (Changes, Vec<String>) {
        match &self.test {
            Test::Holds(expression) => {
                let mut evaluation = Evaluation::new(seen);
                let holds = expression.evaluate(&mut evaluation).unwrap_or(false);
                let group = |group: usize| evaluation.backreferences.text(group).to_vec();
                let changes = if holds {
                    self.filled(&group)
                } else {
                    Vec::new()
                };
                (
                    changes,
                    evaluation.dependencies.vary().map(str::to_owned).collect(),
                )
            }
            Test::Matches {
                subject,
                pattern,
                has_groups,
            } => {
                let text = subject.text(seen);
                let changes = match seen
                    .exchange
                    .budget()
                    .work()
                    .captures_at(pattern, &text, 0)
                    .ok()
                    .flatten()
                {
                    Some(spans) if *has_groups => {
                        self.filled(&|group| spans.text(group, &text).to_vec())
                    }
                    Some(_) => self
                        .changes
                        .iter()
                        .map(|(name, value)| (name.clone(), value.as_deref().map(<[u8]>::to_vec)))
                        .collect(),
                    None => Vec::new(),
                };
                (changes, Vec::new())
            }
        }
    }

    fn filled(&self, group: &dyn Fn(usize) -> Vec<u8>) -> Changes {
        let value = |value: &Option<Box<[u8]>>| value.as_ref().map(|value| filled(value, group));
        self.changes
            .iter()
            .map(|(name, text)| (name.clone(), value(text)))
            .collect()
    }
}

impl Subject {
    fn of_name(name: &[u8], caseless: bool) -> Result<Subject, String> {
        Ok(match &*name.to_ascii_lowercase() {
            b"remote_addr" => Subject::RemoteAddress,
            b"remote_host" => Subject::RemoteHost,
            b"remote_user" => Subject::RemoteUser,
            b"request_uri" => Subject::RequestUri,
            b"request_method" => Subject::RequestMethod,
            b"request_protocol" => Subject::RequestProtocol,
            b"server_addr" => Subject::ServerAddress,
            _ if name
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) =>
            {
                Subject::Field(String::from_utf8_lossy(name).into())
            }
            _ => Subject::AnyField(
                pattern(name, caseless).map_err(|_| "Header name regex could not be compiled.")?,
            ),
        })
    }

    /// What is not there is empty.
    fn text<'s>(&'s self, seen: &'s Seen<'_>) -> Cow<'s, [u8]> {
        let head = || seen.exchange.head.view();
        let variable = |variable| seen.variable(variable).unwrap_or_default();
        match self {
            Subject::RemoteAddress => variable(Variable::RemoteAddr),
            Subject::RemoteHost => variable(Variable::RemoteHost),
            Subject::RemoteUser => variable(Variable::RemoteUser),
            Subject::RequestUri => Cow::Borrowed(&seen.exchange.path),
            Subject::RequestMethod => variable(Variable::RequestMethod),
            Subject::RequestProtocol => variable(Variable::ServerProtocol),
            Subject::ServerAddress => variable(Variable::ServerAddr),
            Subject::Field(name) => seen
                .request_field(name.as_bytes())
                .or_else(|| seen.environment(name.as_bytes()))
                .unwrap_or_default(),
            Subject::AnyField(pattern) => {
                let found = head()
                    .fields()
                    .filter(|(name, _)| pattern.is_match(name).unwrap_or(false))
                    .last();
                Cow::Owned(found.map(|(_, value)| value.to_vec()).unwrap_or_default())
            }
        }
    }
}

fn pattern(text: &[u8], caseless: bool) -> Result<Box<Pattern>, String> {
    Pattern::compile(text, PatternOptions::caseless(caseless))
        .map(Box::new)
        .map_err(|error| error.to_string())
}

/// `$0` to `$9`; a backslash takes away what a dollar means.
fn filled(text: &[u8], group: &dyn Fn(usize) -> Vec<u8>) -> Vec<u8> {
    let mut filled = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, bytes.peek().copied()) {
            (b'$', Some(digit)) if digit.is_ascii_digit() => {
                bytes.next();
                filled.extend(group(usize::from(digit - b'0')));
            }
            (b'\\', Some(next @ (b'$' | b'\\'))) => {
                bytes.next();
                filled.push(next);
            }
            (byte, _) => filled.push(byte),
        }
    }
    filled
}

/// Without anything that means more than itself: Apache looks for such a text as it is, and puts
/// nothing into what is set.
fn is_plain(text: &[u8]) -> bool {
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        let is_special = b"^.$|()[]*+?{}".contains(byte);
        match byte {
            b'\\'
                if !bytes
                    .next()
                    .is_some_and(|next| b"^.$|()[]*+?{}\\".contains(next)) =>
            {
                return false;
            }
            b'\\' => {}
            _ if is_special => return false,
            _ => {}
        }
    }
    true
}

fn add_named(
    node: &Node,
    local: &mut Local,
    reading: &mut Reading<'_>,
    caseless: bool,
) -> Result<(), String> {
    let words = words(node.argument_text());
    let name = words.first().filter(|name| !name.is_empty());
    let name =
        name.ok_or_else(|| format!("Missing header-field name for {}", node.canonical_name()))?;
    add(
        node,
        local,
        reading,
        (name, caseless),
        words.get(1..).unwrap_or_default(),
    )
}

fn add_browser(
    node: &Node,
    local: &mut Local,
    reading: &mut Reading<'_>,
    caseless: bool,
) -> Result<(), String> {
    add(
        node,
        local,
        reading,
        (b"User-Agent", caseless),
        &words(node.argument_text()),
    )
}

fn add(
    node: &Node,
    local: &mut Local,
    reading: &mut Reading<'_>,
    of: (&[u8], bool),
    rest: &[Vec<u8>],
) -> Result<(), String> {
    let (name, caseless) = of;
    let title = node.canonical_name();
    let Some((text, changes)) = rest.split_first().filter(|(text, _)| !text.is_empty()) else {
        return Err(format!("Missing regular expression for {title}"));
    };
    let subject = Subject::of_name(name, caseless)?;
    let compiled =
        pattern(text, caseless).map_err(|_| format!("{title} regex could not be compiled."))?;
    let varies = !matches!(subject, Subject::RequestUri);
    let test = Test::Matches {
        subject,
        pattern: compiled,
        has_groups: !is_plain(text),
    };
    local.setenvif.of_place(reading).push(Arc::new(Rule {
        test,
        varies,
        changes: parse_changes(changes, title)?,
    }));
    Ok(())
}

fn add_expression(node: &Node, local: &mut Local, reading: &mut Reading<'_>) -> Result<(), String> {
    let words = words(node.argument_text());
    let Some((text, changes)) = words.split_first() else {
        return Err("Missing expression for SetEnvIfExpr".into());
    };
    let expression = Expression::compile(text, reading.expression_options());
    let expression = expression.map_err(|error| {
        format!(
            "Could not compile expression for SetEnvIfExpr: {}",
            error.message
        )
    })?;
    let varies = !expression.may_depend().is_resource_only();
    let rule = Rule {
        test: Test::Holds(expression),
        varies,
        changes: parse_changes(changes, "SetEnvIfExpr")?,
    };
    local.setenvif.of_place(reading).push(Arc::new(rule));
    Ok(())
}

/// `name`, `name=value`, `!name`.
fn parse_changes(words: &[Vec<u8>], title: &str) -> Result<Vec<Change>, String> {
    if words.is_empty() {
        return Err(format!("Missing envariable expression for {title}"));
    }
    let change = |word: &Vec<u8>| {
        let (name, value) = match word.iter().position(|byte| *byte == b'=') {
            Some(at) => (
                word.get(..at).unwrap_or_default(),
                word.get(at + 1..).unwrap_or_default(),
            ),
            None => (word.as_slice(), &b""[..]),
        };
        match (value, name.strip_prefix(b"!")) {
            (b"", Some(name)) => (name.into(), None),
            (b"", None) => (name.into(), Some(b"1"[..].into())),
            // As Apache: a value that begins so takes away, too.
            (value, _) if value.starts_with(b"!") => (name.into(), None),
            (value, _) => (name.into(), Some(value.into())),
        }
    };
    Ok(words.iter().map(change).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes() {
        let parse = |text: &str| {
            let changes = parse_changes(&words(text.as_bytes()), "X").unwrap();
            let show = |(name, value): &Change| {
                let value = value
                    .as_ref()
                    .map_or("-".into(), |value| String::from_utf8_lossy(value));
                format!("{}:{value}", String::from_utf8_lossy(name))
            };
            changes.iter().map(show).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            parse("a !b c=d e= f=!g h=i=j \"k=l m\""),
            "a:1 b:- c:d e:1 f:- h:i=j k:l m"
        );
        assert_eq!(
            parse_changes(&[], "X").unwrap_err(),
            "Missing envariable expression for X"
        );
    }

    #[test]
    fn groups_are_put_in() {
        let group = |at: usize| format!("<{at}>").into_bytes();
        assert_eq!(filled(b"a$1b$0\\$2\\\\$x$", &group), b"a<1>b<0>$2\\$x$");
    }

    #[test]
    fn plain_texts() {
        for (text, expected) in [
            ("abc", true),
            ("a\\.b", true),
            ("a.b", false),
            ("\\d", false),
            ("a\\\\b", true),
            ("^", false),
            ("a\\", false),
        ] {
            assert_eq!(is_plain(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn subjects() {
        assert!(matches!(
            Subject::of_name(b"Request_URI", false),
            Ok(Subject::RequestUri)
        ));
        assert!(matches!(
            Subject::of_name(b"X-Request_Id", false),
            Ok(Subject::Field(_))
        ));
        assert!(matches!(
            Subject::of_name(b"^X-", false),
            Ok(Subject::AnyField(_))
        ));
        assert!(Subject::of_name(b"(", false).is_err());
    }
}
