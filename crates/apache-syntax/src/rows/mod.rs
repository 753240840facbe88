//! The table of directives: every one of Apache 2.4's manual, and a few of others that `.htaccess`
//! files of applications use.

mod access;
mod authentication;
mod cache;
mod certificates;
mod client_limits;
mod connection;
mod core;
mod foreign;
mod gateway;
mod language;
mod listing;
mod logging;
mod mapping;
mod output;
mod process;
mod programs;
mod proxy;
mod sections;
mod security;
mod storage;
mod tls;
mod users;

pub use foreign::NO_SUBVERSION;

use crate::row::Row;
use std::{collections::HashMap, sync::OnceLock};

const TABLES: &[&[Row]] = &[
    language::ROWS,
    sections::ROWS,
    core::ROWS,
    process::ROWS,
    authentication::ROWS,
    access::ROWS,
    mapping::ROWS,
    listing::ROWS,
    output::ROWS,
    logging::ROWS,
    connection::ROWS,
    tls::ROWS,
    certificates::ROWS,
    gateway::ROWS,
    proxy::ROWS,
    cache::ROWS,
    storage::ROWS,
    programs::ROWS,
    client_limits::ROWS,
    security::ROWS,
    users::ROWS,
    foreign::ROWS,
    foreign::FAMILIES,
];

/// All rows, by subject.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    TABLES.iter().copied().flatten()
}

/// The row of a name in any case; a section with its `<`.
pub fn find_row(name: &[u8]) -> Option<&'static Row> {
    static INDEX: OnceLock<HashMap<Vec<u8>, &'static Row>> = OnceLock::new();
    let index = INDEX.get_or_init(|| {
        rows()
            .map(|row| (row.name.to_ascii_lowercase().into_bytes(), row))
            .collect()
    });
    index
        .get(&name.to_ascii_lowercase())
        .copied()
        .or_else(|| find_family(name))
}

/// The row that stands for all names with its beginning.
fn find_family(name: &[u8]) -> Option<&'static Row> {
    let begins = |row: &&Row| {
        let beginning = row.name.trim_end_matches('*').as_bytes();
        name.len() > beginning.len()
            && name
                .get(..beginning.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(beginning))
    };
    foreign::FAMILIES.iter().find(begins)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        modules::{Provision, find_module},
        row::Treatment,
    };
    use std::collections::HashSet;

    #[test]
    fn every_name_is_there_once() {
        let mut seen = HashSet::new();
        for row in rows() {
            assert!(
                seen.insert(row.name.to_ascii_lowercase()),
                "{} twice",
                row.name
            );
            assert!(
                !row.contexts.0.is_empty()
                    && row
                        .contexts
                        .0
                        .chars()
                        .all(|letter| "svdhp".contains(letter)),
                "{}",
                row.name
            );
        }
        assert!(seen.len() >= 750, "{} rows", seen.len());
        assert_eq!(
            find_row(b"servername").map(|row| row.name),
            Some("ServerName")
        );
        assert_eq!(
            find_row(b"<DIRECTORY").map(|row| row.name),
            Some("<Directory")
        );
    }

    #[test]
    fn modules_of_rows_are_known() {
        for row in rows() {
            for identifier in row
                .modules
                .iter()
                .filter(|identifier| **identifier != "windows")
            {
                let module = find_module(identifier)
                    .unwrap_or_else(|| panic!("{identifier} of {}", row.name));
                let is_foreign = matches!(
                    module.provision,
                    Provision::Foreign | Provision::ForeignGuard
                );
                assert_eq!(
                    is_foreign,
                    foreign::ROWS
                        .iter()
                        .chain(foreign::FAMILIES)
                        .any(|own| own.name == row.name),
                    "{}",
                    row.name
                );
            }
        }
    }

    /// Apache's disagreements, by the beginnings of their names; Apache goes by the overrides.
    #[test]
    fn the_manual_and_the_overrides_agree_on_htaccess() {
        const DISAGREE: &[&str] = &[
            "<Macro",
            "AliasPreservePath",
            "AuthForm",
            "AuthnzFcgi",
            "BufferSize",
            "CGI",
            "Cache",
            "DAVLock",
            "H2Proxy",
            "InputSed",
            "Lua",
            "MDRequireHttps",
            "OutputSed",
            "ProxyExpress",
            "ProxyHC",
            "QualifyRedirectURL",
            "RedirectRelative",
            "SSLCACertificate",
            "UndefMacro",
            "Use",
        ];
        for row in rows()
            .filter(|row| row.contexts.0.contains('h') != row.overrides.meets(crate::row::ALL))
        {
            assert!(
                DISAGREE.iter().any(|start| row.name.starts_with(start)),
                "{}: {:?}",
                row.name,
                row.contexts
            );
        }
    }

    #[test]
    fn reasons_are_clauses() {
        for row in rows() {
            let (Treatment::NoEffect(reason)
            | Treatment::Unsupported(reason)
            | Treatment::Later(reason)
            | Treatment::Denies(reason)) = row.treatment
            else {
                continue;
            };
            assert!(
                !reason.is_empty() && !reason.ends_with('.'),
                "{}: {reason}",
                row.name
            );
        }
    }
}
