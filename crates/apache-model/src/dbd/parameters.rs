//! DBDParams of each driver, to the URL that our databases have.
//!
//! Difficulty: each driver of Apache's has a language of its own. That of mysql are pairs with
//! almost anything between them, pgsql's is libpq's (values may stand in quotes, with backslashes),
//! sqlite3's is a path.

use std::{fmt::Write, time::Duration};

/// DBDriver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    Mysql,
    Postgres,
    Sqlite,
}

/// Apache has no limit of its own; a request can't wait for ever.
const TIMEOUT_S: u64 = 10;

/// The place of a database, and the time that a query may take.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    pub url: String,
    pub timeout: Duration,
}

pub fn place(driver: Driver, text: &str) -> Place {
    match driver {
        Driver::Sqlite => Place {
            url: format!("sqlite://{}", escaped(text, b"/")),
            timeout: Duration::from_secs(TIMEOUT_S),
        },
        Driver::Mysql => mysql(&mysql_pairs(text)),
        Driver::Postgres => postgres(&postgres_pairs(text)),
    }
}

type Pair = (String, String);

fn value<'p>(pairs: &'p [Pair], names: &[&str]) -> Option<&'p str> {
    pairs
        .iter()
        .rev()
        .find(|(name, _)| names.contains(&name.as_str()))
        .map(|(_, value)| value.as_str())
        .filter(|value| !value.is_empty())
}

fn timeout(pairs: &[Pair], names: &[&str]) -> Duration {
    let said = value(pairs, names)
        .and_then(|text| text.parse().ok())
        .filter(|seconds| *seconds > 0);
    Duration::from_secs(said.unwrap_or(TIMEOUT_S))
}

/// `user:password@host:port/name`, without what was not said.
fn url(scheme: &str, pairs: &[Pair], host: &str) -> String {
    let mut url = format!("{scheme}://");
    if let Some(user) = value(pairs, &["user"]) {
        url.push_str(&escaped(user, b""));
        if let Some(password) = value(pairs, &["pass", "password"]) {
            let _ = write!(url, ":{}", escaped(password, b""));
        }
        url.push('@');
    }
    // An address of IPv6 stands in brackets there.
    match host.contains(':') && !host.starts_with('[') {
        true => _ = write!(url, "[{host}]"),
        false => url.push_str(&escaped(host, b"[]:")),
    }
    if let Some(port) = value(pairs, &["port"])
        .and_then(|port| port.parse::<u16>().ok())
        .filter(|port| *port > 0)
    {
        let _ = write!(url, ":{port}");
    }
    let _ = write!(
        url,
        "/{}",
        escaped(value(pairs, &["dbname"]).unwrap_or_default(), b"")
    );
    url
}

/// Words of ours: apr_dbd_mysql has none for TLS and passes over what it does not know, so a
/// configuration with them serves Apache, too.
const MYSQL_WORDS: &[&str] = &["sslmode", "sslca", "sslcert", "sslkey"];

fn mysql(pairs: &[Pair]) -> Place {
    let host = value(pairs, &["host"]).unwrap_or("localhost");
    let mut url = url("mysql", pairs, host);
    // The client library takes its socket for this name, and connects over TCP to all others.
    let socket = value(pairs, &["sock"])
        .or_else(|| (host == "localhost").then_some("/run/mysqld/mysqld.sock"));
    let words = MYSQL_WORDS
        .iter()
        .filter_map(|word| Some((*word, value(pairs, &[word])?)));
    add_words(
        &mut url,
        socket
            .map(|socket| ("socket", socket))
            .into_iter()
            .chain(words),
    );
    Place {
        url,
        timeout: timeout(pairs, &["connecttimeout", "readtimeout"]),
    }
}

/// Words of libpq that mean the same to us.
const POSTGRES_WORDS: &[&str] = &["sslcert", "sslkey", "application_name", "options"];

fn postgres(pairs: &[Pair]) -> Place {
    let host = value(pairs, &["hostaddr"])
        .or_else(|| value(pairs, &["host"]))
        .unwrap_or("/var/run/postgresql");
    let is_folder = host.starts_with('/');
    let mut url = url(
        "postgres",
        pairs,
        if is_folder { "localhost" } else { host },
    );
    let folder = is_folder.then_some(("host", host));
    // To libpq an authority is no demand by itself, and `system` are those that the machine trusts,
    // of whom nothing less will do.
    let (mode, authority) = match (value(pairs, &["sslmode"]), value(pairs, &["sslrootcert"])) {
        (_, Some("system")) => (Some("verify-full"), None),
        (None, Some(path)) => (Some("prefer"), Some(path)),
        said => said,
    };
    let demands = [("sslmode", mode), ("sslrootcert", authority)]
        .into_iter()
        .filter_map(|(word, value)| Some((word, value?)));
    let words = POSTGRES_WORDS
        .iter()
        .filter_map(|word| Some((*word, value(pairs, &[word])?)));
    add_words(&mut url, folder.into_iter().chain(demands).chain(words));
    Place {
        url,
        timeout: timeout(pairs, &["connect_timeout"]),
    }
}

fn add_words<'w>(url: &mut String, words: impl Iterator<Item = (&'w str, &'w str)>) {
    for (number, (name, value)) in words.enumerate() {
        let _ = write!(
            url,
            "{}{name}={}",
            if number == 0 { '?' } else { '&' },
            escaped(value, b"/")
        );
    }
}

/// `name = value` with white space, commas, semicolons or bars between (apr_dbd_mysql).
fn mysql_pairs(text: &str) -> Vec<Pair> {
    const BETWEEN: [char; 7] = [' ', '\r', '\n', '\t', ';', '|', ','];
    let (mut pairs, mut rest) = (Vec::new(), text);
    while let Some((before, behind)) = rest.split_once('=') {
        let name = before
            .trim_end()
            .rsplit(|letter: char| !letter.is_ascii_alphabetic())
            .next()
            .unwrap_or_default();
        let behind = behind.trim_start();
        let end = behind.find(BETWEEN).unwrap_or(behind.len());
        let (value, after) = behind.split_at_checked(end).unwrap_or((behind, ""));
        pairs.push((name.to_ascii_lowercase(), value.to_owned()));
        rest = after;
    }
    pairs
}

/// `name = value` or `name = 'a value'`, with backslashes before what is meant as it is (libpq,
/// "Connection Strings").
fn postgres_pairs(text: &str) -> Vec<Pair> {
    let (mut pairs, mut letters) = (Vec::new(), text.chars().peekable());
    loop {
        let mut name = String::new();
        while let Some(letter) = letters.next_if(|letter| *letter != '=') {
            name.push(letter);
        }
        if letters.next().is_none() {
            return pairs;
        }
        while letters
            .next_if(|letter| letter.is_ascii_whitespace())
            .is_some()
        {}
        let is_quoted = letters.next_if_eq(&'\'').is_some();
        let mut value = String::new();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => value.extend(letters.next()),
                '\'' if is_quoted => break,
                letter if letter.is_ascii_whitespace() && !is_quoted => break,
                letter => value.push(letter),
            }
        }
        pairs.push((name.trim().to_ascii_lowercase(), value));
    }
}

/// As a part of a URL; `plain` are bytes that need no escape there.
fn escaped(text: &str, plain: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || plain.contains(&byte) {
            true => out.push(char::from(byte)),
            false => _ = write!(out, "%{byte:02X}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let pairs = [
            (
                Driver::Sqlite,
                "/var/lib/users 1.db",
                "sqlite:///var/lib/users%201.db",
            ),
            (
                Driver::Mysql,
                "host=db.example, port=3307;user = web pass=p@s:s|dbname=users",
                "mysql://web:p%40s%3As@db.example:3307/users",
            ),
            (
                Driver::Mysql,
                "dbname=x,user=u,sock=/tmp/my sql",
                "mysql://u@localhost/x?socket=/tmp/my",
            ),
            (
                Driver::Mysql,
                "",
                "mysql://localhost/?socket=/run/mysqld/mysqld.sock",
            ),
            (
                Driver::Mysql,
                "host=db,user=u,sslmode=VERIFY_IDENTITY,sslca=/etc/my-ca.pem",
                "mysql://u@db/?sslmode=VERIFY_IDENTITY&sslca=/etc/my-ca.pem",
            ),
            (Driver::Mysql, "host=::1,user=u", "mysql://u@[::1]/"),
            (
                Driver::Postgres,
                "host=db.example dbname=apacheauth user=apache password='a \\'b\\\\' sslmode=require",
                "postgres://apache:a%20%27b%5C@db.example/apacheauth?sslmode=require",
            ),
            (
                Driver::Postgres,
                "host=db sslmode=verify-full sslrootcert=/etc/ca.pem sslcert=/c sslkey=/k",
                "postgres://db/?sslmode=verify-full&sslrootcert=/etc/ca.pem&sslcert=/c&sslkey=/k",
            ),
            (
                Driver::Postgres,
                "host=db sslrootcert=/ca",
                "postgres://db/?sslmode=prefer&sslrootcert=/ca",
            ),
            (
                Driver::Postgres,
                "host=db sslrootcert=system",
                "postgres://db/?sslmode=verify-full",
            ),
            (
                Driver::Postgres,
                "dbname = a",
                "postgres://localhost/a?host=/var/run/postgresql",
            ),
            (
                Driver::Postgres,
                "host=/tmp/pg port=5433 user=u",
                "postgres://u@localhost:5433/?host=/tmp/pg",
            ),
            (
                Driver::Postgres,
                "nothing",
                "postgres://localhost/?host=/var/run/postgresql",
            ),
        ];
        for (driver, text, expected) in pairs {
            assert_eq!(place(driver, text).url, expected, "{text}");
        }
        assert_eq!(
            place(Driver::Mysql, "connecttimeout=3").timeout,
            Duration::from_secs(3)
        );
        assert_eq!(
            place(Driver::Postgres, "connect_timeout=x").timeout,
            Duration::from_secs(TIMEOUT_S)
        );
    }
}
