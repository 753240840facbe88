//! Hashes of keys.
//!
//! Called by: everything in this crate.
//! Caveat: seeded per store, so that clients can't choose keys with equal hashes.
//! Out of scope: the keys themselves.

/// The hash of a key, different in each store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyHash(pub u128);
