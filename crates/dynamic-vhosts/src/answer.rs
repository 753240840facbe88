//! The answer for a host: a database row, converted from texts to types. An invalid row is refused
//! as a whole: the valid half might be the wrong half.

use saker_config::{model::PhpUse, parse_php_use, units};
use saker_database::Row;
use saker_files::Lease;
use std::{path::Path, sync::Arc};

/// Settings of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRow {
    /// Document root; `None`: the site's own.
    pub root: Option<Box<Path>>,
    /// User that programs run as.
    pub user: Option<Box<str>>,
    pub group: Option<Box<str>>,
    /// PHP, in the syntax of a site's `php`.
    pub php: Option<Box<str>>,
    /// Bandwidth of all its responses together, in bytes per second.
    pub out_bytes_per_s: Option<u64>,
    /// Requests per 1000 seconds from one client address.
    pub requests_per_1000_s: Option<u64>,
    /// Concurrent requests from one client address.
    pub at_a_time_address: Option<u64>,
    /// URL that all of its requests are redirected to.
    pub redirect: Option<Box<str>>,
    pub is_suspended: bool,
}

/// Result of a query.
#[derive(Debug)]
pub enum LookupResult {
    Known(HostRow),
    Missing,
    /// The row exists, but is invalid.
    Refused,
}

/// Answer for a host, as used by the site's requests.
#[derive(Clone, Debug)]
pub enum Answer {
    Known(Arc<HostRow>, Lease),
    Missing(Lease),
    Refused,
    /// Nothing is cached, and the database does not answer.
    Away,
}

impl HostRow {
    /// Reads a row by its column names; columns with other names are ignored.
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

    /// Approximate memory use in addition to the struct itself.
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

/// Meaning of a column.
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
    /// Finds a column by its plain name.
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

/// Column name without case and underscores: `Document_Root` and `documentRoot` are the same.
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

/// Parses a rate. A bare number is per second; 0 means no limit.
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

/// Accepts http and https URLs without characters that would end a header field.
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
