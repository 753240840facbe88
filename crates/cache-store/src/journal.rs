//! The purge journal: records on disk, written before a purge is acknowledged.
//!
//! Called by: the store.
//! Caveat: a record is its length, checksum and payload; the first that does not match ends the
//! replay, because a crash cut it. What the disk did not take (full) or lost (power failure) is
//! detected by a file beside the journal: it says that the journal is complete, and since which
//! boot. Removing it needs no space; a start without it, or after an unprepared reboot, begins with
//! an empty cache.
//! Out of scope: what purges mean (`purges`).

use crate::{
    private_files,
    purges::{Ban, JournalRecord, Purge, PurgeState, PurgeTimes, RemotePurge, TagMark},
};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"SKJOURN1";

/// Exists while the journal is complete; contains the boot id, or [`ALL_WRITTEN`].
const COMPLETE: &str = "complete";

const ALL_WRITTEN: &str = "all written";

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Larger than the numbers that a lost journal can have used.
const NUMBERS_LOST_MAX: u64 = 1 << 40;

const RECORD_BYTES_MAX: u32 = 16 << 20;

/// Smaller journals are not compacted.
const COMPACT_BYTES_MIN: u64 = 1 << 20;

pub struct Journal {
    folder: PathBuf,
    file: File,
    bytes: u64,
    /// Size of the journal when it was last compacted.
    compact_bytes: u64,
    /// Written, and perhaps not synced yet.
    is_dirty: bool,
    /// Records that could not be written.
    missing: Vec<u8>,
}

impl Journal {
    /// Opens or creates the journal of a directory. Entries from before anything it may have lost
    /// are invalidated by the floor.
    pub fn open(folder: &Path) -> io::Result<(Journal, PurgeState)> {
        let path = folder.join("purges");
        let mut bytes = Vec::new();
        let mut file = private_files::append(&path)?;
        file.read_to_end(&mut bytes)?;
        let (mut known, valid) = replay(&bytes);
        if valid < MAGIC.len() || !is_complete(folder) {
            // Greater than every number ever used: nothing in the directory may seem newer than it
            // is.
            known.floor = (known.number / NUMBERS_LOST_MAX + 1) * NUMBERS_LOST_MAX;
            known.number = known.floor;
        }
        let mut journal = Journal {
            folder: folder.into(),
            file,
            bytes: valid as u64,
            compact_bytes: 0,
            is_dirty: true,
            missing: Vec::new(),
        };
        journal.compact(&known)?;
        journal.mark_complete()?;
        Ok((journal, known))
    }

    fn mark_complete(&self) -> io::Result<()> {
        private_files::write(&self.folder.join(COMPLETE), boot_id().as_bytes())
    }

    /// Syncs the journal and marks it complete.
    pub fn close(&mut self) {
        if self.retry() && self.file.sync_data().is_ok() {
            let _ = private_files::write(&self.folder.join(COMPLETE), ALL_WRITTEN.as_bytes());
        }
    }

    /// Writes a record. If that fails, it is retried later, and a start before that begins with an
    /// empty cache.
    pub fn append(&mut self, record: &JournalRecord) -> io::Result<()> {
        let mut bytes = std::mem::take(&mut self.missing);
        encode(record, &mut bytes);
        let outcome = self.write(&bytes);
        if outcome.is_err() {
            let _ = fs::remove_file(self.folder.join(COMPLETE));
            self.missing = bytes;
        }
        outcome
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(bytes);
        if written.is_err() {
            // A partial record would hide the following ones.
            self.file.set_len(self.bytes)?;
        }
        written?;
        self.bytes += bytes.len() as u64;
        self.is_dirty = true;
        Ok(())
    }

    /// Writes failed records again. `true` if nothing is missing.
    pub fn retry(&mut self) -> bool {
        if self.missing.is_empty() {
            return true;
        }
        let bytes = std::mem::take(&mut self.missing);
        let is_well = self.write(&bytes).is_ok() && self.mark_complete().is_ok();
        if !is_well {
            self.missing = bytes;
        }
        is_well
    }

    /// A handle for syncing, if anything needs it.
    pub fn take_unsynced(&mut self) -> Option<File> {
        std::mem::take(&mut self.is_dirty)
            .then(|| self.file.try_clone().ok())
            .flatten()
    }

    pub fn is_worth_compacting(&self) -> bool {
        self.missing.is_empty() && self.bytes > COMPACT_BYTES_MIN.max(self.compact_bytes * 4)
    }

    /// Rewrites the journal from its current state.
    pub fn compact(&mut self, known: &PurgeState) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        encode(
            &JournalRecord::Floor {
                number: known.number,
                floor: known.floor,
            },
            &mut bytes,
        );
        known
            .marks
            .iter()
            .for_each(|(mark, times)| encode(&JournalRecord::Mark(*mark, *times), &mut bytes));
        for Ban { number, text } in &known.bans {
            encode(
                &JournalRecord::Purged {
                    number: *number,
                    purges: vec![Purge::Ban(text.clone())],
                },
                &mut bytes,
            );
        }
        let (new, path) = (self.folder.join("purges.new"), self.folder.join("purges"));
        // Left by a crash, it may be readable by others.
        let _ = fs::remove_file(&new);
        private_files::write(&new, &bytes)?;
        let file = private_files::append(&new)?;
        file.sync_data()?;
        fs::rename(&new, &path)?;
        (self.file, self.bytes, self.compact_bytes) =
            (file, bytes.len() as u64, bytes.len() as u64);
        Ok(())
    }
}

/// Makes the next server that opens the directory begin with an empty cache. Must not be called
/// while a server has it open.
pub fn forget(folder: &Path) {
    let _ = fs::remove_file(folder.join(COMPLETE));
}

fn boot_id() -> String {
    fs::read_to_string(BOOT_ID).unwrap_or_default()
}

fn is_complete(folder: &Path) -> bool {
    fs::read_to_string(folder.join(COMPLETE))
        .is_ok_and(|text| text == ALL_WRITTEN || (!text.is_empty() && text == boot_id()))
}

/// The state after all whole records, and where the last of them ends.
fn replay(bytes: &[u8]) -> (PurgeState, usize) {
    let mut known = PurgeState::default();
    if !bytes.starts_with(MAGIC) {
        return (known, 0);
    }
    let mut at = MAGIC.len();
    while let Some((record, end)) = decode(bytes, at) {
        known.apply(&record);
        at = end;
    }
    (known, at)
}

pub(crate) fn encode(record: &JournalRecord, out: &mut Vec<u8>) {
    let mut payload = Vec::new();
    match record {
        JournalRecord::Purged { number, purges } => {
            payload.push(b'P');
            payload.extend_from_slice(&number.to_le_bytes());
            purges
                .iter()
                .for_each(|purge| encode_purge(purge, &mut payload));
        }
        JournalRecord::Mark(mark, times) => {
            payload.push(b'M');
            [mark.0, times.hard, times.soft]
                .iter()
                .for_each(|number| payload.extend_from_slice(&number.to_le_bytes()));
        }
        JournalRecord::Floor { number, floor } => {
            payload.push(b'F');
            [number, floor]
                .iter()
                .for_each(|number| payload.extend_from_slice(&number.to_le_bytes()));
        }
    }
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&xxh3_64(&payload).to_le_bytes());
    out.extend_from_slice(&payload);
}

/// Encodes a purge: in the journal, in messages to another process, and in records of a cluster's
/// log.
pub fn encode_purge(purge: &Purge, out: &mut Vec<u8>) {
    let text = |text: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        out.extend_from_slice(text);
    };
    match purge {
        Purge::Tag { mark, is_soft } => {
            out.push(if *is_soft { b's' } else { b'h' });
            out.extend_from_slice(&mark.0.to_le_bytes());
        }
        Purge::Ban(ban) => {
            out.push(b'b');
            text(ban, out);
        }
        Purge::Remote(RemotePurge::Url {
            scope,
            url,
            is_soft,
            is_implied,
        }) => {
            out.push(b'u');
            out.push(u8::from(*is_soft) | u8::from(*is_implied) << 1);
            text(scope, out);
            text(url, out);
        }
        Purge::Remote(RemotePurge::Implied(mark)) => {
            out.push(b'i');
            out.extend_from_slice(&mark.0.to_le_bytes());
        }
    }
}

/// Decodes a purge from the front of `rest`. `None`: it is none of ours, or cut.
pub fn decode_purge(rest: &mut &[u8]) -> Option<Purge> {
    let text = |rest: &mut &[u8]| {
        let length = u32::from_le_bytes(take(rest, 4)?.try_into().ok()?);
        take(rest, length as usize).map(Box::<[u8]>::from)
    };
    Some(match take(rest, 1)?.first()? {
        kind @ (b'h' | b's') => Purge::Tag {
            mark: TagMark(number(rest)?),
            is_soft: *kind == b's',
        },
        b'b' => Purge::Ban(text(rest)?),
        b'u' => {
            let flags = *take(rest, 1)?.first().filter(|flags| **flags < 4)?;
            Purge::Remote(RemotePurge::Url {
                is_soft: flags & 1 != 0,
                is_implied: flags & 2 != 0,
                scope: text(rest)?,
                url: text(rest)?,
            })
        }
        b'i' => Purge::Remote(RemotePurge::Implied(TagMark(number(rest)?))),
        _ => return None,
    })
}

pub(crate) fn decode(bytes: &[u8], at: usize) -> Option<(JournalRecord, usize)> {
    let mut rest = bytes.get(at..)?;
    let length = u32::from_le_bytes(take(&mut rest, 4)?.try_into().ok()?);
    let sum = number(&mut rest)?;
    let payload = (length <= RECORD_BYTES_MAX)
        .then(|| take(&mut rest, length as usize))
        .flatten()?;
    let end = at + 12 + payload.len();
    (xxh3_64(payload) == sum)
        .then(|| payload_record(payload))
        .flatten()
        .map(|record| (record, end))
}

fn payload_record(payload: &[u8]) -> Option<JournalRecord> {
    let (kind, mut rest) = payload.split_first()?;
    Some(match kind {
        b'P' => {
            let of = number(&mut rest)?;
            let mut purges = Vec::new();
            while !rest.is_empty() {
                purges.push(decode_purge(&mut rest)?);
            }
            JournalRecord::Purged { number: of, purges }
        }
        b'M' => JournalRecord::Mark(
            TagMark(number(&mut rest)?),
            PurgeTimes {
                hard: number(&mut rest)?,
                soft: number(&mut rest)?,
            },
        ),
        b'F' => JournalRecord::Floor {
            number: number(&mut rest)?,
            floor: number(&mut rest)?,
        },
        _ => return None,
    })
}

fn take<'b>(rest: &mut &'b [u8], bytes: usize) -> Option<&'b [u8]> {
    let (taken, left) = rest.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    take(rest, 8)?.try_into().ok().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;

    fn purged(number: u64, mark: u64) -> JournalRecord {
        let purges = vec![
            Purge::Tag {
                mark: TagMark(mark),
                is_soft: mark.is_multiple_of(2),
            },
            Purge::Ban(b"req.url ~ ^/x"[..].into()),
        ];
        JournalRecord::Purged { number, purges }
    }

    fn expected(numbers: std::ops::RangeInclusive<u64>) -> PurgeState {
        let mut known = PurgeState::default();
        numbers.for_each(|number| known.apply(&purged(number, number * 10 + number % 2)));
        known
    }

    fn write(folder: &Path, numbers: std::ops::RangeInclusive<u64>) {
        let (mut journal, _) = Journal::open(folder).unwrap();
        numbers.for_each(|number| {
            journal
                .append(&purged(number, number * 10 + number % 2))
                .unwrap()
        });
    }

    #[test]
    fn what_was_written_is_known_again() {
        let dir = TempDir::new("store-journal").unwrap();
        write(&dir, 1..=3);
        write(&dir, 4..=5);
        assert_eq!(tags(Journal::open(&dir).unwrap().1), tags(expected(1..=5)));
        let (mut journal, known) = Journal::open(&dir).unwrap();
        journal.compact(&known).unwrap();
        journal.append(&purged(6, 60)).unwrap();
        assert_eq!(tags(Journal::open(&dir).unwrap().1), tags(expected(1..=6)));
    }

    /// Without the number, which begins far beyond those of the tests.
    fn tags(known: PurgeState) -> (Vec<(TagMark, PurgeTimes)>, Vec<Ban>) {
        let mut marks: Vec<_> = known.marks.into_iter().collect();
        marks.sort_by_key(|(mark, _)| *mark);
        (marks, known.bans)
    }

    /// Wherever a crash cuts it, whole records before the cut are known, and so are records written
    /// afterwards.
    #[test]
    fn a_cut_record_takes_nothing_else_along() {
        let dir = TempDir::new("store-cut").unwrap();
        let path = dir.join("purges");
        let mut journal = Journal::open(&dir).unwrap().0;
        (1..=2).for_each(|number| {
            journal
                .append(&purged(number, number * 10 + number % 2))
                .unwrap()
        });
        let whole = fs::read(&path).unwrap();
        journal.append(&purged(3, 31)).unwrap();
        let longer = fs::read(&path).unwrap();
        for length in whole.len()..longer.len() {
            fs::write(&path, &longer[..length]).unwrap();
            let (mut journal, known) = Journal::open(&dir).unwrap();
            assert_eq!(tags(known), tags(expected(1..=2)), "cut at {length}");
            journal.append(&purged(3, 31)).unwrap();
            assert_eq!(
                tags(Journal::open(&dir).unwrap().1),
                tags(expected(1..=3)),
                "cut at {length}"
            );
        }
    }

    #[test]
    fn what_may_lack_something_begins_anew() {
        let dir = TempDir::new("store-incomplete").unwrap();
        write(&dir, 1..=2);
        fs::remove_file(dir.join(COMPLETE)).unwrap();
        let (_, known) = Journal::open(&dir).unwrap();
        assert!(known.floor > 2 && known.number >= known.floor, "{known:?}");
        let again = Journal::open(&dir).unwrap().1;
        assert_eq!(
            (again.floor, again.number),
            (known.floor, known.number),
            "and goes on from there"
        );
        fs::write(dir.join(COMPLETE), "another start of the machine").unwrap();
        let after_power_failed = Journal::open(&dir).unwrap().1;
        assert!(after_power_failed.floor > again.number);
        Journal::open(&dir).unwrap().0.close();
        assert_eq!(fs::read_to_string(dir.join(COMPLETE)).unwrap(), ALL_WRITTEN);
        assert_eq!(
            Journal::open(&dir).unwrap().1.floor,
            after_power_failed.floor
        );
        fs::write(dir.join("purges"), b"nothing of ours").unwrap();
        assert!(Journal::open(&dir).unwrap().1.floor > 2);
    }

    #[test]
    fn what_the_disk_does_not_take_is_tried_again() {
        let dir = TempDir::new("store-full").unwrap();
        let (mut journal, _) = Journal::open(&dir).unwrap();
        let well = std::mem::replace(&mut journal.file, File::open(dir.join("purges")).unwrap());
        assert!(
            journal.append(&purged(1, 11)).is_err(),
            "it was opened for reading alone"
        );
        assert!(!journal.retry());
        assert!(!dir.join(COMPLETE).exists());
        journal.file = well;
        assert!(journal.append(&purged(2, 20)).is_ok());
        assert!(journal.retry());
        assert!(
            Journal::open(&dir)
                .unwrap()
                .1
                .marks
                .contains_key(&TagMark(11))
        );
    }
}
