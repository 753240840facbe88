//! What a row says of a host, from texts to types. A row that makes no sense is refused as a whole:
//! half of it might be the wrong half.

use saker_config::{model::PhpUse, parse_php_use, units};
use saker_database::Row;
use saker_files::Lease;
use std::{path::Path, sync::Arc};

/// What is known of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRow {
    /// Document root; `None`: the site's own.
    pub root: Option<Box<Path>>,
    /// Whom programs run as.
    pub user: Option<Box<str>>,
    pub group: Option<Box<str>>,
    /// As `php` of a site has it.
    pub php: Option<Box<str>>,
    /// Of all its responses together, bytes in a second.
    pub out_bytes_per_s: Option<u64>,
    /// Of one client's address, requests in 1000 seconds.
    pub requests_per_1000_s: Option<u64>,
    /// Of one client's address, requests that are being answered.
    pub at_a_time_address: Option<u64>,
    /// Another place to which all of its requests are sent.
    pub redirect: Option<Box<str>>,
    pub is_suspended: bool,
}

/// What the database has said.
#[derive(Debug)]
pub enum Said {
    Known(HostRow),
    Missing,
    /// There is a row, and it can't be used.
    Refused,
}

/// What may be done with it.
#[derive(Clone, Debug)]
pub enum Answer {
    Known(Arc<HostRow>, Lease),
    Missing(Lease),
    Refused,
    /// Nothing is known, and the database does not answer.
    Away,
}

impl HostRow {
    /// By the names of columns; what has another name is the query's own affair.
    pub fn read(row: &Row) -> Result<HostRow, String> {
        let mut host = HostRow::default();
        for (name, value) in row.columns() {
            let Some(column) = Column::of(&plain(name)) else {
                continue;
            };
            let told = |why: &str| format!("column {name}: {why}");
            let Some(value) = value
                .map_err(told)?
                .map(str::trim)
                .filter(|value| !value.is_empty())
            else {
                continue;
            };
            host.take(column, value).map_err(|why| told(&why))?;
        }
        Ok(host)
    }

    fn take(&mut self, column: Column, value: &str) -> Result<(), String> {
        match column {
            Column::Root => self.root = Some(Path::new(value).into()),
            Column::User => self.user = Some(user(value)?),
            Column::Group => self.group = Some(user(value)?),
            Column::Php => self.php = Some(php(value)?),
            Column::Bandwidth => self.out_bytes_per_s = rate(value, units::parse_bandwidth)?,
            Column::Requests => self.requests_per_1000_s = rate(value, units::parse_request_rate)?,
            Column::Connections => {
                self.at_a_time_address = Some(value.parse().map_err(|_| "is no number".to_owned())?)
            }
            Column::Redirect => self.redirect = Some(url(value)?),
            Column::Suspended => self.is_suspended = truth(value)?,
            Column::Active => self.is_suspended = !truth(value)?,
        }
        Ok(())
    }

    /// What it takes in memory besides itself, about.
    pub fn bytes(&self) -> usize {
        let texts = [&self.user, &self.group, &self.php, &self.redirect];
        let root = self.root.as_ref().map_or(0, |root| root.as_os_str().len());
        root + texts
            .into_iter()
            .flatten()
            .map(|text| text.len())
            .sum::<usize>()
    }
}

/// What a column means to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Root,
    User,
    Group,
    Php,
    Bandwidth,
    Requests,
    Connections,
    Redirect,
    Suspended,
    Active,
}

impl Column {
    /// By its plain name; `None`: nothing.
    fn of(name: &str) -> Option<Column> {
        Some(match name {
            "root" | "docroot" | "documentroot" | "apachedocumentroot" => Column::Root,
            "user" | "apachesuexecuid" => Column::User,
            "group" | "apachesuexecgid" => Column::Group,
            "php" => Column::Php,
            "bandwidth" | "bytespers" => Column::Bandwidth,
            "requests" | "requestspers" => Column::Requests,
            "connections" | "atatime" => Column::Connections,
            "redirect" => Column::Redirect,
            "suspended" | "disabled" => Column::Suspended,
            "active" | "enabled" => Column::Active,
            _ => return None,
        })
    }
}

/// `Document_Root` and `documentRoot` are the same.
fn plain(name: &str) -> String {
    name.chars()
        .filter(|letter| *letter != '_')
        .map(|letter| letter.to_ascii_lowercase())
        .collect()
}

fn user(value: &str) -> Result<Box<str>, String> {
    match value
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'$'))
    {
        true => Ok(value.into()),
        false => Err("is no name of a user or group".into()),
    }
}

fn php(value: &str) -> Result<Box<str>, String> {
    match parse_php_use(value)? {
        PhpUse::ByHost(_) => Err("a row is of one host, and has no pattern".into()),
        _ => Ok(value.into()),
    }
}

/// A bare number is per second; 0 is none.
fn rate(
    value: &str,
    parse: impl Fn(&str) -> Result<u64, Option<String>>,
) -> Result<Option<u64>, String> {
    if value == "0" {
        return Ok(None);
    }
    let is_bare = value.bytes().all(|byte| byte.is_ascii_digit());
    let as_bytes = if is_bare {
        parse(&format!("{value}B/s")).or_else(|_| parse(&format!("{value}/s")))
    } else {
        parse(value)
    };
    as_bytes
        .map(Some)
        .map_err(|why| why.unwrap_or_else(|| "is no rate".into()))
}

/// Of our own schemes, and with nothing in it that would end a field.
fn url(value: &str) -> Result<Box<str>, String> {
    let is_web = value.starts_with("http://") || value.starts_with("https://");
    match is_web && value.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(value.into()),
        false => Err("is no URL that begins with http:// or https://".into()),
    }
}

fn truth(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "t" | "true" | "y" | "yes" | "on" => Ok(true),
        "0" | "f" | "false" | "n" | "no" | "off" => Ok(false),
        _ => Err("is neither yes nor no".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(columns: &[(&str, &str)]) -> Result<HostRow, String> {
        let mut row = Row::default();
        columns
            .iter()
            .for_each(|(name, value)| row.push(name, Some((*value).to_owned())));
        HostRow::read(&row)
    }

    #[test]
    fn columns_by_their_names() {
        let host = read(&[
            ("id", "7"),
            ("Document_Root", "/srv/a"),
            ("user", "bob"),
            ("php", "unix:/run/php/bob.sock"),
            ("bandwidth", "1MB/s"),
            ("requests", "30/m"),
            ("Connections", "8"),
            ("suspended", "no"),
            ("redirect", ""),
        ])
        .unwrap();
        assert_eq!(host.root.as_deref(), Some(Path::new("/srv/a")));
        assert_eq!(
            (host.user.as_deref(), host.php.as_deref()),
            (Some("bob"), Some("unix:/run/php/bob.sock"))
        );
        assert_eq!(
            (
                host.out_bytes_per_s,
                host.requests_per_1000_s,
                host.is_suspended
            ),
            (Some(1_000_000), Some(500), false)
        );
        assert_eq!((host.redirect, host.at_a_time_address), (None, Some(8)));
        assert_eq!(
            read(&[("bandwidth", "5000"), ("requests", "2")])
                .map(|host| (host.out_bytes_per_s, host.requests_per_1000_s)),
            Ok((Some(5000), Some(2000)))
        );
        assert!(read(&[("active", "0")]).is_ok_and(|host| host.is_suspended));
    }

    #[test]
    fn what_can_not_be_read_matters_where_it_is_used() {
        let mut row = Row::default();
        row.push("root", Some("/srv/a".to_owned()));
        row.push_unread("born", "is a DATE".to_owned());
        assert!(HostRow::read(&row).is_ok());
        row.push_unread("Suspended", "is a DATE".to_owned());
        assert_eq!(
            HostRow::read(&row),
            Err("column Suspended: is a DATE".to_owned())
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (name, value) in [
            ("user", "bob;rm"),
            ("php", "unix:relative"),
            ("php", "unix:/run/%1.sock"),
            ("bandwidth", "much"),
            ("requests", "-1"),
            ("connections", "many"),
            ("redirect", "javascript:alert(1)"),
            ("redirect", "http://a/\r\nSet-Cookie: a=b"),
            ("suspended", "perhaps"),
        ] {
            assert!(read(&[(name, value)]).is_err(), "{name} {value}");
        }
    }
}
