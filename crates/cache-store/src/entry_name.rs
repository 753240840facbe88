//! Names of entry files: the hash of the key, and the coding.
//!
//! Called by: the store, and the rebuild, which parses them.
//! Caveat: part of the on-disk format.
//! Out of scope: directories, which follow from the first digits.

use crate::{entry::Coding, key_hash::KeyHash};
use std::fmt;

/// The file name of an entry or of one of its codings.
pub(crate) struct EntryName(pub KeyHash, pub Coding);

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0.0)?;
        match self.1 {
            Coding::Identity => Ok(()),
            coding => write!(f, ".{}", coding as u8),
        }
    }
}

impl EntryName {
    pub fn parse(name: &str) -> Option<EntryName> {
        let (hash, coding) = name.split_once('.').unwrap_or((name, "0"));
        let number: u8 = coding.parse().ok()?;
        let coding = Coding::ALL
            .into_iter()
            .find(|coding| *coding as u8 == number)?;
        let hash = (hash.len() == 32)
            .then(|| u128::from_str_radix(hash, 16).ok())
            .flatten()?;
        Some(EntryName(KeyHash(hash), coding))
    }
}
