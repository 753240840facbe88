//! Decides what records of the log mean here.
//!
//! Called by: `follow`, with records in the order of the log.
//! Caveat: whatever leaves a doubt whether a purge is missing ends with an empty cache: a record
//! that is not understood, a number that was skipped, a number that a server says it has sent and
//! that did not come.
//! Out of scope: reading the log, and the place from which to read (`follow`).

use crate::{
    log::Entry,
    position::Position,
    record::{Purges, Record, RecordError},
};
use saker_cache_store::Purge;

/// The page cache of this server, as the cluster changes it.
pub trait Target: Send + Sync {
    /// Carries out purges of other servers.
    fn purge(&self, purges: Vec<Purge>);

    /// Removes all entries.
    fn clear(&self);

    /// Suspends the use of entries, or ends the suspension.
    fn set_serving(&self, serves: bool);
}

/// The result of reading some records.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub purges: Vec<Purge>,
    /// Records of other servers.
    pub received: u64,
    /// Reasons to clear the cache.
    pub doubts: Vec<String>,
    /// Records that were skipped because they are not understood.
    pub skipped: Vec<String>,
    /// A record with this server's id is none of its own.
    pub is_id_taken: bool,
}

#[derive(Debug)]
pub struct Replica {
    pub position: Position,
}

impl Replica {
    /// Takes records behind the position. `origin` and `last_seq` are this server's.
    pub fn take(&mut self, entries: &[Entry], origin: u64, last_seq: u64) -> Outcome {
        let mut outcome = Outcome::default();
        for entry in entries {
            self.position.advance(entry);
            let payload = entry.payload.as_deref().ok_or(RecordError::Malformed);
            match payload.and_then(Record::decode) {
                Ok(record) if record.origin == origin => {
                    // In force since it was made. A copy of this server's directory has its id.
                    outcome.is_id_taken |= record.seq > last_seq;
                }
                Ok(record) => self.take_record(record, &mut outcome),
                Err(RecordError::Malformed) => outcome
                    .skipped
                    .push(format!("record {} is none of Saker's", entry.id)),
                Err(RecordError::Version(version)) => outcome.skipped.push(format!(
                    "record {} has version {version}, of a newer server",
                    entry.id
                )),
            }
        }
        outcome
    }

    fn take_record(&mut self, record: Record, outcome: &mut Outcome) {
        // Without a number: it only gives the log a first place.
        if record.seq == 0 {
            return;
        }
        let seen = self.position.seen.get(&record.origin).copied();
        if seen.is_some_and(|seen| record.seq <= seen) {
            // Sent twice, since its sender did not learn that it had arrived.
            return;
        }
        if let Some(seen) = seen.filter(|seen| record.seq > seen + 1) {
            outcome.doubts.push(format!(
                "purges {} to {} of server {:016x} are missing",
                seen + 1,
                record.seq - 1,
                record.origin
            ));
        }
        self.position.note(record.origin, record.seq);
        outcome.received += 1;
        match record.purges {
            Purges::These(purges) => outcome.purges.extend(purges),
            Purges::Everything => outcome.doubts.push(format!(
                "server {:016x} could not keep its purges",
                record.origin
            )),
        }
    }

    /// Compares what a server says it has sent with what has come. To be called with a number that
    /// was read before the log was read to its end.
    pub fn missing(&mut self, origin: u64, sent: u64) -> Option<String> {
        let seen = self.position.seen.get(&origin).copied();
        if seen.is_none_or(|seen| seen < sent) {
            self.position.note(origin, sent);
        }
        let seen = seen.filter(|seen| *seen < sent)?;
        Some(format!(
            "purges {} to {sent} of server {origin:016x} are not in the log",
            seen + 1
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::EntryId;
    use saker_cache_store::TagMark;

    const OWN: u64 = 1;

    fn tag(number: u64) -> Purge {
        Purge::Tag {
            mark: TagMark(number),
            is_soft: false,
        }
    }

    fn entry(major: u64, record: Option<(u64, u64)>) -> Entry {
        let payload = record.map(|(origin, seq)| {
            Record {
                origin,
                seq,
                purges: Purges::These(vec![tag(seq)]),
            }
            .encode()
        });
        Entry {
            id: EntryId { major, minor: 0 },
            payload,
        }
    }

    fn replica() -> Replica {
        Replica {
            position: Position::at(&entry(1, None)),
        }
    }

    #[test]
    fn purges_of_others_come_once_and_in_order() {
        let mut replica = replica();
        let entries = [
            entry(2, Some((7, 4))),
            entry(3, Some((OWN, 9))),
            entry(4, Some((7, 5))),
            entry(5, Some((7, 4))),
            entry(6, Some((7, 5))),
            entry(7, Some((8, 1))),
            entry(8, Some((8, 0))),
        ];
        let outcome = replica.take(&entries, OWN, 9);
        assert_eq!(
            outcome,
            Outcome {
                purges: vec![tag(4), tag(5), tag(1)],
                received: 3,
                ..Outcome::default()
            }
        );
        assert!(replica.position.is(&entries[6]));
    }

    #[test]
    fn doubts_are_reported() {
        let mut replica = replica();
        let mut newer = entry(4, Some((7, 9)));
        newer.payload = Some(vec![0; 40]);
        let entries = [
            entry(2, Some((7, 4))),
            entry(3, Some((7, 6))),
            newer,
            entry(5, None),
        ];
        let outcome = replica.take(&entries, OWN, 0);
        assert_eq!((outcome.doubts.len(), outcome.skipped.len()), (1, 2));
        assert!(outcome.doubts[0].contains("purges 5 to 5"));
        assert!(!outcome.is_id_taken);
        assert!(
            replica
                .take(&[entry(6, Some((OWN, 1)))], OWN, 0)
                .is_id_taken
        );
        let everything = Record {
            origin: 7,
            seq: 7,
            purges: Purges::Everything,
        };
        let entry = Entry {
            id: EntryId { major: 7, minor: 1 },
            payload: Some(everything.encode()),
        };
        assert_eq!(replica.take(&[entry], OWN, 0).doubts.len(), 1);
    }

    #[test]
    fn what_was_sent_has_to_come() {
        let mut replica = replica();
        assert_eq!(
            replica.missing(7, 3),
            None,
            "sent before this server joined"
        );
        assert_eq!(replica.missing(7, 3), None);
        replica.take(&[entry(2, Some((7, 4)))], OWN, 0);
        assert_eq!(replica.missing(7, 4), None);
        assert!(
            replica
                .missing(7, 6)
                .is_some_and(|why| why.contains("5 to 6"))
        );
        assert_eq!(replica.missing(7, 6), None, "once");
    }
}
