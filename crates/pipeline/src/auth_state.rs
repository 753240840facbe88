//! State of forward authorization in an exchange.
//!
//! Called by: the native rules, which set it, and the page cache, whose keys depend on it.
//! Caveat: pages generated for differently authorized clients must not be shared;
//! [`AuthState::identity`] distinguishes them.
//! Out of scope: Basic and Digest authentication, whose user is
//! [`AccessState::user`](crate::AccessState::user).

use saker_config::model::Authorize;
use std::sync::Arc;

/// Data that comes with a permission.
#[derive(Debug, Default)]
pub struct Granted {
    /// Fields of the server's response that the configuration lists.
    pub fields: Vec<(Box<str>, Vec<u8>)>,
    /// For programs and logs.
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A permission granted by an authorization server.
pub struct AuthState {
    rule: Arc<Authorize>,
    identity: Vec<u8>,
}

impl AuthState {
    /// Creates the state for a permission granted under `rule`.
    pub fn new(rule: Arc<Authorize>, granted: &Granted) -> AuthState {
        AuthState {
            rule,
            identity: identity(granted),
        }
    }

    /// Returns true if the permission was granted under exactly this rule, so that the server need
    /// not be queried again.
    pub fn is_under(&self, rule: &Arc<Authorize>) -> bool {
        Arc::ptr_eq(&self.rule, rule)
    }

    /// Returns an encoding of the data about the client that the authorization server returned. It
    /// differs between clients with different data, and is empty if there is none.
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
