//! Databases that are asked for a few rows of text: MariaDB and MySQL, PostgreSQL, SQLite, LDAP.
//!
//! Floor 2. A [`DbThread`] is a thread with a runtime of its own that runs queries, so that workers
//! never wait for a connection or a driver; callers await the result through the channel that their
//! job brings. [`Database::rows`] hides the differences between databases: a query with `?` for each
//! parameter goes in, rows of named texts come out.
//!
//! Out of scope: transactions, and caching: callers know how long an answer holds.

mod connect_options;
mod db_thread;
pub mod dbm;
mod failure;
mod ldap;
mod ldap_tls;
mod listen;
mod placeholders;
mod pool;
mod row;
mod sql;
mod sql_error;
mod terms;
mod tls;

pub use db_thread::{DbThread, Job};
pub use failure::Failure;
pub use listen::{Notifications, can_notify};
pub use placeholders::from_printf;
pub use row::{QueryResult, Row};
pub use terms::{LdapTerms, Terms};

pub use ldap::{DirectoryEntry, DirectorySearch};

use ldap::Directory;
use sql::Sql;
use std::{future::Future, time::Duration};
use terms::scheme;

/// Checks a URL without connecting.
pub fn check_url(url: &str) -> Result<(), Failure> {
    match scheme(url) {
        "ldap" | "ldapi" | "ldaps" => ldap_tls::LdapTls::of(url).map(drop),
        _ => sql::check_url(url),
    }
}

/// Checks an LDAP filter (RFC 4515) whose question marks stand for values.
pub fn check_filter(filter: &str) -> Result<(), Failure> {
    ldap::check_filter(filter)
}

/// One database, as a [`DbThread`]'s thread has it. Nothing is connected before the first question.
pub struct Database {
    way: Way,
    timeout: Duration,
}

enum Way {
    Sql(Sql),
    Directory(Box<Directory>),
}

impl Database {
    /// To be called within a [`tokio::task::LocalSet`]. The error says what is wrong with the URL.
    pub fn new(terms: &Terms) -> Result<Database, Failure> {
        let way = match scheme(&terms.url) {
            "ldap" | "ldapi" | "ldaps" => Way::Directory(Box::new(Directory::new(terms)?)),
            _ => Way::Sql(Sql::new(terms)?),
        };
        Ok(Database {
            way,
            timeout: terms.timeout,
        })
    }

    /// At most `rows_max` rows. The query has a `?` for each parameter; of LDAP it is a filter, and
    /// an entry is a row.
    pub async fn rows(
        &self,
        query: &str,
        parameters: &[&str],
        rows_max: usize,
    ) -> Result<Vec<Row>, Failure> {
        self.in_time(async {
            match &self.way {
                Way::Sql(sql) => sql.rows(query, parameters, rows_max).await,
                Way::Directory(directory) => directory.rows(query, parameters, rows_max).await,
            }
        })
        .await
    }

    /// A statement that changes something; how many rows it was. Of SQL only.
    pub async fn change(&self, statement: &str, parameters: &[&str]) -> Result<u64, Failure> {
        self.in_time(async {
            match &self.way {
                Way::Sql(sql) => sql.change(statement, parameters).await,
                Way::Directory(_) => Err(Failure("a directory is only looked at".into())),
            }
        })
        .await
    }

    /// At most `entries_max` entries of a directory. Of LDAP only.
    pub async fn entries(
        &self,
        search: &DirectorySearch,
        values: &[&str],
        entries_max: usize,
    ) -> Result<Vec<DirectoryEntry>, Failure> {
        self.in_time(async { self.directory()?.entries(search, values, entries_max).await })
            .await
    }

    /// Returns whether the password is the entry's; an empty one never is. Of LDAP only.
    pub async fn is_password(&self, dn: &str, password: &str) -> Result<bool, Failure> {
        self.in_time(async { self.directory()?.is_password(dn, password).await })
            .await
    }

    fn directory(&self) -> Result<&Directory, Failure> {
        match &self.way {
            Way::Directory(directory) => Ok(directory),
            Way::Sql(_) => Err(Failure("this is no directory".into())),
        }
    }

    async fn in_time<T>(
        &self,
        asked: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let late = |_| Failure(format!("no answer within {} ms", self.timeout.as_millis()));
        tokio::time::timeout(self.timeout, asked)
            .await
            .map_err(late)?
    }
}
