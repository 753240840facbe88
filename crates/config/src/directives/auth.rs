//! `[site.auth]`: log-in with a user name and a password.
//!
//! A route's keys override the site's.
//! Out of scope: the password files, which are read when they are first needed.

use super::{abuse::NETWORKS, dynamic_vhosts::DATABASE};
use crate::{
    context::{AUTH, ROUTE, SITE},
    kind::{Kind, Word},
    model::{AuthRules, AuthScheme, DatabaseUrl, Settings},
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

pub const ROWS: &[Row<Settings>] = &[
    Row {
        name: "auth",
        contexts: SITE.or(ROUTE),
        kind: Kind::Section(AUTH),
        summary: "Log-in with a user name and a password.",
        aliases: &["auth_basic", "basic_auth", "basicauth", "authentication"],
        since: "0.5",
        ..Row::BASE
    },
    Row {
        name: "enabled",
        contexts: AUTH,
        kind: Kind::Boolean,
        default: Some("true"),
        summary: "Ask for a log-in? `false` in a route opens it to everyone.",
        since: "0.5",
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
        since: "0.5",
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
        since: "0.5",
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
        since: "0.5",
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
        since: "0.5",
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
        since: "0.5",
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
        since: "0.5",
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
        since: "0.5",
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
        since: "0.5",
        set: |settings, given| edit(settings, given, |rules, given| rules.users = given.texts()),
        ..Row::BASE
    },
    Row {
        name: "groups",
        contexts: AUTH,
        kind: Kind::ListOf(&Kind::Word(&NAME)),
        default: Some("[]"),
        example: Some("[\"staff\"]"),
        summary: "Groups of `group_file` whose members have access, besides `users`.",
        apache: Some("Require group"),
        aliases: &["require_group", "group"],
        since: "0.5",
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
        since: "0.5",
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
        since: "0.5",
        set: |settings, given| {
            edit(settings, given, |rules, given| {
                rules.satisfies_any = given.text() == "any"
            });
        },
        ..Row::BASE
    },
];

/// Changes the log-in rules of a site or route.
fn edit(settings: &mut Settings, given: Spanned, change: fn(&mut AuthRules, Spanned)) {
    let rules = Arc::make_mut(settings.auth.get_or_insert_default());
    rules.origin = given.origin();
    change(rules, given);
}
