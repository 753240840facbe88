//! What an exchange knows of its forward authorization.
//!
//! Called by: the native rules, which set it, and the page cache, whose keys depend on it. Caveat:
//! pages made for differently authorized clients must not be shared; [`AuthState::identity`] tells
//! them apart. Out of scope: Basic and Digest authentication; their user is
//! [`Exchange::user`](crate::Exchange).

use crate::Granted;
use saker_config::model::Authorize;
use std::sync::Arc;

/// A permission that was granted.
pub struct AuthState {
    rule: Arc<Authorize>,
    identity: Vec<u8>,
}

impl AuthState {
    /// Granted under `rule`.
    pub fn new(rule: Arc<Authorize>, granted: &Granted) -> AuthState {
        AuthState {
            rule,
            identity: identity(granted),
        }
    }

    /// The permission was granted under this very rule: it need not be asked for again.
    pub fn is_under(&self, rule: &Arc<Authorize>) -> bool {
        Arc::ptr_eq(&self.rule, rule)
    }

    /// What the authorization server returned about the client, in a form that differs for
    /// different clients; empty where it returned nothing.
    pub fn identity(&self) -> &[u8] {
        &self.identity
    }
}

fn identity(granted: &Granted) -> Vec<u8> {
    let fields = granted
        .fields
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_slice()));
    let variables = granted
        .variables
        .iter()
        .map(|(name, value)| (name.as_slice(), value.as_slice()));
    fields
        .chain(variables)
        .flat_map(|(name, value)| [name, b"=", value, b"\0"])
        .flatten()
        .copied()
        .collect()
}
