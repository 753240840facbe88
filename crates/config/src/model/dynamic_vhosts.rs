//! `[dynamic_vhosts]`: hosts looked up in a database, and settings of a site that depend on the
//! host name.
//!
//! Called by: host selection and the crate `dynamic-vhosts`.

use super::{HostPattern, Origin};
use saker_http::Status;
use std::{fmt, path::PathBuf};

/// Settings of a site that depend on the requested host name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByHost {
    /// Document root, instead of `Site::root`.
    pub root: Option<HostPattern>,
    /// The database of `[dynamic_vhosts]` is queried.
    pub is_looked_up: bool,
}

/// Type of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseKind {
    Mysql,
    Postgres,
    Sqlite,
    Ldap,
}

impl DatabaseKind {
    /// By the scheme of its URL.
    pub fn of(url: &str) -> Option<DatabaseKind> {
        Some(match url.split_once(':')?.0 {
            "mysql" | "mariadb" => DatabaseKind::Mysql,
            "postgres" | "postgresql" => DatabaseKind::Postgres,
            "sqlite" => DatabaseKind::Sqlite,
            "ldap" | "ldapi" | "ldaps" => DatabaseKind::Ldap,
            _ => return None,
        })
    }
}

/// URL of a database; its credentials are not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(pub Box<str>);

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or((&self.0, ""));
        let rest = rest.rsplit_once('@').map_or(rest, |(_, behind)| behind);
        write!(
            f,
            "{scheme}://{}",
            rest.split_once('?').map_or(rest, |(before, _)| before)
        )
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// `[dynamic_vhosts]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// A value is broken, and reported: what is missing can't be told.
    pub has_unread: bool,
    /// `None`: not configured, and no site uses it.
    pub database: Option<DatabaseUrl>,
    /// File with the URL, which keeps the password out of the configuration.
    pub database_file: Option<PathBuf>,
    /// Each `?` stands for the name. LDAP: a filter.
    pub query: String,
    /// LDAP: base DN, bind DN and password.
    pub ldap_base: String,
    pub ldap_user: String,
    pub ldap_password: String,
    /// Directories that document roots must be inside of.
    pub roots: Vec<PathBuf>,
    /// Time that an answer is cached; time that a missing host is cached.
    pub answer_ms: u64,
    pub missing_ms: u64,
    /// Time that expired answers are used while the database is unavailable.
    pub stale_ms: u64,
    pub entries_max: usize,
    pub missing_max: usize,
    pub timeout_ms: u64,
    pub connections_max: u32,
    /// Channel on which a PostgreSQL database announces changed hosts.
    pub notify: Option<String>,
    /// Response for unknown names; `None`: the site as configured.
    pub unknown: Option<Status>,
    pub origin: Origin,
    /// Locations of `database` or `database_file`, and of `query`.
    pub database_origin: Origin,
    pub query_origin: Origin,
    pub notify_origin: Origin,
}

impl Default for Hosts {
    fn default() -> Hosts {
        Hosts {
            has_unread: false,
            database: None,
            database_file: None,
            query: String::new(),
            ldap_base: String::new(),
            ldap_user: String::new(),
            ldap_password: String::new(),
            roots: Vec::new(),
            answer_ms: 60_000,
            missing_ms: 1_000,
            stale_ms: 86_400_000,
            entries_max: 100_000,
            missing_max: 10_000,
            timeout_ms: 5_000,
            connections_max: 4,
            notify: None,
            unknown: Some(Status::NOT_FOUND),
            origin: Origin::built_in(),
            database_origin: Origin::built_in(),
            query_origin: Origin::built_in(),
            notify_origin: Origin::built_in(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        for (url, shown) in [
            (
                "mysql://bob:s3cr@t@db.example/web?ssl-mode=DISABLED",
                "mysql://db.example/web",
            ),
            ("sqlite:///var/lib/hosts.db", "sqlite:///var/lib/hosts.db"),
            ("odd", "odd://"),
        ] {
            let url = DatabaseUrl(url.into());
            assert_eq!(
                (url.to_string(), format!("{url:?}")),
                (shown.to_owned(), shown.to_owned())
            );
        }
    }
}
