//! `[site.auth.ldap]`: users in a directory (RFC 4511).
//!
//! Called by: `settings`, for sites and routes.
//! Caveat: what keys need each other is checked in `check/auth_sources`.
//! Out of scope: users and groups with access, which are keys of `[site.auth]`.

use super::auth::{SOURCE, edit, row};
use crate::{
    context::AUTH_LDAP,
    kind::{Kind, Word},
    model::{LdapRules, LdapScope, Secret, Settings},
    row::Row,
    value::{Spanned, Value, ValueError},
};
use std::sync::Arc;

static URL: Word = Word {
    expects: "the URL of a directory, such as \"ldaps://ldap.example.org\"",
    pattern: "^ldap[si]?://",
    read: |text| {
        let rest = ["ldap://", "ldaps://", "ldapi://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme));
        match rest {
            Some(rest) if rest.contains(['?', '@', '#']) => Err(ValueError::with_help(
                "it has more than scheme, host, and port",
                "write `base`, `filter`, and `bind_dn` as keys of their own",
            )),
            Some(rest) if !rest.trim_end_matches('/').is_empty() && !rest.contains(' ') => {
                Ok(Value::Text(text.trim_end_matches('/').to_owned()))
            }
            _ => Err(ValueError::plain(None)),
        }
    },
};

pub const ROWS: &[Row<Settings>] = &[
    Row {
        example: Some("\"ldaps://ldap.example.org\""),
        apache: Some("AuthLDAPURL"),
        aliases: &["server", "host", "uri", "servers"],
        ..row(
            AUTH_LDAP,
            "url",
            Kind::Word(&URL),
            "Directory: `ldaps:` (TLS), `ldap:`, or `ldapi:` (a Unix socket, escaped). Required.",
            |settings, given| ldap(settings, given, |rules, given| rules.url = given.text()),
        )
    },
    Row {
        default: Some("false"),
        apache: Some("LDAPTrustedMode"),
        aliases: &["tls", "starttls", "use_tls"],
        ..row(
            AUTH_LDAP,
            "start_tls",
            Kind::Boolean,
            "Encrypt an `ldap:` connection (StartTLS, RFC 4511 section 4.14) before anything else is sent?",
            |settings, given| {
                ldap(settings, given, |rules, given| {
                    rules.start_tls = given.boolean()
                })
            },
        )
    },
    Row {
        example: Some("\"/etc/saker/ldap-ca.pem\""),
        apache: Some("LDAPTrustedGlobalCert"),
        ..row(
            AUTH_LDAP,
            "ca_file",
            Kind::Path,
            "Authorities for the certificate of the directory. Default: those of the system.",
            |settings, given| {
                ldap(settings, given, |rules, given| {
                    rules.ca_file = Some(given.path())
                })
            },
        )
    },
    Row {
        example: Some("\"ou=people,dc=example,dc=org\""),
        ..row(
            AUTH_LDAP,
            "base",
            Kind::Text,
            "Entry below which users are looked for. Required.",
            |settings, given| ldap(settings, given, |rules, given| rules.base = given.text()),
        )
    },
    Row {
        default: Some("\"subtree\""),
        ..row(
            AUTH_LDAP,
            "scope",
            Kind::Choice(&["subtree", "one"]),
            "Look at all entries below `base`, or only one level below it?",
            |settings, given| {
                ldap(settings, given, |rules, given| {
                    rules.scope = match &*given.text() {
                        "one" => LdapScope::One,
                        _ => LdapScope::Subtree,
                    }
                })
            },
        )
    },
    Row {
        default: Some("\"uid\""),
        ..row(
            AUTH_LDAP,
            "user_attribute",
            Kind::Word(&SOURCE),
            "Attribute with the name of a user: `uid`, or `sAMAccountName` in Active Directory. The \
             user of the request is the attribute's value, however the client has spelled it.",
            |settings, given| {
                ldap(settings, given, |rules, given| {
                    rules.user_attribute = given.text()
                })
            },
        )
    },
    Row {
        example: Some("\"(&(objectClass=person)(uid=?))\""),
        ..row(
            AUTH_LDAP,
            "filter",
            Kind::Text,
            "Filter (RFC 4515) for the entry of a user; `?` stands for the name, escaped. Exactly one \
             entry has to match. Default: `user_attribute` equals the name.",
            |settings, given| {
                ldap(settings, given, |rules, given| {
                    rules.filter = Some(given.text())
                })
            },
        )
    },
    Row {
        example: Some("\"cn=saker,dc=example,dc=org\""),
        apache: Some("AuthLDAPBindDN"),
        ..row(
            AUTH_LDAP,
            "bind_dn",
            Kind::Text,
            "Entry that searches are done as. Default: anonymous.",
            |settings, given| {
                ldap(settings, given, |rules, given| {
                    rules.bind_dn = Some(given.text())
                })
            },
        )
    },
    Row {
        example: Some("\"secret\""),
        apache: Some("AuthLDAPBindPassword"),
        ..row(
            AUTH_LDAP,
            "password",
            Kind::Text,
            "Password of `bind_dn`.",
            |settings, given| {
                ldap(settings, given, |rules, given| {
                    rules.password = Secret(given.text().into())
                })
            },
        )
    },
    Row {
        example: Some("\"/etc/saker/ldap-password\""),
        ..row(
            AUTH_LDAP,
            "password_file",
            Kind::Path,
            "File with the password of `bind_dn` in its first line; root alone may be able to read it.",
            |settings, given| {
                ldap(settings, given, |rules, given| {
                    let origin = given.origin();
                    rules.password_file = Some((given.path(), origin));
                })
            },
        )
    },
    Row {
        example: Some("\"memberOf\""),
        ..row(
            AUTH_LDAP,
            "group_attribute",
            Kind::Word(&SOURCE),
            "Attribute of a user's entry with the DNs of groups, for `groups` of [site.auth]. A group \
             is named by its DN, or by the value of the first part of it (`staff` for \
             `cn=staff,ou=groups,dc=example,dc=org`).",
            |settings, given| {
                ldap(settings, given, |rules, given| {
                    rules.group_attribute = Some(given.text())
                })
            },
        )
    },
    Row {
        example: Some("\"(&(objectClass=groupOfNames)(member=?))\""),
        apache: Some("Require ldap-group"),
        ..row(
            AUTH_LDAP,
            "group_filter",
            Kind::Text,
            "Filter for the entries of a user's groups; `?` stands for the DN of the user, escaped.",
            |settings, given| {
                ldap(settings, given, |rules, given| {
                    rules.group_filter = Some(given.text())
                })
            },
        )
    },
    Row {
        example: Some("\"ou=groups,dc=example,dc=org\""),
        ..row(
            AUTH_LDAP,
            "group_base",
            Kind::Text,
            "Entry below which `group_filter` looks. Default: `base`.",
            |settings, given| {
                ldap(settings, given, |rules, given| {
                    rules.group_base = Some(given.text())
                })
            },
        )
    },
    Row {
        default: Some("\"5s\""),
        apache: Some("LDAPTimeout"),
        ..row(
            AUTH_LDAP,
            "timeout",
            Kind::Duration {
                min_ms: 100,
                max_ms: 60_000,
            },
            "Time for one log-in, connecting included. Later, requests are answered with 500.",
            |settings, given| {
                ldap(settings, given, |rules, given| {
                    rules.timeout_ms = given.number()
                })
            },
        )
    },
    Row {
        default: Some("4"),
        ..row(
            AUTH_LDAP,
            "connections",
            Kind::Integer { min: 1, max: 64 },
            "Connections of each worker that check passwords at the same time. One more does the searches.",
            |settings, given| {
                ldap(settings, given, |rules, given| {
                    rules.connections = given.number() as u32
                })
            },
        )
    },
    Row {
        default: Some("\"1m\""),
        apache: Some("LDAPCacheTTL"),
        ..row(
            AUTH_LDAP,
            "cache",
            Kind::Duration {
                min_ms: 0,
                max_ms: 86_400_000,
            },
            "Time that a successful log-in is remembered: so long a user who was removed may have \
             access. Failed ones are not. \"0s\": ask the directory for each request.",
            |settings, given| {
                ldap(settings, given, |rules, given| {
                    rules.cache_ms = given.number()
                })
            },
        )
    },
];

/// Changes the directory of a site or route.
fn ldap(settings: &mut Settings, given: Spanned, change: fn(&mut LdapRules, Spanned)) {
    let origin = given.origin();
    edit(settings, given.clone(), |_, _| {});
    if let Some(rules) = settings.auth.as_mut() {
        let rules = Arc::make_mut(Arc::make_mut(rules).ldap.get_or_insert_default());
        rules.origin = origin;
        change(rules, given);
    }
}
