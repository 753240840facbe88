//! Errors of SQL drivers, with advice where there is some.
//!
//! Called by: connections and their options, for errors of sqlx.

use crate::{Failure, tls};

/// Converts an error of a driver.
pub fn failed(error: sqlx::Error) -> Failure {
    let help = match &error {
        sqlx::Error::Io(error) => tls::help(error),
        _ => None,
    };
    Failure(match help {
        Some(help) => format!("{error}: {help}"),
        None => reason(&error),
    })
}

/// Text of the innermost error: the driver nests configuration errors and repeats itself for each.
fn reason(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Configuration(inner) => inner
            .downcast_ref()
            .map_or_else(|| inner.to_string(), reason),
        other => other.to_string(),
    }
}
