//! Keys (LSCache protocol 4.1): what requests must have in common to get the same entry.
//!
//! Called by: the page cache, for the client part of private keys.
//! Caveat: two different requests must never give the same bytes. Host, port, path and query can't
//! contain the separators behind them, and all text that clients choose freely is escaped.
//! Out of scope: hashing; a lookup by hash compares the whole key.

use std::{fmt::Write, net::IpAddr};

/// A longer key is not cached.
pub const KEY_BYTES_MAX: usize = 65_535;

/// The parts of a public key.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// From the Host field, canonical, without port.
    pub host: &'a [u8],
    /// The listener's port, so that plain and TLS differ.
    pub port: u16,
    /// Before internal rewriting.
    pub path: &'a [u8],
    /// After `CacheKeyModify`.
    pub query: Option<&'a [u8]>,
    /// The vary string, unless no-vary is in force.
    pub vary: Option<&'a [u8]>,
    /// The secondary key of the fields that Vary names (`rules::Vary`), or empty.
    pub fields: &'a [u8],
}

/// Without the variant: vary records and purges by URL use this ([`crate::names::url_tag`], 6.5).
pub fn page_key(page: &Page<'_>) -> Vec<u8> {
    let mut key = Vec::with_capacity(
        page.host.len() + page.path.len() + page.query.map_or(0, <[u8]>::len) + 8,
    );
    key.extend_from_slice(page.host);
    key.extend_from_slice(format!(":{}", page.port).as_bytes());
    if !page.path.starts_with(b"/") {
        key.push(b'/');
    }
    key.extend_from_slice(page.path);
    if let Some(query) = page.query {
        key.push(b'?');
        key.extend_from_slice(query);
    }
    key
}

/// `None` if it is too long.
pub fn public_key(page: &Page<'_>) -> Option<Vec<u8>> {
    let mut key = page_key(page);
    if let Some(vary) = page.vary {
        key.push(b'#');
        key.extend_from_slice(vary);
    }
    if !page.fields.is_empty() {
        // Arbitrary bytes, so they are written as digits; a vary string ends with a semicolon, so
        // the two can't be confused.
        key.push(b'#');
        page.fields
            .iter()
            .for_each(|byte| key.extend_from_slice(format!("{byte:02x}").as_bytes()));
    }
    (key.len() <= KEY_BYTES_MAX).then_some(key)
}

/// The public key with the owner. `identity` is from [`super::identity::identity`].
pub fn private_key(page: &Page<'_>, identity: &[u8], address: Option<IpAddr>) -> Option<Vec<u8>> {
    let mut key = public_key(page)?;
    key.extend_from_slice(&identity_key(identity, address));
    (key.len() <= KEY_BYTES_MAX).then_some(key)
}

/// The owner: the scope of private tags and purges.
pub fn identity_key(identity: &[u8], address: Option<IpAddr>) -> Vec<u8> {
    let mut key = Vec::with_capacity(identity.len() + 48);
    if !identity.is_empty() {
        key.push(b'~');
        key.extend_from_slice(identity);
    }
    let mut text = String::from("@");
    if let Some(address) = address {
        // Writing to a String never fails.
        let _ = write!(text, "{}", address.to_canonical());
    }
    key.extend_from_slice(text.as_bytes());
    key
}
