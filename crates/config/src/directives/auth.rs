//! `[site.auth]`: log-in with a user name and a password, and what holds for all kinds of log-in.
//!
//! A route's keys override the site's.
//! Out of scope: the password files, which are read when they are first needed.

use super::{abuse::NETWORKS, dynamic_vhosts::DATABASE};
use crate::{
    context::{AUTH, AUTH_JWT, AUTH_LDAP, AUTH_OIDC, Contexts, ROUTE, SITE},
    kind::{KeyKind, Kind, Word},
    model::{AuthRules, AuthScheme, DatabaseUrl, IdentityFields, Settings},
    row::Row,
    value::{Spanned, Value, ValueError},
};
use std::sync::Arc;

static REALM: Word = Word {
    expects: "a text of printable ASCII characters without quotes, such as \"Staff\"",
    pattern: "^[ !#-\\[\\]-~]+$",
    read: |text| {
        let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && !matches!(byte, b'"' | b'\\');
        match !text.is_empty() && text.bytes().all(is_plain) {
            true => Ok(Value::Text(text.to_owned())),
            false => Err(ValueError::plain(None)),
        }
    },
};

static NAME: Word = Word {
    expects: "a name without spaces, colons, and quotes",
    pattern: "^[^\\s:\"'\\\\]+$",
    read: |text| {
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || ":\"'\\".contains(c);
        match !text.is_empty() && !text.contains(is_odd) {
            true => Ok(Value::Text(text.to_owned())),
            false => Err(ValueError::plain(None)),
        }
    },
};

/// Name of an attribute or claim.
pub static SOURCE: Word = Word {
    expects: "the name of an attribute or claim, such as \"mail\"",
    pattern: "^[!-~]+$",
    read: |text| match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(Value::Text(text.to_owned())),
        false => Err(ValueError::plain(None)),
    },
};

static FIELD_NAME: KeyKind = KeyKind {
    expects: "the name of a field",
    pattern: "^[A-Za-z0-9-]+$",
    is_case_sensitive: false,
    read: |text| {
        // These are the connection's and the message's own.
        const TAKEN: [&str; 9] = [
            "connection",
            "content-length",
            "cookie",
            "host",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
            "expect",
        ];
        let is_plain = !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        match is_plain && !TAKEN.iter().any(|taken| text.eq_ignore_ascii_case(taken)) {
            true => Ok(text.to_owned()),
            false => Err(ValueError::new(
                "fields have names of letters, digits, and hyphens, and must not be part of HTTP's framing",
            )),
        }
    },
};

static VARIABLE_NAME: KeyKind = KeyKind {
    expects: "the name of a variable",
    pattern: "^[A-Za-z_][A-Za-z0-9_]*$",
    is_case_sensitive: true,
    read: |text| {
        let is_word = !text.is_empty()
            && !text.starts_with(|first: char| first.is_ascii_digit())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match is_word {
            true => Ok(text.to_owned()),
            false => Err(ValueError::new(
                "names of variables are letters, digits, and `_`",
            )),
        }
    },
};

static GROUP: Word = Word {
    expects: "a name without quotes, backslashes, and control characters",
    pattern: "^[^\"'\\\\]+$",
    read: |text| {
        let is_odd = |c: char| c.is_control() || "\"'\\".contains(c);
        match !text.trim().is_empty() && !text.contains(is_odd) {
            true => Ok(Value::Text(text.to_owned())),
            false => Err(ValueError::plain(None)),
        }
    },
};

/// A row of a source of users, with defaults for the rest.
pub(super) const fn row(
    contexts: Contexts,
    name: &'static str,
    kind: Kind,
    summary: &'static str,
    set: fn(&mut Settings, Spanned),
) -> Row<Settings> {
    Row {
        name,
        contexts,
        kind,
        summary,
        since: "0.2",
        set,
        ..Row::BASE
    }
}

pub const ROWS: &[Row<Settings>] = &[
    Row {
        name: "auth",
        contexts: SITE.or(ROUTE),
        kind: Kind::Section(AUTH),
        summary: "Log-in: with a user name and a password, a token, or at a provider.",
        aliases: &["auth_basic", "basic_auth", "basicauth", "authentication"],
        since: "0.2",
        ..Row::BASE
    },
    Row {
        name: "enabled",
        contexts: AUTH,
        kind: Kind::Boolean,
        default: Some("true"),
        summary: "Ask for a log-in? `false` in a route opens it to everyone.",
        since: "0.2",
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.is_on = given.boolean()
            })
        },
        ..Row::BASE
    },
    Row {
        name: "scheme",
        contexts: AUTH,
        kind: Kind::Choice(&["basic", "digest"]),
        default: Some("\"basic\""),
        summary: "Authentication scheme: Basic (RFC 7617), which is safe over TLS only, or Digest \
                  (RFC 7616).",
        apache: Some("AuthType"),
        aliases: &["type"],
        since: "0.2",
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.scheme = match &*given.text() {
                    "digest" => AuthScheme::Digest,
                    _ => AuthScheme::Basic,
                }
            });
        },
        ..Row::BASE
    },
    Row {
        name: "realm",
        contexts: AUTH,
        kind: Kind::Word(&REALM),
        default: Some("\"Restricted\""),
        summary: "Name of the protected area, which browsers show. Digest hashes contain it.",
        apache: Some("AuthName"),
        since: "0.2",
        set: |settings, given| edit(settings, given, |rules, given| rules.realm = given.text()),
        ..Row::BASE
    },
    Row {
        name: "user_file",
        contexts: AUTH,
        kind: Kind::Path,
        example: Some("\"/etc/saker/users\""),
        summary: "File of users: lines of `htpasswd` (bcrypt, SHA-crypt, MD5-crypt, SHA-1, DES) for \
                  `basic`, of `htdigest` for `digest`. Must be readable by the server's user, and \
                  is read again when it changes. This or `database` is required unless `enabled` is \
                  false.",
        apache: Some("AuthUserFile"),
        aliases: &[
            "auth_basic_user_file",
            "htpasswd",
            "users_file",
            "password_file",
        ],
        since: "0.2",
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.user_file = Some(given.path())
            });
        },
        ..Row::BASE
    },
    Row {
        name: "group_file",
        contexts: AUTH,
        kind: Kind::Path,
        example: Some("\"/etc/saker/groups\""),
        summary: "File of groups, for `groups`: lines such as `staff: ann bob`.",
        apache: Some("AuthGroupFile"),
        aliases: &["groups_file"],
        since: "0.2",
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.group_file = Some(given.path())
            });
        },
        ..Row::BASE
    },
    Row {
        name: "database",
        contexts: AUTH,
        kind: Kind::Word(&DATABASE),
        example: Some("\"mysql://saker:password@localhost/intranet\""),
        summary: "URL of a database of users, as in [dynamic_vhosts]; SQL only. With `user_file`, the \
                  file is looked at first.",
        apache: Some("AuthBasicProvider dbd"),
        since: "0.2",
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.database = Some(DatabaseUrl(given.text().into()));
            });
        },
        ..Row::BASE
    },
    Row {
        name: "query",
        contexts: AUTH,
        kind: Kind::Text,
        example: Some("\"SELECT password FROM users WHERE name = ?\""),
        summary: "Query of `database` for the hash of a user, in the forms of `user_file`; `?` stands \
                  for the name. For `digest`: `SELECT hash FROM users WHERE name = ? AND realm = ?`. \
                  Further columns become variables for programs: `AUTHENTICATE_` and the column's \
                  name in capitals.",
        apache: Some("AuthDBDUserPWQuery, AuthDBDUserRealmQuery"),
        since: "0.2",
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.query = Some(given.text())
            });
        },
        ..Row::BASE
    },
    Row {
        name: "group_query",
        contexts: AUTH,
        kind: Kind::Text,
        example: Some("\"SELECT name FROM memberships WHERE user = ?\""),
        summary: "Query of `database` for the groups of a user, one in each row, for `groups`.",
        apache: Some("AuthzDBDQuery"),
        since: "0.2",
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.group_query = Some(given.text())
            });
        },
        ..Row::BASE
    },
    Row {
        name: "users",
        contexts: AUTH,
        kind: Kind::ListOf(&Kind::Word(&NAME)),
        default: Some("[]"),
        example: Some("[\"ann\", \"bob\"]"),
        summary: "Users with access. Without `users` and `groups`, all users of `user_file`.",
        apache: Some("Require user, Require valid-user"),
        aliases: &["require_user", "user"],
        since: "0.2",
        set: |settings, given| edit(settings, given, |rules, given| rules.users = given.texts()),
        ..Row::BASE
    },
    Row {
        name: "groups",
        contexts: AUTH,
        kind: Kind::ListOf(&Kind::Word(&GROUP)),
        default: Some("[]"),
        example: Some("[\"staff\"]"),
        summary: "Groups whose members have access, besides `users`: those of `group_file`, `group_query`, \
                  [site.auth.ldap], or the groups claim of a token.",
        apache: Some("Require group"),
        aliases: &["require_group", "group"],
        since: "0.2",
        set: |settings, given| edit(settings, given, |rules, given| rules.groups = given.texts()),
        ..Row::BASE
    },
    Row {
        name: "networks",
        contexts: AUTH,
        kind: NETWORKS,
        default: Some("[]"),
        example: Some("[\"192.0.2.0/24\", \"2001:db8::/32\"]"),
        summary: "Networks of clients. With `satisfy = \"all\"`, others are refused; with \
                  `satisfy = \"any\"`, clients from these networks need no log-in. Behind a \
                  trusted proxy: the address that the proxy names.",
        apache: Some("Require ip"),
        aliases: &["addresses", "require_ip"],
        since: "0.2",
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.networks = given.parsed_list()
            })
        },
        ..Row::BASE
    },
    Row {
        name: "satisfy",
        contexts: AUTH,
        kind: Kind::Choice(&["all", "any"]),
        default: Some("\"all\""),
        summary: "Whether a client has to be in `networks` and log in (`all`), or one of both \
                  suffices (`any`).",
        apache: Some("Satisfy"),
        since: "0.2",
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.satisfies_any = given.text() == "any"
            });
        },
        ..Row::BASE
    },
    Row {
        name: "fields",
        contexts: AUTH,
        kind: Kind::MapOf(&FIELD_NAME, &Kind::Word(&SOURCE)),
        example: Some("{ Remote-Email = \"email\" }"),
        summary: "Request fields for programs and upstreams, each with the attribute ([site.auth.ldap]) \
                  or claim ([site.auth.jwt], [site.auth.oidc]) of the user that it is set to; several \
                  values are joined by commas. Fields of these names from the client, or of names \
                  that programs can't tell from them (`Remote_Email`), are never passed on.",
        apache: Some("AuthLDAPRemoteUserAttribute"),
        aliases: &["headers", "claims_to_headers"],
        since: "0.2",
        set: |settings, given| edit(settings, given, |rules, given| rules.fields = pairs(given)),
        ..Row::BASE
    },
    Row {
        name: "variables",
        contexts: AUTH,
        kind: Kind::MapOf(&VARIABLE_NAME, &Kind::Word(&SOURCE)),
        example: Some("{ AUTH_EMAIL = \"email\" }"),
        summary: "Variables for programs and logs, like `fields`.",
        since: "0.2",
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.variables = pairs(given)
            })
        },
        ..Row::BASE
    },
    Row {
        name: "ldap",
        contexts: AUTH,
        kind: Kind::Section(AUTH_LDAP),
        summary: "Users in a directory.",
        apache: Some("AuthBasicProvider ldap"),
        since: "0.2",
        ..Row::BASE
    },
    Row {
        name: "jwt",
        contexts: AUTH,
        kind: Kind::Section(AUTH_JWT),
        summary: "Access with JSON Web Tokens.",
        aliases: &["auth_jwt", "bearer"],
        since: "0.2",
        ..Row::BASE
    },
    Row {
        name: "oidc",
        contexts: AUTH,
        kind: Kind::Section(AUTH_OIDC),
        summary: "Log-in at an OpenID Connect provider.",
        aliases: &["openid", "openid_connect"],
        since: "0.2",
        ..Row::BASE
    },
];

fn pairs(given: Spanned) -> IdentityFields {
    let pairs = given.map().into_iter();
    pairs
        .map(|(name, source)| (name.into(), source.text().into()))
        .collect()
}

/// Changes the log-in rules of a site or route.
pub fn edit(settings: &mut Settings, given: Spanned, change: fn(&mut AuthRules, Spanned)) {
    let rules = Arc::make_mut(settings.auth.get_or_insert_default());
    rules.origin = given.origin();
    change(rules, given);
}
