//! Options of a database: its URL, limits of its connections, and login data of a directory.
//!
//! Called by: configuration readers, which fill them in, and the connections.

use std::time::Duration;

/// Address of a database and options of its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// `mysql://`, `postgres://`, `sqlite://`, `ldap://`, `ldaps://`; with the words of TLS that
    /// each has.
    pub url: String,
    pub ldap: LdapTerms,
    /// Connections opened in advance; this field and the next five apply to SQL only.
    pub connections_min: u32,
    pub connections_max: u32,
    /// Idle time after which a connection beyond the minimum is closed.
    pub idle_max: Duration,
    /// Connections serve one question after another; else each question has one of its own.
    pub keeps_connections: bool,
    /// Statements run first on each connection.
    pub init: Vec<String>,
    /// SQLite only, which is opened read-only otherwise.
    pub may_write: bool,
    /// Limit for a whole query, connecting included.
    pub timeout: Duration,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            url: String::new(),
            ldap: LdapTerms::default(),
            connections_min: 0,
            connections_max: 4,
            idle_max: Duration::from_secs(300),
            keeps_connections: true,
            init: Vec::new(),
            may_write: false,
            timeout: Duration::from_secs(5),
        }
    }
}

/// Options of a directory besides its URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LdapTerms {
    /// Entries are looked for below it.
    pub base: String,
    /// Bind DN; empty for anonymous binds.
    pub user: String,
    pub password: String,
    /// Connections that check passwords at the same time; 0 counts as 1.
    pub binds_max: u32,
}

pub fn scheme(url: &str) -> &str {
    url.split(':').next().unwrap_or_default()
}
