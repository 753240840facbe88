//! Parses `Require` lines: one requirement per provider of Apache's modules.
//!
//! Called by: `authz`.
//! Caveat: unsupported providers deny, with a warning when they are read.

use crate::reading::Reading;
use saker_ap_expr::{Expression, ExpressionOptions, StringExpression, Subnet, words::words};
use saker_apache_syntax::{METHODS, Node};
use saker_auth::settings::{
    Requirement, as_numbered,
    requirement::{LdapTest, Words},
};
use std::sync::Arc;

/// Providers of modules that are not supported.
const UNSUPPORTED: &[&str] = &["ldap-search"];

/// Parses the arguments of `Require`: the name of a provider and the rest of the line.
///
/// # Errors
/// Apache's message for an invalid line.
pub fn parse(
    name: &[u8],
    rest: &[u8],
    node: &Node,
    reading: &mut Reading<'_>,
) -> Result<Requirement, String> {
    let shown = String::from_utf8_lossy(name);
    Ok(match &*name.to_ascii_lowercase() {
        b"all" if rest.eq_ignore_ascii_case(b"granted") => Requirement::All(true),
        b"all" if rest.eq_ignore_ascii_case(b"denied") => Requirement::All(false),
        b"all" => return Err("Argument for 'Require all' must be 'granted' or 'denied'".into()),
        b"env" => Requirement::Environment(boxed(rest)),
        b"method" => Requirement::Method(methods(rest)?),
        b"expr" => expression(rest, reading)?,
        b"ip" => Requirement::Ip(networks(rest)?),
        b"local" => Requirement::Local,
        b"ssl" if !rest.is_empty() => {
            return Err("'Require ssl' does not take arguments".into());
        }
        b"ssl" => Requirement::Tls,
        b"ssl-verify-client" if !rest.is_empty() => {
            return Err("'Require ssl-verify-client' does not take arguments".into());
        }
        b"ssl-verify-client" => Requirement::VerifiedCertificate,
        b"host" => Requirement::Host(line(rest, reading)?),
        b"forward-dns" => Requirement::ForwardDns(line(rest, reading)?),
        b"user" => Requirement::User(line(rest, reading)?),
        b"valid-user" => Requirement::ValidUser,
        b"group" => Requirement::Group(line(rest, reading)?),
        b"file-owner" => Requirement::FileOwner,
        b"file-group" => Requirement::FileGroup,
        b"dbm-group" => Requirement::DbmGroup(line(rest, reading)?),
        b"dbm-file-group" => Requirement::DbmFileGroup,
        b"dbd-group" => Requirement::SqlGroup(line(rest, reading)?),
        b"ldap-user" => Requirement::Ldap(LdapTest::User, line(rest, reading)?),
        b"ldap-group" => Requirement::Ldap(LdapTest::Group, line(rest, reading)?),
        b"ldap-dn" => Requirement::Ldap(LdapTest::Dn, line(rest, reading)?),
        b"ldap-attribute" => Requirement::Ldap(LdapTest::Attribute, line(rest, reading)?),
        b"ldap-filter" => Requirement::Ldap(LdapTest::Filter, line(rest, reading)?),
        b"dbd-login" => Requirement::SqlSession("login"),
        b"dbd-logout" => Requirement::SqlSession("logout"),
        lower if UNSUPPORTED.iter().any(|known| known.as_bytes() == lower) => {
            reading.warn(
                node,
                format!("`Require {shown}` is not supported: it never grants access"),
            );
            Requirement::Unsupported
        }
        _ if reading.aliases.authz.iter().any(|known| **known == *shown) => {
            Requirement::Alias(name.into())
        }
        _ => return Err(format!("Unknown Authz provider: {shown}")),
    })
}

fn line(text: &[u8], reading: &Reading<'_>) -> Result<Words, String> {
    let compiled = StringExpression::compile(
        text,
        ExpressionOptions {
            no_vary: true,
            ..reading.expression_options()
        },
    );
    compiled
        .map(Arc::new)
        .map_err(|error| format!("Cannot parse expression in require line: {}", error.message))
}

fn boxed(text: &[u8]) -> Vec<Box<[u8]>> {
    words(text).into_iter().map(Into::into).collect()
}

/// The number of a method in Apache.
pub fn method_number(name: &[u8]) -> Option<usize> {
    METHODS
        .iter()
        .position(|known| known.as_bytes() == as_numbered(name))
}

fn methods(text: &[u8]) -> Result<Vec<Box<[u8]>>, String> {
    let known = |word: Vec<u8>| match method_number(&word) {
        Some(_) => Ok(as_numbered(&word).into()),
        None => Err(format!(
            "Invalid Method '{}'",
            String::from_utf8_lossy(&word)
        )),
    };
    words(text).into_iter().map(known).collect()
}

fn networks(text: &[u8]) -> Result<Vec<Subnet>, String> {
    let parse = |word: Vec<u8>| {
        Subnet::parse(&word).map_err(|_| {
            format!(
                "ip address '{}' appears to be invalid",
                String::from_utf8_lossy(&word)
            )
        })
    };
    let all: Vec<Subnet> = words(text)
        .into_iter()
        .map(parse)
        .collect::<Result<_, _>>()?;
    if all.is_empty() {
        Err("'require ip' requires an argument".into())
    } else {
        Ok(all)
    }
}

/// Quotes around the whole are not part of it.
fn expression(text: &[u8], reading: &Reading<'_>) -> Result<Requirement, String> {
    let text = text
        .strip_prefix(b"\"")
        .and_then(|text| text.strip_suffix(b"\""))
        .unwrap_or(text);
    let expression = Expression::compile(text, reading.expression_options())
        .map_err(|error| format!("Cannot parse expression in require line: {}", error.message))?;
    let wants_user = text
        .to_ascii_uppercase()
        .windows(11)
        .any(|part| part == b"REMOTE_USER");
    Ok(Requirement::Expression {
        expression: Arc::new(expression),
        wants_user,
    })
}
