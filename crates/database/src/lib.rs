//! Databases that are asked for a few rows of text: MariaDB and MySQL, PostgreSQL, SQLite, LDAP.
//!
//! Floor 2. A [`Desk`] is a thread with a runtime of its own on which questions are asked, so that
//! workers never wait for a connection or a driver; who asks awaits the answer through whatever
//! channel the job brings. What differs between the databases ends at [`Database::rows`]: a query
//! with `?` for each parameter goes in, rows of named texts come out.
//!
//! Absent on purpose: transactions, and any cache: who asks knows how long an answer holds.

pub mod dbm;
mod desk;
mod ldap;
mod ldap_tls;
mod placeholders;
mod pool;
mod row;
mod sql;
mod tls;
mod ways;

pub use desk::{Desk, Job};
pub use ldap::LdapTerms;
pub use placeholders::from_printf;
pub use row::{QueryResult, Row};

use ldap::Directory;
use sql::Sql;
use std::{fmt, future::Future, time::Duration};

/// Where a database is and how it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// `mysql://`, `postgres://`, `sqlite://`, `ldap://`, `ldaps://`; with the words of TLS that
    /// each has.
    pub url: String,
    pub ldap: LdapTerms,
    /// Of SQL, as are the next five: connections that are there before they are needed.
    pub connections_min: u32,
    pub connections_max: u32,
    /// A connection beyond the fewest that nobody has needed for so long is closed.
    pub idle_max: Duration,
    /// Connections serve one question after another; else each question has one of its own.
    pub keeps_connections: bool,
    /// What each connection begins with.
    pub init: Vec<String>,
    /// Of SQLite, whose connections can't write otherwise.
    pub may_write: bool,
    /// Of a question as a whole, the connection included.
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

/// Why there is no answer: the database can't be asked, or can't make sense of the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is wrong with a URL, without a connection.
pub fn check_url(url: &str) -> Result<(), Failure> {
    match scheme(url) {
        "ldap" | "ldapi" | "ldaps" => ldap_tls::LdapTls::of(url).map(drop),
        _ => sql::check_url(url),
    }
}

/// What is wrong with a filter of LDAP (RFC 4515) whose question marks stand for texts.
pub fn check_filter(filter: &str) -> Result<(), Failure> {
    ldap::check_filter(filter)
}

fn scheme(url: &str) -> &str {
    url.split(':').next().unwrap_or_default()
}

/// One database, as a [`Desk`]'s thread has it. Nothing is connected before the first question.
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
