//! The certificate for stores, and the outcome for each store.
//!
//! Called by: `trust`, `nss`, and `system`.
//! Out of scope: the stores.

use std::path::PathBuf;

/// Outcome for a store.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    Done(String),
    /// With what it needs.
    LeftOut(String),
    Failed(String),
}

/// The certificate to trust.
#[derive(Debug)]
pub struct Authority {
    pub path: PathBuf,
    pub pem: String,
    /// Its common name, which databases know it by.
    pub name: String,
}
