//! `[hosts]`: which database knows hosts, what it is asked, and how long its answers hold.

use crate::{
    context::{DYNAMIC_VHOSTS, FILE},
    kind::{Kind, Word},
    model::{DatabaseKind, DatabaseUrl, Hosts},
    row::{Draft, Row, Rows},
    value::{Spanned, Value, ValueError},
};
use saker_http::Status;

static DATABASE: Word = Word {
    expects: "the URL of a database, such as \"mysql://saker:password@localhost/panel\"",
    pattern: "^(mysql|mariadb|postgres|postgresql|sqlite|ldap|ldapi|ldaps):",
    read: |text| match DatabaseKind::of(text) {
        Some(_) => Ok(Value::Text(text.to_owned())),
        None => Err(ValueError::with_help(
            "this is none of the databases that are known",
            "mysql, mariadb, postgres, sqlite and ldap are",
        )),
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
        since: "0.9",
        set: set,
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
}

pub const ROWS: &[Row<Hosts>] = &[
    Row {
        name: "dynamic_vhosts",
        deprecated: &["hosts"],
        contexts: FILE,
        kind: Kind::Section(DYNAMIC_VHOSTS),
        summary: "Hosts that a database knows.",
        since: "0.9",
        ..Row::BASE
    },
    Row {
        example: Some("\"mysql://saker:password@localhost/panel\""),
        apache: Some("DBDriver, DBDParams"),
        aliases: &["url", "dsn"],
        ..row(
            "database",
            Kind::Word(&DATABASE),
            "The database: `mysql://` (MariaDB, too), `postgres://`, `ldap://` or `ldaps://` with `user:password@host:port/name`, or \
             `sqlite:///path`. `?socket=/path` is MySQL's way to a Unix socket, `?host=/folder` PostgreSQL's. TLS is used where the \
             database has it; `?ssl-mode=VERIFY_IDENTITY&ssl-ca=/path` (of PostgreSQL `?sslmode=verify-full&sslrootcert=/path`) insists \
             on it, and on who it is.",
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
            "A file whose first line is the URL, in the place of `database`: a password need not stand here.",
            |hosts, given| {
                hosts.database_origin = given.origin();
                hosts.database_file = Some(given.path());
            },
        )
    },
    Row {
        example: Some("\"SELECT docroot AS root, php, suspended FROM hosts WHERE name = ?\""),
        aliases: &["select", "filter"],
        ..row(
            "query",
            Kind::Text,
            "What it is asked; every `?` stands for the name of the host, in small letters and without a port. The first row counts. Of LDAP it is a \
             filter, such as `(&(objectClass=webHost)(cn=?))`.",
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
            "Of LDAP: the entry below which hosts are looked for.",
            |hosts, given| hosts.ldap_base = given.text(),
        )
    },
    Row {
        example: Some("\"cn=saker,dc=example,dc=org\""),
        ..row(
            "ldap_user",
            Kind::Text,
            "Of LDAP: as whom; without it, as nobody in particular.",
            |hosts, given| hosts.ldap_user = given.text(),
        )
    },
    Row {
        example: Some("\"secret\""),
        ..row(
            "ldap_password",
            Kind::Text,
            "Of LDAP: the password of `ldap_user`.",
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
            "Folders: document roots that the database names have to lie below one of them, links followed. Others are refused, which is logged.",
            |hosts, given| hosts.roots = paths(given),
        )
    },
    Row {
        aliases: &["ttl", "cache_time"],
        ..duration(
            "keep",
            100,
            "\"60s\"",
            "How long an answer holds. What is in use is asked again before that, beside its requests.",
            |hosts, given| hosts.answer_ms = given.number(),
        )
    },
    Row {
        aliases: &["negative_ttl"],
        ..duration(
            "keep_missing",
            0,
            "\"1s\"",
            "How long it is held that there is no such host.",
            |hosts, given| hosts.missing_ms = given.number(),
        )
    },
    duration(
        "keep_stale",
        0,
        "\"1d\"",
        "While the database is away, answers go on being used for so long.",
        |hosts, given| hosts.stale_ms = given.number(),
    ),
    Row {
        default: Some("100000"),
        unit: Some("hosts"),
        ..row(
            "entries",
            COUNT,
            "Hosts that are kept in memory.",
            |hosts, given| hosts.entries_max = given.number() as usize,
        )
    },
    Row {
        default: Some("10000"),
        unit: Some("hosts"),
        ..row(
            "entries_missing",
            COUNT,
            "Names without a host that are kept in memory.",
            |hosts, given| hosts.missing_max = given.number() as usize,
        )
    },
    duration(
        "timeout",
        10,
        "\"5s\"",
        "An answer that takes longer is none.",
        |hosts, given| hosts.timeout_ms = given.number(),
    ),
    Row {
        default: Some("4"),
        unit: Some("connections"),
        ..row(
            "connections",
            Kind::Integer { min: 1, max: 256 },
            "Questions to the database at a time, for all workers together.",
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
            "What names get that the database does not know: a status, or `site` for the site as it is configured.",
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
