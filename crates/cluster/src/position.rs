//! The place in the log up to which purges are in force here, kept in the page cache's directory.
//!
//! Called by: `replica`, which moves it, and `position_file`, which writes it.
//! Caveat: a place is a record with the hash of its content. Where the log has another record
//! there, or none, it was trimmed, emptied, restored or replaced since, and purges may be missing.
//! The file has a version and a checksum; one that cannot be read counts as no place.
//! Out of scope: syncing; after a power failure the store begins with an empty cache.

use crate::log::{Entry, EntryId};
use std::{
    collections::HashMap,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"SKCLPOS1";
const FILE: &str = "cluster.position";

/// Servers whose numbers are remembered; of more, any one is forgotten.
const ORIGINS_MAX: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    pub id: EntryId,
    pub hash: u64,
    /// The last purge of each server.
    pub seen: HashMap<u64, u64>,
}

impl Position {
    /// The place of a record, with nothing known of the servers.
    pub fn at(entry: &Entry) -> Position {
        Position {
            id: entry.id,
            hash: hash(entry),
            seen: HashMap::new(),
        }
    }

    pub fn advance(&mut self, entry: &Entry) {
        self.id = entry.id;
        self.hash = hash(entry);
    }

    /// Returns true if the log has the same record there.
    pub fn is(&self, entry: &Entry) -> bool {
        self.id == entry.id && self.hash == hash(entry)
    }

    pub fn note(&mut self, origin: u64, seq: u64) {
        if self.seen.len() >= ORIGINS_MAX
            && !self.seen.contains_key(&origin)
            && let Some(other) = self.seen.keys().next().copied()
        {
            self.seen.remove(&other);
        }
        self.seen.insert(origin, seq);
    }

    pub fn read(folder: &Path) -> Option<Position> {
        let bytes = fs::read(folder.join(FILE)).ok()?;
        let (body, sum) = bytes.split_last_chunk()?;
        let mut rest = body.strip_prefix(MAGIC)?;
        if xxh3_64(body) != u64::from_le_bytes(*sum) {
            return None;
        }
        let mut next = || {
            let (number, behind) = rest.split_first_chunk()?;
            rest = behind;
            Some(u64::from_le_bytes(*number))
        };
        let id = EntryId {
            major: next()?,
            minor: next()?,
        };
        let hash = next()?;
        let mut seen = HashMap::new();
        for _ in 0..next()?.min(ORIGINS_MAX as u64) {
            seen.insert(next()?, next()?);
        }
        Some(Position { id, hash, seen })
    }

    /// Replaces the file.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        let numbers = [
            self.id.major,
            self.id.minor,
            self.hash,
            self.seen.len() as u64,
        ];
        let seen = self.seen.iter().flat_map(|(origin, seq)| [*origin, *seq]);
        numbers
            .into_iter()
            .chain(seen)
            .for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        let sum = xxh3_64(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        let new = folder.join("cluster.position.new");
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)?
            .write_all(&bytes)?;
        fs::rename(new, folder.join(FILE))
    }
}

/// Returns true if this directory has ever had a place in a log.
pub fn is_known(folder: &Path) -> bool {
    folder.join(FILE).exists()
}

fn hash(entry: &Entry) -> u64 {
    entry
        .payload
        .as_deref()
        .map_or(0, |payload| xxh3_64(payload) | 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;

    const RECORDED: &str = "534b434c504f53310500000000000000000000000000000011cdb280646cf0ea0100000000000000070000000000000009000000000000003d6b0cfb04d39dab";

    fn entry(major: u64, payload: Option<&[u8]>) -> Entry {
        Entry {
            id: EntryId { major, minor: 0 },
            payload: payload.map(<[u8]>::to_vec),
        }
    }

    #[test]
    fn a_place_comes_back_and_damage_is_no_place() {
        let dir = TempDir::new("cluster-position").unwrap();
        assert_eq!((Position::read(&dir), is_known(&dir)), (None, false));
        let mut position = Position::at(&entry(5, Some(b"x")));
        (0..10).for_each(|origin| position.note(origin, origin * 2));
        position.write(&dir).unwrap();
        assert_eq!(Position::read(&dir), Some(position));
        let path = dir.join(FILE);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 4;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(Position::read(&dir), None, "byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(Position::read(&dir), None, "cut at {at}");
        }
    }

    /// The bytes of a place: a server of the next version goes on from them.
    #[test]
    fn a_place_of_an_earlier_version_is_read_and_written() {
        let dir = TempDir::new("cluster-position-recorded").unwrap();
        let mut position = Position::at(&entry(5, Some(b"x")));
        position.note(7, 9);
        position.write(&dir).unwrap();
        let written = fs::read(dir.join(FILE)).unwrap();
        let hex: String = written.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, RECORDED);
    }

    #[test]
    fn another_record_at_the_same_place_is_another_place() {
        let position = Position::at(&entry(5, Some(b"x")));
        assert!(position.is(&entry(5, Some(b"x"))));
        for other in [entry(5, Some(b"y")), entry(5, None), entry(6, Some(b"x"))] {
            assert!(!position.is(&other), "{other:?}");
        }
    }

    #[test]
    fn servers_are_bounded() {
        let mut position = Position::at(&entry(1, None));
        for origin in 0..ORIGINS_MAX as u64 {
            position.note(origin, 1);
        }
        assert_eq!(position.seen.len(), ORIGINS_MAX);
        position.note(u64::MAX, 1);
        assert_eq!(position.seen.len(), ORIGINS_MAX);
        assert!(position.seen.contains_key(&u64::MAX));
    }
}
