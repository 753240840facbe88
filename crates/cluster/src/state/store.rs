//! Values by name and locks, as engines provide them.
//!
//! Called by: `node`, with one connection.
//! Caveat: names consist of letters, digits, and `-._+`, and are no longer than
//! [`NAME_BYTES_MAX`]; `node` sees to it. The methods wait for as long as the engine does.
//! Out of scope: encryption (`secret`).

use crate::log::LogError;
use std::future::Future;

/// Longest name of a value.
pub const NAME_BYTES_MAX: usize = 230;

/// Values by name.
pub trait Store {
    fn get(&mut self, name: &str) -> impl Future<Output = Result<Option<Vec<u8>>, LogError>>;

    /// Sets a value, if the lock of this name has the token. `false`: it has another one.
    fn put(
        &mut self,
        name: &str,
        value: &[u8],
        token: u64,
    ) -> impl Future<Output = Result<bool, LogError>>;

    /// Sets a value that no other server writes, for a while.
    fn lend(
        &mut self,
        name: &str,
        value: &[u8],
        life_ms: u64,
    ) -> impl Future<Output = Result<(), LogError>>;
}

/// Locks by name, which end by themselves.
pub trait Lock {
    /// Returns the token of the lock. `None`: another server holds it.
    fn acquire(
        &mut self,
        name: &str,
        life_ms: u64,
    ) -> impl Future<Output = Result<Option<u64>, LogError>>;

    /// Prolongs the lock. `false`: it is no longer this server's.
    fn renew(
        &mut self,
        name: &str,
        token: u64,
        life_ms: u64,
    ) -> impl Future<Output = Result<bool, LogError>>;

    /// Ends the lock, if it has the token.
    fn release(&mut self, name: &str, token: u64) -> impl Future<Output = Result<(), LogError>>;
}

/// Way to values and locks.
pub trait StateEngine: Send + Sync + 'static {
    type State: Store + Lock + 'static;

    fn connect_state(&self) -> impl Future<Output = Result<Self::State, LogError>>;

    /// The address, without credentials.
    fn shown(&self) -> String;
}
