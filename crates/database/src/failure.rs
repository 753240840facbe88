//! Errors of databases, as text for the log.

use std::fmt;

/// Reason for which a query has no result: the database is unreachable or rejects the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
