//! Settings of mod_setenvif: tests of the request, and the variables that they set or unset.
//!
//! Called by: `dir_config`, whose table names the setters.
//! Out of scope: applying the rules (`saker_apache`).

use crate::reading::{Place, Reading, Set};
use saker_ap_expr::{Expression, Pattern, PatternOptions, words::words};
use saker_apache_syntax::Node;
use saker_config::model::Origin;
use std::sync::Arc;

#[derive(Debug)]
pub enum Subject {
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
pub enum Test {
    Matches {
        subject: Subject,
        pattern: Box<Pattern>,
        has_groups: bool,
    },
    Holds(Expression),
}

/// A name, and its value; `None`: taken away.
type Change = (Box<[u8]>, Option<Box<[u8]>>);

/// A test, and the variables that are set (or removed) when it holds.
#[derive(Debug)]
pub struct Rule {
    pub test: Test,
    /// Another request for the same path may come out otherwise.
    pub varies: bool,
    pub changes: Vec<Change>,
    pub origin: Origin,
}

pub type Rules = Vec<Arc<Rule>>;

#[derive(Clone, Debug, Default)]
pub struct SetEnvIf {
    /// Rules of the server and its hosts.
    pub server: Rules,
    /// Rules of sections and `.htaccess`.
    pub section: Rules,
}

impl SetEnvIf {
    pub const DIRECTIVES: &'static [(&'static str, Set<SetEnvIf>)] = &[
        ("SetEnvIf", |node, setenvif, reading| {
            add_named(node, setenvif, reading, false)
        }),
        ("SetEnvIfNoCase", |node, setenvif, reading| {
            add_named(node, setenvif, reading, true)
        }),
        ("SetEnvIfExpr", add_expression),
        ("BrowserMatch", |node, setenvif, reading| {
            add_browser(node, setenvif, reading, false)
        }),
        ("BrowserMatchNoCase", |node, setenvif, reading| {
            add_browser(node, setenvif, reading, true)
        }),
    ];

    pub fn merge(&self, over: &SetEnvIf) -> SetEnvIf {
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
}

pub fn pattern(text: &[u8], caseless: bool) -> Result<Box<Pattern>, String> {
    Pattern::compile(text, PatternOptions::caseless(caseless))
        .map(Box::new)
        .map_err(|error| error.to_string())
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
    setenvif: &mut SetEnvIf,
    reading: &mut Reading<'_>,
    caseless: bool,
) -> Result<(), String> {
    let words = words(node.argument_text());
    let name = words.first().filter(|name| !name.is_empty());
    let name =
        name.ok_or_else(|| format!("Missing header-field name for {}", node.canonical_name()))?;
    add(
        node,
        setenvif,
        reading,
        (name, caseless),
        words.get(1..).unwrap_or_default(),
    )
}

fn add_browser(
    node: &Node,
    setenvif: &mut SetEnvIf,
    reading: &mut Reading<'_>,
    caseless: bool,
) -> Result<(), String> {
    add(
        node,
        setenvif,
        reading,
        (b"User-Agent", caseless),
        &words(node.argument_text()),
    )
}

fn add(
    node: &Node,
    setenvif: &mut SetEnvIf,
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
    setenvif.of_place(reading).push(Arc::new(Rule {
        test,
        varies,
        changes: parse_changes(changes, title)?,
        origin: node.origin.clone(),
    }));
    Ok(())
}

fn add_expression(
    node: &Node,
    setenvif: &mut SetEnvIf,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
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
        origin: node.origin.clone(),
    };
    setenvif.of_place(reading).push(Arc::new(rule));
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
