//! What follows `Require`: parsed once, asked per request.
//!
//! One variant per provider of Apache's modules. Difficulty: a provider that wants a user says so before anybody was asked for a name, so
//! "no" and "not without a user" are different answers. What can't be found out here denies, and says so when it is read.

use super::decide::Inquiry;
use crate::reading::{Place, Reading};
use saker_config_apache::{Node, words};
use saker_expressions::{Dependency, Expression, ExpressionOptions, Subnet};
use std::sync::Arc;

/// Of a rule, or a whole container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Granted,
    Denied,
    /// A user could make a difference.
    DeniedWithoutUser,
    Neutral,
    /// Answered with 500.
    Error,
}

#[derive(Clone, Debug)]
pub enum Requirement {
    All(bool),
    Environment(Vec<Box<[u8]>>),
    Method(Vec<Box<[u8]>>),
    Expression {
        expression: Arc<Expression>,
        wants_user: bool,
    },
    Ip(Vec<Subnet>),
    Local,
    /// mod_ssl's `ssl`.
    Encrypted,
    /// Denies.
    Impossible,
}

/// Methods that Apache knows by number. HEAD is GET there.
const METHODS: &[&str] = &[
    "GET",
    "PUT",
    "POST",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "VERSION-CONTROL",
    "CHECKOUT",
    "UNCHECKOUT",
    "CHECKIN",
    "UPDATE",
    "LABEL",
    "REPORT",
    "MKWORKSPACE",
    "MKACTIVITY",
    "BASELINE-CONTROL",
    "MERGE",
];

impl Requirement {
    /// `rest`: the line behind the provider's name.
    pub fn parse(name: &[u8], rest: &[u8], node: &Node, reading: &mut Reading<'_>) -> Result<Requirement, String> {
        let shown = String::from_utf8_lossy(name);
        Ok(match &*name.to_ascii_lowercase() {
            b"all" if rest.eq_ignore_ascii_case(b"granted") => Requirement::All(true),
            b"all" if rest.eq_ignore_ascii_case(b"denied") => Requirement::All(false),
            b"all" => return Err("Argument for 'Require all' must be 'granted' or 'denied'".into()),
            b"env" => Requirement::Environment(boxed(rest)),
            b"method" => Requirement::Method(methods(rest)?),
            b"expr" => expression(rest, reading)?,
            b"ip" => Requirement::Ip(networks(rest)?),
            b"local" if !rest.is_empty() => return Err("'require local' does not take arguments".into()),
            b"local" => Requirement::Local,
            b"ssl" if !rest.is_empty() => return Err("'Require ssl' does not take arguments".into()),
            b"ssl" => Requirement::Encrypted,
            _ => {
                reading.warn(node, format!("Require {shown} is not honoured: it grants nothing to anybody"));
                Requirement::Impossible
            }
        })
    }

    pub fn check(&self, inquiry: &mut Inquiry<'_>) -> Decision {
        let yes = match self {
            Requirement::All(granted) => *granted,
            Requirement::Environment(names) => {
                inquiry.asked(Dependency::Environment);
                names.iter().any(|name| inquiry.exchange.environment.first(name).is_some())
            }
            Requirement::Method(names) => {
                // No reason not to keep what comes of it: only GET and HEAD are answered from what is kept, and they are one here.
                let method = as_numbered(inquiry.method());
                names.iter().any(|name| **name == *method)
            }
            Requirement::Expression { expression, wants_user } => return check_expression(inquiry, expression, *wants_user),
            Requirement::Ip(networks) => {
                inquiry.asked(Dependency::Client);
                networks.iter().any(|network| network.contains(inquiry.exchange.client.ip()))
            }
            Requirement::Local => {
                inquiry.asked(Dependency::Client);
                let client = inquiry.exchange.client.ip();
                client.is_loopback() || client == inquiry.exchange.client.local.ip().to_canonical()
            }
            // The listener's, like the scheme.
            Requirement::Encrypted => inquiry.exchange.client.tls,
            Requirement::Impossible => false,
        };
        if yes { Decision::Granted } else { Decision::Denied }
    }
}

fn boxed(text: &[u8]) -> Vec<Box<[u8]>> {
    words(text).into_iter().map(Into::into).collect()
}

/// HEAD has the number of GET.
pub fn as_numbered(method: &[u8]) -> &[u8] {
    if method == b"HEAD" { b"GET" } else { method }
}

fn methods(text: &[u8]) -> Result<Vec<Box<[u8]>>, String> {
    let known = |word: Vec<u8>| match METHODS.iter().any(|name| name.as_bytes() == as_numbered(&word)) {
        true => Ok(as_numbered(&word).into()),
        false => Err(format!("Invalid Method '{}'", String::from_utf8_lossy(&word))),
    };
    words(text).into_iter().map(known).collect()
}

fn networks(text: &[u8]) -> Result<Vec<Subnet>, String> {
    let parse =
        |word: Vec<u8>| Subnet::parse(&word).map_err(|_| format!("ip address '{}' appears to be invalid", String::from_utf8_lossy(&word)));
    let all: Vec<Subnet> = words(text).into_iter().map(parse).collect::<Result<_, _>>()?;
    if all.is_empty() { Err("'require ip' requires at least one argument".into()) } else { Ok(all) }
}

/// Quotes around the whole are not part of it.
fn expression(text: &[u8], reading: &Reading<'_>) -> Result<Requirement, String> {
    let text = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(text);
    let options = ExpressionOptions { in_htaccess: matches!(reading.place, Place::Htaccess(_)), ..ExpressionOptions::default() };
    let expression =
        Expression::compile(text, options).map_err(|error| format!("Cannot parse expression in require line: {}", error.message))?;
    let wants_user = text.to_ascii_uppercase().windows(11).any(|part| part == b"REMOTE_USER");
    Ok(Requirement::Expression { expression: Arc::new(expression), wants_user })
}

fn check_expression(inquiry: &mut Inquiry<'_>, expression: &Expression, wants_user: bool) -> Decision {
    match inquiry.evaluate(expression) {
        Ok(true) => Decision::Granted,
        Ok(false) if wants_user => Decision::DeniedWithoutUser,
        Ok(false) => Decision::Denied,
        Err(error) => {
            inquiry.log(format_args!("error evaluating expression in 'Require expr': {}", error.message));
            Decision::Error
        }
    }
}
