//! mod_authnz_ldap: the directory of users, and the way entries are looked up in it.
//!
//! Called by: `directives`.
//! Caveat: a log-in is remembered for a minute; failures are not. Passwords are checked on
//! connections of their own, so AuthLDAPBindDN needs no right to read them.
//! Out of scope: nested groups, SASL, client certificates, and referrals, whose directives deny.

use crate::{
    arguments::{first, set_flag, texts},
    modules::access::settings::Auth,
    reading::Reading,
};
use saker_apache_syntax::Node;
use saker_auth::{settings::LdapSettings, without_marks};
use std::sync::Arc;

const TIMEOUT_MS: u64 = 10_000;
const CONNECTIONS: u32 = 4;
const CACHE_MS: u64 = 60_000;

fn settings(auth: &mut Auth) -> &mut LdapSettings {
    Arc::make_mut(auth.settings.ldap.get_or_insert_default())
}

pub(super) fn set_url(node: &Node, auth: &mut Auth, _: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let url = words.first().map(String::as_str).unwrap_or_default();
    let mode = words.get(1).map(String::as_str).unwrap_or_default();
    let read = read_url(url, mode)?;
    let own = settings(auth);
    let before = std::mem::take(own);
    *own = LdapSettings {
        bind_dn: before.bind_dn,
        bind_password: before.bind_password,
        user_attribute: before.user_attribute,
        user_is_dn: before.user_is_dn,
        member_attributes: before.member_attributes,
        members_are_names: before.members_are_names,
        ..read
    };
    Ok(())
}

/// Reads `ldap://host:port/base?attributes?scope?filter` (RFC 4516), as mod_authnz_ldap has it.
fn read_url(url: &str, mode: &str) -> Result<LdapSettings, String> {
    let bad = |why: &str| Err(format!("Bad LDAP URL '{url}': {why}"));
    let Some((scheme, rest)) = url.split_once("://") else {
        return bad("it has no scheme");
    };
    let is_tls = match scheme.to_ascii_lowercase().as_str() {
        "ldap" => false,
        "ldaps" => true,
        _ => return bad("the scheme is ldap or ldaps"),
    };
    let (is_tls, starts_tls) = match mode.to_ascii_uppercase().as_str() {
        "" => (is_tls, false),
        "NONE" => (false, false),
        "SSL" => (true, false),
        "TLS" | "STARTTLS" => (false, true),
        _ => return Err(format!("Invalid LDAP connection mode setting: '{mode}'")),
    };
    let (host, rest) = rest.split_once('/').unwrap_or((rest, ""));
    if host.contains(' ') {
        return bad("name one host; several are not supported");
    }
    let host = if host.is_empty() { "localhost" } else { host };
    let mut parts = rest.split('?').map(decoded);
    let mut next = || parts.next().unwrap_or_default();
    let (base, attributes, scope, filter) = (next(), next(), next(), next());
    let attributes: Vec<String> = attributes
        .split(',')
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty() && name != "*")
        .collect();
    let name_attribute = attributes.first().cloned().unwrap_or_else(|| "uid".into());
    let is_name = |name: &String| {
        name.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-.;_".contains(&byte))
    };
    if !attributes.iter().all(is_name) {
        return bad("an attribute has other characters than letters, digits, and hyphens");
    }
    let one_level = match scope.to_ascii_lowercase().as_str() {
        "" | "sub" => false,
        "one" => true,
        _ => return bad("the scope is one or sub"),
    };
    let filter = match filter.as_str() {
        "" => "(objectClass=*)".to_owned(),
        text if text.starts_with('(') => without_marks(text),
        text => format!("({})", without_marks(text)),
    };
    let scheme = if is_tls { "ldaps" } else { "ldap" };
    let start = if starts_tls { "?starttls=yes" } else { "" };
    Ok(LdapSettings {
        url: format!("{scheme}://{host}{start}"),
        base,
        one_level,
        filter: format!("(&{filter}({name_attribute}=?))"),
        name_attribute,
        attributes,
        timeout_ms: TIMEOUT_MS,
        connections: CONNECTIONS,
        cache_ms: CACHE_MS,
        ..LdapSettings::default()
    })
}

/// Percent-encoding resolved; text that is none stays.
fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(|_| *first == b'%') {
            Some(byte) => {
                out.push(byte);
                rest = behind.get(2..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

pub(super) fn set_bind_dn(node: &Node, auth: &mut Auth, _: &mut Reading<'_>) -> Result<(), String> {
    settings(auth).bind_dn = first(node).unwrap_or_default();
    Ok(())
}

pub(super) fn set_bind_password(
    node: &Node,
    auth: &mut Auth,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    let password = first(node).unwrap_or_default();
    if password.starts_with("exec:") {
        return Err("AuthLDAPBindPassword: programs (exec:) are not supported".into());
    }
    settings(auth).bind_password = password;
    Ok(())
}

pub(super) fn set_user_attribute(
    node: &Node,
    auth: &mut Auth,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    settings(auth).user_attribute = first(node);
    Ok(())
}

pub(super) fn set_user_is_dn(
    node: &Node,
    auth: &mut Auth,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    let mut flag = None;
    set_flag(node, &mut flag)?;
    settings(auth).user_is_dn = flag == Some(true);
    Ok(())
}

pub(super) fn add_member_attribute(
    node: &Node,
    auth: &mut Auth,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    settings(auth).member_attributes.extend(first(node));
    Ok(())
}

pub(super) fn set_members_are_dns(
    node: &Node,
    auth: &mut Auth,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    let mut flag = None;
    set_flag(node, &mut flag)?;
    settings(auth).members_are_names = flag == Some(false);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let read = |url: &str, mode: &str| {
            read_url(url, mode).map(|read| (read.url, read.base, read.one_level, read.filter))
        };
        let all = |url: &str, base: &str, one_level: bool, filter: &str| {
            Ok((
                url.to_owned(),
                base.to_owned(),
                one_level,
                filter.to_owned(),
            ))
        };
        assert_eq!(
            read("ldap://a:389/ou=p,dc=x", ""),
            all(
                "ldap://a:389",
                "ou=p,dc=x",
                false,
                "(&(objectClass=*)(uid=?))"
            )
        );
        assert_eq!(
            read("ldaps://a/dc=x%20y?cn,mail?one?(|(a=b)(c=d))", ""),
            all("ldaps://a", "dc=x y", true, "(&(|(a=b)(c=d))(cn=?))")
        );
        assert_eq!(
            read("ldap:///dc=x??sub?a=b", "starttls"),
            all(
                "ldap://localhost?starttls=yes",
                "dc=x",
                false,
                "(&(a=b)(uid=?))"
            )
        );
        assert_eq!(
            read("ldap://a/dc=x", "SSL").map(|read| read.0),
            Ok("ldaps://a".to_owned())
        );
        for (url, mode) in [
            ("x", ""),
            ("http://a/", ""),
            ("ldap://a b/dc=x", ""),
            ("ldap://a/dc=x?a)(b", ""),
            ("ldap://a/dc=x??base", ""),
            ("ldap://a/dc=x", "MAYBE"),
        ] {
            assert!(read_url(url, mode).is_err(), "{url} {mode}");
        }
    }
}
