//! `[dynamic_vhosts]`: the database of hosts, its query, and how long answers are cached.
//!
//! Called by: `file`.
//! Out of scope: whether sites use it, and the URL in `database_file` (`check/dynamic_vhosts`).

use crate::{
    context::{DYNAMIC_VHOSTS, FILE},
    kind::{Kind, Word},
    model::{DatabaseKind, DatabaseUrl, Hosts},
    row::{Draft, Row, Rows},
    value::{Key, Spanned, Value, ValueError},
};
use saker_http::Status;

pub(super) static DATABASE: Word = Word {
    expects: "the URL of a database, such as \"mysql://saker:password@localhost/panel\"",
    pattern: "^(mysql|mariadb|postgres|postgresql|sqlite|ldap|ldapi|ldaps):",
    read: |text| match DatabaseKind::of(text) {
        Some(_) => Ok(Value::Text(text.to_owned())),
        None => Err(ValueError::with_help(
            "unsupported database",
            "supported: mysql, mariadb, postgres, sqlite and ldap",
        )),
    },
};

static CHANNEL: Word = Word {
    expects: "a name of up to 63 letters, digits, and \"_\"",
    pattern: "^[A-Za-z0-9_]{1,63}$",
    read: |text| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        match (1..=63).contains(&text.len()) && text.bytes().all(is_plain) {
            true => Ok(Value::Text(text.to_owned())),
            false => Err(ValueError::plain(None)),
        }
    },
};

const COUNT: Kind = Kind::Integer {
    min: 1,
    max: 100_000_000,
};

const fn row(
    name: &'static str,
    kind: Kind,
    summary: &'static str,
    set: fn(&mut Hosts, Spanned),
) -> Row<Hosts> {
    Row {
        name,
        contexts: DYNAMIC_VHOSTS,
        kind,
        summary,
        since: "0.2",
        set,
        ..Row::BASE
    }
}

const fn duration(
    name: &'static str,
    min_ms: u64,
    default: &'static str,
    summary: &'static str,
    set: fn(&mut Hosts, Spanned),
) -> Row<Hosts> {
    Row {
        default: Some(default),
        ..row(
            name,
            Kind::Duration {
                min_ms,
                max_ms: 366 * 86_400_000,
            },
            summary,
            set,
        )
    }
}

impl Draft for Hosts {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }

    fn note_unread(&mut self, _key: Key) {
        self.has_unread = true;
    }
}

pub const ROWS: &[Row<Hosts>] = &[
    Row {
        name: "dynamic_vhosts",
        deprecated: &["hosts"],
        contexts: FILE,
        kind: Kind::Section(DYNAMIC_VHOSTS),
        summary: "Dynamic virtual hosts: hosts looked up in a database.",
        since: "0.2",
        ..Row::BASE
    },
    Row {
        example: Some("\"mysql://saker:password@localhost/panel\""),
        apache: Some("DBDriver, DBDParams"),
        aliases: &["url", "dsn"],
        ..row(
            "database",
            Kind::Word(&DATABASE),
            "URL of the database: `mysql://` (also for MariaDB), `postgres://`, `ldap://` or \
             `ldaps://` with `user:password@host:port/name`, or `sqlite:///path`. A Unix socket is \
             `?socket=/path` for MySQL and `?host=/directory` for PostgreSQL. TLS is used if the \
             database offers it; `?ssl-mode=VERIFY_IDENTITY&ssl-ca=/path` (PostgreSQL: \
             `?sslmode=verify-full&sslrootcert=/path`) requires it and verifies the server's \
             identity.",
            |hosts, given| {
                hosts.database_origin = given.origin();
                hosts.database = Some(DatabaseUrl(given.text().into()));
            },
        )
    },
    Row {
        example: Some("\"/etc/saker/hosts.url\""),
        ..row(
            "database_file",
            Kind::Path,
            "File whose first line is the URL, instead of `database`, so that the password stays \
             out of this file.",
            |hosts, given| {
                hosts.database_origin = given.origin();
                hosts.database_file = Some(given.path());
            },
        )
    },
    Row {
        example: Some("\"SELECT docroot AS root, php, suspended FROM hosts WHERE name = ?\""),
        aliases: &["select", "filter", "sql"],
        ..row(
            "query",
            Kind::Text,
            "Query for one host; each `?` is replaced by the host name, in lowercase and without \
             the port. The first row counts. For LDAP, a filter such as \
             `(&(objectClass=webHost)(cn=?))`.",
            |hosts, given| {
                hosts.query_origin = given.origin();
                hosts.query = given.text();
            },
        )
    },
    Row {
        example: Some("\"ou=hosts,dc=example,dc=org\""),
        ..row(
            "ldap_base",
            Kind::Text,
            "LDAP: base DN of the search.",
            |hosts, given| hosts.ldap_base = given.text(),
        )
    },
    Row {
        example: Some("\"cn=saker,dc=example,dc=org\""),
        ..row(
            "ldap_user",
            Kind::Text,
            "LDAP: DN to bind as. Default: anonymous bind.",
            |hosts, given| hosts.ldap_user = given.text(),
        )
    },
    Row {
        example: Some("\"secret\""),
        ..row(
            "ldap_password",
            Kind::Text,
            "LDAP: password of `ldap_user`.",
            |hosts, given| hosts.ldap_password = given.text(),
        )
    },
    Row {
        default: Some("[]"),
        example: Some("[\"/srv/www\"]"),
        aliases: &["base", "allowed_roots"],
        ..row(
            "roots",
            Kind::ListOf(&Kind::Path),
            "Directories that every document root from the database must be inside of, with \
             symbolic links resolved. Others are refused and logged.",
            |hosts, given| hosts.roots = paths(given),
        )
    },
    Row {
        aliases: &["ttl", "cache_time"],
        ..duration(
            "keep",
            100,
            "\"60s\"",
            "How long an answer is cached. Answers in use are refreshed in the background before \
             they expire.",
            |hosts, given| hosts.answer_ms = given.number(),
        )
    },
    Row {
        aliases: &["negative_ttl"],
        ..duration(
            "keep_missing",
            0,
            "\"1s\"",
            "How long a missing host is cached.",
            |hosts, given| hosts.missing_ms = given.number(),
        )
    },
    duration(
        "keep_stale",
        0,
        "\"1d\"",
        "How long expired answers are used while the database is unavailable.",
        |hosts, given| hosts.stale_ms = given.number(),
    ),
    Row {
        example: Some("\"hosts\""),
        aliases: &["listen", "channel"],
        ..row(
            "notify",
            Kind::Word(&CHANNEL),
            "Channel on which a PostgreSQL database announces changes (`NOTIFY hosts, \
             'shop.example'`), which hold at once then. Without a name: any host may have changed.",
            |hosts, given| {
                hosts.notify_origin = given.origin();
                hosts.notify = Some(given.text());
            },
        )
    },
    Row {
        default: Some("100000"),
        unit: Some("hosts"),
        ..row(
            "entries",
            COUNT,
            "Maximum number of cached hosts.",
            |hosts, given| hosts.entries_max = given.number() as usize,
        )
    },
    Row {
        default: Some("10000"),
        unit: Some("hosts"),
        ..row(
            "entries_missing",
            COUNT,
            "Maximum number of cached names without a host.",
            |hosts, given| hosts.missing_max = given.number() as usize,
        )
    },
    duration(
        "timeout",
        10,
        "\"5s\"",
        "Timeout of a query.",
        |hosts, given| hosts.timeout_ms = given.number(),
    ),
    Row {
        default: Some("4"),
        unit: Some("connections"),
        ..row(
            "connections",
            Kind::Integer { min: 1, max: 256 },
            "Maximum number of concurrent queries, for all workers together.",
            |hosts, given| hosts.connections_max = given.number() as u32,
        )
    },
    Row {
        default: Some("404"),
        example: Some("\"site\""),
        ..row(
            "unknown",
            Kind::OneOf(&[
                Kind::Choice(&["site"]),
                Kind::Integer { min: 400, max: 599 },
            ]),
            "Response for names that the database does not know: a status, or `site` for the site \
             as configured.",
            |hosts, given| {
                hosts.unknown = match given.value {
                    Value::Number(status) => Some(Status(status as u16)),
                    _ => None,
                }
            },
        )
    },
];

fn paths(given: Spanned) -> Vec<std::path::PathBuf> {
    given.list().into_iter().map(Spanned::path).collect()
}
