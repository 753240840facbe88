//! Databases that are asked for a few rows of text: MariaDB and MySQL, PostgreSQL, SQLite, LDAP.
//!
//! Floor 2. A [`Desk`] is a thread with a runtime of its own on which questions are asked, so that workers never wait for a connection or a
//! driver; who asks awaits the answer through whatever channel the job brings. What differs between the databases ends at [`Database::rows`]:
//! a query with `?` for each parameter goes in, rows of named texts come out.
//!
//! Absent on purpose: writing (connections to SQLite are read-only), transactions, TLS to the database (it is asked over a Unix socket, the
//! machine itself or a private network), and any cache: who asks knows how long an answer holds.

mod desk;
mod ldap;
mod placeholders;
mod row;
mod sql;

pub use desk::{Desk, Job};
pub use ldap::LdapTerms;
pub use row::Row;

use ldap::Directory;
use sql::Sql;
use std::{fmt, time::Duration};

/// Where a database is and how it is asked.
#[derive(Clone, Debug)]
pub struct Terms {
    /// `mysql://`, `postgres://`, `sqlite://`, `ldap://`.
    pub url: String,
    pub ldap: LdapTerms,
    pub connections_max: u32,
    /// Of a question as a whole, the connection included.
    pub timeout: Duration,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The database can't be asked, or can't make sense of the question.
    Away(String),
    /// It has answered, and a row can't be read.
    Row(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Away(reason) | Failure::Row(reason) => f.write_str(reason),
        }
    }
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
    /// To be called within a runtime. The error says what is wrong with the URL.
    pub fn new(terms: &Terms) -> Result<Database, Failure> {
        let scheme = terms.url.split(':').next().unwrap_or_default();
        let way = match scheme {
            "ldap" | "ldapi" => Way::Directory(Box::new(Directory::new(terms))),
            _ => Way::Sql(Sql::new(terms)?),
        };
        Ok(Database { way, timeout: terms.timeout })
    }

    /// At most `rows_max` rows. The query has a `?` for each parameter; of LDAP it is a filter, and an entry is a row.
    pub async fn rows(&self, query: &str, parameters: &[&str], rows_max: usize) -> Result<Vec<Row>, Failure> {
        let asked = async {
            match &self.way {
                Way::Sql(sql) => sql.rows(query, parameters, rows_max).await,
                Way::Directory(directory) => directory.rows(query, parameters, rows_max).await,
            }
        };
        let late = |_| Failure::Away(format!("no answer within {} ms", self.timeout.as_millis()));
        tokio::time::timeout(self.timeout, asked).await.map_err(late)?
    }
}
