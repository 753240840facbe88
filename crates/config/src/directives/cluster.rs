//! `[cluster]`: the engine over which servers share state, and this server's name; and
//! `[cluster.peers]`.
//!
//! Called by: `file`.
//! Out of scope: the password and the secret in files (`check/cluster`).

use super::metrics::ADDRESS;
use crate::{
    context::{CLUSTER, CLUSTER_PEERS, FILE},
    kind::{Kind, Word},
    model::{Cluster, ClusterDatabase, ClusterUrl, Shares},
    row::{Draft, Row, Rows},
    value::{Value, ValueError},
};
use saker_http::query::form_decoded;

/// Bytes of a node's name.
const NAME_BYTES_MAX: usize = 64;

static URL: Word = Word {
    expects: "the URL of a Redis, Valkey, PostgreSQL, or NATS server, such as \"redis://10.0.0.5:6379\"",
    pattern: "^(rediss?|valkeys?|postgres(ql)?|nats(\\+tls)?|tls)://",
    read: |text| read_url(text).map(|url| Value::parsed(Some(url))),
};

static NAME: Word = Word {
    expects: "a name of up to 64 letters, digits, \"-\", \".\", and \"_\"",
    pattern: "^[A-Za-z0-9._-]{1,64}$",
    read: |text| match is_name(text) {
        true => Ok(Value::Text(text.to_owned())),
        false => Err(ValueError::plain(None)),
    },
};

static PREFIX: Word = Word {
    expects: "a prefix of up to 64 letters, digits, \"-\", \".\", \"_\", and \":\"",
    pattern: "^[A-Za-z0-9._:-]{1,64}$",
    read: |text| match is_name(&text.replace(':', "-")) {
        true => Ok(Value::Text(text.to_owned())),
        false => Err(ValueError::plain(None)),
    },
};

impl Draft for Cluster {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }
}

pub const ROWS: &[Row<Cluster>] = &[
    Row {
        name: "cluster",
        contexts: FILE,
        kind: Kind::Section(CLUSTER),
        summary: "Servers that share purges, bans, limits, or certificates.",
        since: "0.2",
        ..Row::BASE
    },
    Row {
        name: "url",
        contexts: CLUSTER,
        kind: Kind::Word(&URL),
        example: Some("\"redis://10.0.0.5:6379\""),
        summary: "The server over which the servers share their state. Redis or Valkey: \
                  `redis://user:password@host:port/database`, or `rediss://` for TLS, where the \
                  server's certificate is verified. PostgreSQL: \
                  `postgres://user:password@host:port/database`. NATS with JetStream: \
                  `nats://user:password@host:port`, or `tls://`. Without a port: 6379, 5432, and \
                  4222. Changes of [cluster] take effect at the next start.",
        since: "0.2",
        aliases: &["redis", "address", "endpoint"],
        set: |cluster, given| {
            cluster.origin = given.origin();
            cluster.places.note("url", given.at.clone());
            cluster.url = given.parsed();
        },
        ..Row::BASE
    },
    Row {
        name: "share",
        contexts: CLUSTER,
        kind: Kind::ListOf(&Kind::Choice(&[
            "purges",
            "bans",
            "limits",
            "passes",
            "certificates",
        ])),
        default: Some("[\"purges\"]"),
        example: Some("[\"purges\", \"bans\", \"limits\"]"),
        summary: "What the servers share. `purges`: of the page cache. `bans`: of clients, at once. \
                  `limits`: request rates, and attempts to log in, which all servers count together. \
                  `passes`: the keys that sign cookies of challenges and downloads. \
                  `certificates`: automatic certificates, ordered once for all servers. All but \
                  purges need `secret_file`.",
        since: "0.2",
        aliases: &["shared", "features"],
        set: |cluster, given| {
            cluster.places.note("share", given.at.clone());
            let words = given.texts();
            let has = |word: &str| words.iter().any(|given| given == word);
            cluster.share = Shares {
                purges: has("purges"),
                bans: has("bans"),
                limits: has("limits"),
                passes: has("passes"),
                certificates: has("certificates"),
            };
        },
        ..Row::BASE
    },
    Row {
        name: "secret_file",
        contexts: CLUSTER,
        kind: Kind::Path,
        example: Some("\"/etc/saker/cluster-secret\""),
        summary: "File with a secret of at least 32 characters, the same on all servers: bans and \
                  charges to limits are signed with it, and certificates are encrypted. Root alone \
                  may be able to read it.",
        since: "0.2",
        aliases: &["secret", "key_file"],
        set: |cluster, given| {
            cluster.places.note("secret_file", given.at.clone());
            cluster.secret_file = Some(given.path());
        },
        ..Row::BASE
    },
    Row {
        name: "folder",
        contexts: CLUSTER,
        kind: Kind::Path,
        example: Some("\"/mnt/shared/saker\""),
        summary: "Directory that all servers have, such as one of NFS, in which certificates are \
                  shared instead of in the engine of `url`.",
        since: "0.2",
        aliases: &["directory", "shared_folder"],
        set: |cluster, given| {
            cluster.places.note("folder", given.at.clone());
            cluster.folder = Some(given.path());
        },
        ..Row::BASE
    },
    Row {
        name: "password_file",
        contexts: CLUSTER,
        kind: Kind::Path,
        example: Some("\"/etc/saker/redis-password\""),
        summary: "File with the password in its first line, instead of one in `url`; root alone may \
                  be able to read it.",
        since: "0.2",
        set: |cluster, given| {
            cluster.places.note("password_file", given.at.clone());
            cluster.password_file = Some(given.path());
        },
        ..Row::BASE
    },
    Row {
        name: "ca_file",
        contexts: CLUSTER,
        kind: Kind::Path,
        example: Some("\"/etc/saker/redis-ca.pem\""),
        summary: "Certificates (PEM) of the authorities that may have issued the certificate of a \
                  `rediss://` or `tls://` server; default: those that the system trusts. For PostgreSQL: TLS is \
                  demanded, and the certificate is verified; default: TLS where the server has it, \
                  unverified.",
        since: "0.2",
        set: |cluster, given| {
            cluster.places.note("ca_file", given.at.clone());
            cluster.ca_file = Some(given.path());
        },
        ..Row::BASE
    },
    Row {
        name: "node",
        contexts: CLUSTER,
        kind: Kind::Word(&NAME),
        default: Some("\"auto\""),
        example: Some("\"web-1\""),
        summary: "Name of this server in `saker cluster status` and `saker purge --wait`. `auto`: \
                  the host name, with the begin of the server's id.",
        since: "0.2",
        aliases: &["name", "node_name"],
        set: |cluster, given| cluster.node = given.text(),
        ..Row::BASE
    },
    Row {
        name: "stream",
        contexts: CLUSTER,
        kind: Kind::Word(&PREFIX),
        default: Some("\"saker\""),
        example: Some("\"shop\""),
        summary: "Begin of the names of the keys, such as `saker:purges`. Servers with the \
                  same sites use the same; others must not.",
        since: "0.2",
        aliases: &["prefix", "key_prefix"],
        set: |cluster, given| {
            cluster.places.note("stream", given.at.clone());
            cluster.stream = given.text();
        },
        ..Row::BASE
    },
    Row {
        name: "max_staleness",
        contexts: CLUSTER,
        kind: Kind::Duration {
            min_ms: 5_000,
            max_ms: 366 * 86_400_000,
        },
        default: Some("\"30s\""),
        summary: "How long a server that cannot reach the log uses its page cache. Then it fetches \
                  each page until it has read what it missed.",
        since: "0.2",
        set: |cluster, given| cluster.max_staleness_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "retention",
        contexts: CLUSTER,
        kind: Kind::Integer {
            min: 1_000,
            max: 100_000_000,
        },
        default: Some("100000"),
        unit: Some("records"),
        summary: "Purges that the log keeps, approximately. A server that was away for more of them \
                  clears its page cache.",
        since: "0.2",
        aliases: &["maxlen"],
        set: |cluster, given| cluster.retention = given.number(),
        ..Row::BASE
    },
    Row {
        name: "peers",
        contexts: CLUSTER,
        kind: Kind::Section(CLUSTER_PEERS),
        summary: "Pages that the servers hand each other.",
        since: "0.2",
        aliases: &["pages", "peer"],
        ..Row::BASE
    },
    Row {
        name: "listen",
        contexts: CLUSTER_PEERS,
        kind: Kind::Word(&ADDRESS),
        required: true,
        example: Some("\"10.0.0.11:7443\""),
        summary: "Address at which the other servers ask this one for pages. It is not an address \
                  of a [[listener]].",
        since: "0.2",
        aliases: &["address", "bind"],
        set: |cluster, given| {
            cluster.places.note("listen", given.at.clone());
            cluster.peers.origin = given.origin();
            cluster.peers.listen = given.parsed();
        },
        ..Row::BASE
    },
    Row {
        name: "announced",
        contexts: CLUSTER_PEERS,
        kind: Kind::Word(&ADDRESS),
        example: Some("\"192.0.2.11:7443\""),
        summary: "Address that is told to the other servers, where it is not that of `listen`.",
        since: "0.2",
        aliases: &["advertise", "announce", "external_address"],
        set: |cluster, given| {
            cluster.places.note("announced", given.at.clone());
            cluster.peers.announced = given.parsed();
        },
        ..Row::BASE
    },
    Row {
        name: "certificate",
        contexts: CLUSTER_PEERS,
        kind: Kind::Path,
        required: true,
        example: Some("\"/etc/saker/peer.pem\""),
        summary: "Certificate (PEM) of this server for the other ones, as client and as server. It \
                  is issued by an authority of `ca_file` for the host name in `name`, and may be \
                  the same on all servers.",
        since: "0.2",
        aliases: &["cert", "certificate_file"],
        set: |cluster, given| cluster.peers.certificate = given.path(),
        ..Row::BASE
    },
    Row {
        name: "key",
        contexts: CLUSTER_PEERS,
        kind: Kind::Path,
        required: true,
        example: Some("\"/etc/saker/peer.key\""),
        summary: "Private key (PEM) of `certificate`.",
        since: "0.2",
        aliases: &["private_key", "key_file"],
        set: |cluster, given| cluster.peers.key = given.path(),
        ..Row::BASE
    },
    Row {
        name: "ca_file",
        contexts: CLUSTER_PEERS,
        kind: Kind::Path,
        required: true,
        example: Some("\"/etc/saker/peer-ca.pem\""),
        summary: "Certificates (PEM) of the authorities of the servers. One of its own is best: \
                  other certificates of these authorities for `name` would be accepted, too.",
        since: "0.2",
        aliases: &["ca", "authorities", "client_ca"],
        set: |cluster, given| cluster.peers.ca_file = given.path(),
        ..Row::BASE
    },
    Row {
        name: "name",
        contexts: CLUSTER_PEERS,
        kind: Kind::Word(&NAME),
        default: Some("\"saker-peer\""),
        example: Some("\"saker-peer\""),
        summary: "Host name that the certificates of all servers are for.",
        since: "0.2",
        aliases: &["server_name", "certificate_name"],
        set: |cluster, given| cluster.peers.name = given.text().to_ascii_lowercase(),
        ..Row::BASE
    },
    Row {
        name: "timeout",
        contexts: CLUSTER_PEERS,
        kind: Kind::Duration {
            min_ms: 100,
            max_ms: 10_000,
        },
        default: Some("\"5s\""),
        summary: "Time in which another server has to hand out a page, which it may have to make \
                  first. Afterwards, this server makes it itself.",
        since: "0.2",
        set: |cluster, given| cluster.peers.timeout_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "page_size",
        contexts: CLUSTER_PEERS,
        kind: Kind::Bytes {
            min: 1 << 10,
            max: 256 << 20,
        },
        default: Some("\"8MiB\""),
        summary: "Longer pages are not handed out: each server makes them itself.",
        since: "0.2",
        aliases: &["page_size_max", "max_page_size"],
        set: |cluster, given| cluster.peers.page_bytes_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "copied_after",
        contexts: CLUSTER_PEERS,
        kind: Kind::Integer { min: 1, max: 100 },
        default: Some("2"),
        unit: Some("requests"),
        summary: "Requests of this server to another one for a page until it is kept in this \
                  server's cache, too. 1: each page at once.",
        since: "0.2",
        aliases: &["copy_after"],
        set: |cluster, given| {
            cluster.peers.copied_after = u8::try_from(given.number()).unwrap_or(u8::MAX);
        },
        ..Row::BASE
    },
];

fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

fn read_url(text: &str) -> Result<ClusterUrl, ValueError> {
    let redis = ClusterDatabase::Redis(0);
    let (is_tls, engine, rest) = match text.split_once("://") {
        Some(("redis" | "valkey", rest)) => (false, redis, rest),
        Some(("rediss" | "valkeys", rest)) => (true, redis, rest),
        Some(("postgres" | "postgresql", rest)) => {
            (false, ClusterDatabase::Postgres(String::new()), rest)
        }
        Some(("nats", rest)) => (false, ClusterDatabase::Nats, rest),
        Some(("tls" | "nats+tls", rest)) => (true, ClusterDatabase::Nats, rest),
        Some((scheme, _)) => {
            return Err(ValueError::with_help(
                format!("unsupported engine `{scheme}`"),
                "supported: redis:// and rediss:// (Redis and Valkey), postgres:// (PostgreSQL), \
                 nats:// and tls:// (NATS)",
            ));
        }
        None => return Err(ValueError::plain(Some(format!("write \"redis://{text}\"")))),
    };
    if rest.contains(['?', '#']) || !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(ValueError::new(
            "spaces, \"?\", and \"#\" are not allowed; in a password, write them as %20, %3F, and %23",
        ));
    }
    let (authority, database) = match rest.split_once('/') {
        Some((authority, database)) => (authority, database),
        None => (rest, ""),
    };
    let (credentials, place) = authority
        .rsplit_once('@')
        .map_or((None, authority), |(credentials, place)| {
            (Some(credentials), place)
        });
    let (user, password) = match credentials.map(|both| both.split_once(':').unwrap_or((both, "")))
    {
        Some((user, password)) => (decoded(user)?, decoded(password)?),
        None => (None, None),
    };
    let usual_port = match engine {
        ClusterDatabase::Redis(_) => 6379,
        ClusterDatabase::Postgres(_) => 5432,
        ClusterDatabase::Nats => 4222,
    };
    let (host, port) = place_of(place, usual_port)?;
    let database = database_of(&engine, database, user.as_deref())?;
    Ok(ClusterUrl {
        is_tls,
        user,
        password,
        host,
        port,
        database,
    })
}

/// The database that the path of a URL names.
fn database_of(
    engine: &ClusterDatabase,
    path: &str,
    user: Option<&str>,
) -> Result<ClusterDatabase, ValueError> {
    match (engine, path) {
        (ClusterDatabase::Postgres(_), name) => decoded(name)?
            .or_else(|| user.map(str::to_owned))
            .map(ClusterDatabase::Postgres)
            .ok_or_else(|| ValueError::new("the path must be the name of a database")),
        (ClusterDatabase::Nats, "") => Ok(ClusterDatabase::Nats),
        (ClusterDatabase::Nats, _) => Err(ValueError::new("a NATS server has no databases")),
        (ClusterDatabase::Redis(_), "") => Ok(ClusterDatabase::Redis(0)),
        (ClusterDatabase::Redis(_), number) => number
            .parse()
            .map(ClusterDatabase::Redis)
            .map_err(|_| ValueError::new("the path must be the number of a database")),
    }
}

fn place_of(place: &str, usual_port: u16) -> Result<(String, u16), ValueError> {
    let (host, port) = match place
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => place
            .split_once(':')
            .map_or((place, None), |(host, port)| (host, Some(port))),
    };
    let port = match port {
        None => Some(usual_port),
        Some(port) => port.parse().ok().filter(|port| *port > 0),
    };
    let is_host = !host.is_empty()
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte));
    match port {
        Some(port) if is_host => Ok((host.to_owned(), port)),
        _ => Err(ValueError::new("the host or the port is not valid")),
    }
}

fn decoded(text: &str) -> Result<Option<String>, ValueError> {
    // A plus stands for itself in URLs.
    let text = text.replace('+', "%2B");
    let decoded = String::from_utf8(form_decoded(text.as_bytes()).into_owned())
        .map_err(|_| ValueError::new("the credentials are not UTF-8"))?;
    Ok((!decoded.is_empty()).then_some(decoded))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(user: &str, password: &str, host: &str, port: u16, database: u32) -> ClusterUrl {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ClusterUrl {
            is_tls: false,
            user: given(user),
            password: given(password),
            host: host.into(),
            port,
            database: ClusterDatabase::Redis(database),
        }
    }

    #[test]
    fn urls() {
        for (text, expected) in [
            ("redis://a", url("", "", "a", 6379, 0)),
            ("valkey://a:1/", url("", "", "a", 1, 0)),
            ("redis://[::1]:7/3", url("", "", "::1", 7, 3)),
            ("redis://:p%40ss%2F@a", url("", "p@ss/", "a", 6379, 0)),
            ("redis://bob:p@s+s@a", url("bob", "p@s+s", "a", 6379, 0)),
        ] {
            assert_eq!(read_url(text), Ok(expected), "{text}");
        }
        assert!(read_url("rediss://a").is_ok_and(|url| url.is_tls));
        let postgres = |name: &str, given: ClusterUrl| ClusterUrl {
            database: ClusterDatabase::Postgres(name.into()),
            ..given
        };
        for (text, expected) in [
            (
                "postgres://a/shop",
                postgres("shop", url("", "", "a", 5432, 0)),
            ),
            (
                "postgresql://bob:p%40ss@[::1]:1/a%20b",
                postgres("a b", url("bob", "p@ss", "::1", 1, 0)),
            ),
            (
                "postgres://bob:x@a",
                postgres("bob", url("bob", "x", "a", 5432, 0)),
            ),
        ] {
            assert_eq!(read_url(text), Ok(expected), "{text}");
        }
        let nats = |is_tls, given: ClusterUrl| ClusterUrl {
            is_tls,
            database: ClusterDatabase::Nats,
            ..given
        };
        for (text, expected) in [
            ("nats://a", nats(false, url("", "", "a", 4222, 0))),
            (
                "nats://t0ken@a:1/",
                nats(false, url("t0ken", "", "a", 1, 0)),
            ),
            (
                "tls://bob:x@[::1]",
                nats(true, url("bob", "x", "::1", 4222, 0)),
            ),
        ] {
            assert_eq!(read_url(text), Ok(expected), "{text}");
        }
        for bad in [
            "",
            "a:6379",
            "nats://a/0",
            "nats://",
            "ws://a",
            "postgres://a",
            "postgres://a/x?sslmode=disable",
            "redis+unix:///run/redis.sock",
            "redis://",
            "redis://a:0",
            "redis://a:x",
            "redis://a:70000",
            "redis://a/x",
            "redis://a?x=1",
            "redis://a b",
            "redis://[::1",
            "redis://:%ff@a",
        ] {
            assert!(read_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_password_is_shown() {
        let url = url("bob", "s3cret", "a", 1, 2);
        assert_eq!(format!("{url} {url:?}"), "redis://a:1/2 redis://a:1/2");
    }
}
