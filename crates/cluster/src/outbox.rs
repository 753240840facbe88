//! The queue of purges made here that the log does not have yet, on disk.
//!
//! Called by: the store, before a purge is in force ([`Outgoing`]); `publish`, which sends it.
//! Caveat: a record is in the file before the purge is acknowledged, so the end of this process
//! loses none; it is sent again if its sending was not noted, and the others know it by its
//! number. Where the queue would exceed its limit, or the disk does not take a purge, one purge of
//! everything replaces it. A file beside it says that nothing is missing; removing that needs no
//! space.
//! Out of scope: power failures, which may lose what was not synced (`publish` syncs what waits).

use crate::record::{self, Purges, Record};
use saker_cache_store::{Outgoing, Purge};
use saker_telemetry::{error_log, message};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: &[u8; 8] = b"SKCLQUE1";
const FILE: &str = "cluster.queue";
/// Exists while the queue has everything that it should.
const COMPLETE: &str = "cluster.complete";

/// Magic, the server's random id, the first number that is not sent, checksum.
const HEAD_BYTES: u64 = 32;

/// Bytes of sent records at the front of the file before the rest is moved there.
const SENT_BYTES_MAX: u64 = 1 << 20;

/// Bytes of waiting records.
pub const QUEUE_BYTES_MAX: u64 = 64 << 20;

pub struct Outbox {
    queue: Mutex<Queue>,
    filled: Notify,
}

struct Queue {
    folder: PathBuf,
    file: File,
    bytes_max: u64,
    /// Positions at which the next record is read, and the next is written.
    begin: u64,
    end: u64,
    waiting: u64,
    next_seq: u64,
    /// Changes when records are dropped.
    generation: u64,
    /// Something could not be written; a purge of everything has to stand in for it.
    is_incomplete: bool,
    is_synced: bool,
    origin: u64,
}

/// Records to send.
#[derive(Debug, Default)]
pub struct Batch {
    pub records: Vec<Vec<u8>>,
    pub last_seq: u64,
    bytes: u64,
    generation: u64,
}

impl Outbox {
    /// Opens or creates the queue. Also returns the records that wait in it: they may not be in
    /// force here.
    pub fn open(folder: &Path, bytes_max: u64) -> io::Result<(Arc<Outbox>, Vec<Record>)> {
        let is_new = !folder.join(FILE).exists() && !crate::position::is_known(folder);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(folder.join(FILE))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let head = read_head(&bytes);
        let is_complete = is_new || head.is_some() && folder.join(COMPLETE).exists();
        let (origin, first_seq) = match head {
            Some(head) => head,
            None => (random()?, 1),
        };
        let (records, begin, end) = waiting(&bytes, first_seq);
        let mut queue = Queue {
            folder: folder.into(),
            file,
            bytes_max,
            begin,
            end,
            waiting: records.len() as u64,
            next_seq: records.last().map_or(first_seq, |last| last.seq + 1),
            generation: 0,
            is_incomplete: !is_complete,
            is_synced: false,
            origin,
        };
        queue.file.set_len(end)?;
        queue.write_head()?;
        if !is_complete {
            queue.replace_by_everything()?;
        }
        queue.mark_complete()?;
        let everything = (!is_complete).then(|| Record {
            origin,
            seq: queue.next_seq - 1,
            purges: Purges::Everything,
        });
        let outbox = Arc::new(Outbox {
            queue: Mutex::new(queue),
            filled: Notify::new(),
        });
        outbox.filled.notify_one();
        Ok((outbox, records.into_iter().chain(everything).collect()))
    }

    /// A new queue of a server with this id.
    #[cfg(test)]
    pub fn create_as(folder: &Path, origin: u64) -> io::Result<()> {
        fs::write(folder.join(FILE), head(origin, 1))?;
        fs::write(folder.join(COMPLETE), b"")
    }

    /// Random id of this server, which stays with the directory.
    pub fn origin(&self) -> u64 {
        self.queue().origin
    }

    /// Random number of a run of this server.
    pub fn random_run(&self) -> io::Result<u64> {
        random()
    }

    /// Takes another id, for this server has it by a copy of another one's directory. What waits
    /// becomes a purge of everything.
    pub fn take_new_id(&self) {
        let mut queue = self.queue();
        if let Ok(origin) = random() {
            queue.origin = origin;
        }
        if queue.replace_by_everything().is_err() {
            queue.is_incomplete = true;
            let _ = fs::remove_file(queue.folder.join(COMPLETE));
        }
        drop(queue);
        self.filled.notify_one();
    }

    /// Number of the last purge made here.
    pub fn last_seq(&self) -> u64 {
        self.queue().next_seq - 1
    }

    /// True if purges are in force here that are not in the queue: one of everything will stand in
    /// for them.
    pub fn is_incomplete(&self) -> bool {
        self.queue().is_incomplete
    }

    /// Number of the last purge that the log has.
    pub fn sent_seq(&self) -> u64 {
        let queue = self.queue();
        queue.next_seq - 1 - queue.waiting
    }

    /// Records and bytes that wait.
    pub fn waiting(&self) -> (u64, u64) {
        let queue = self.queue();
        (queue.waiting, queue.end - queue.begin)
    }

    /// Returns when something was added since it was last awaited.
    pub async fn filled(&self) {
        self.filled.notified().await;
    }

    /// The first records that wait.
    pub fn batch(&self, records_max: usize, bytes_max: usize) -> io::Result<Batch> {
        let queue = self.queue();
        let mut batch = Batch {
            generation: queue.generation,
            ..Batch::default()
        };
        let mut at = queue.begin;
        while at < queue.end && batch.records.len() < records_max && batch.bytes < bytes_max as u64
        {
            let mut length = [0; 4];
            queue.file.read_exact_at(&mut length, at)?;
            let length = u32::from_le_bytes(length) as usize;
            let mut bytes = vec![0; length.min(record::RECORD_BYTES_MAX)];
            queue.file.read_exact_at(&mut bytes, at + 4)?;
            batch.bytes += 4 + bytes.len() as u64;
            at = queue.begin + batch.bytes;
            batch.records.push(bytes);
        }
        batch.last_seq = queue.next_seq - 1 - queue.waiting + batch.records.len() as u64;
        Ok(batch)
    }

    /// Notes that the log has the records of a batch.
    pub fn sent(&self, batch: &Batch) -> io::Result<()> {
        let mut queue = self.queue();
        if batch.generation != queue.generation {
            return Ok(());
        }
        queue.begin += batch.bytes;
        queue.waiting -= batch.records.len() as u64;
        queue.write_head()?;
        if queue.begin == queue.end {
            queue.file.set_len(HEAD_BYTES)?;
            (queue.begin, queue.end) = (HEAD_BYTES, HEAD_BYTES);
        } else if queue.begin - HEAD_BYTES > SENT_BYTES_MAX {
            queue.move_to_front()?;
        }
        Ok(())
    }

    /// Syncs what waits, and makes good what the disk did not take before.
    pub fn maintain(&self) {
        let mut queue = self.queue();
        if queue.is_incomplete {
            let made = queue
                .replace_by_everything()
                .and_then(|()| queue.mark_complete());
            if made.is_ok() {
                self.filled.notify_one();
            }
        }
        if queue.is_synced || queue.waiting == 0 {
            return;
        }
        queue.is_synced = true;
        let Ok(file) = queue.file.try_clone() else {
            return;
        };
        drop(queue);
        let _ = file.sync_data();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outgoing for Outbox {
    fn note(&self, purges: &[Purge]) -> io::Result<()> {
        let mut queue = self.queue();
        let outcome = queue.add(purges);
        if let Err(error) = &outcome {
            queue.is_incomplete = true;
            let _ = fs::remove_file(queue.folder.join(COMPLETE));
            error_log::log(
                &message::CLUSTER_QUEUE_FAILED,
                format_args!("{}: {error}", queue.folder.display()),
            );
        }
        drop(queue);
        self.filled.notify_one();
        outcome
    }
}

impl Queue {
    fn add(&mut self, purges: &[Purge]) -> io::Result<()> {
        let records = record::records(self.origin, self.next_seq, purges);
        let bytes: u64 = records.iter().map(|record| 4 + record.len() as u64).sum();
        if self.is_incomplete || self.end - self.begin + bytes > self.bytes_max {
            if !self.is_incomplete {
                error_log::log(
                    &message::CLUSTER_QUEUE_FULL,
                    format_args!("{} records", self.waiting),
                );
            }
            return self.replace_by_everything();
        }
        self.write(&records)
    }

    fn write(&mut self, records: &[Vec<u8>]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for record in records {
            bytes.extend_from_slice(&(record.len() as u32).to_le_bytes());
            bytes.extend_from_slice(record);
        }
        self.file.write_all_at(&bytes, self.end)?;
        self.end += bytes.len() as u64;
        self.waiting += records.len() as u64;
        self.next_seq += records.len() as u64;
        self.is_synced = false;
        Ok(())
    }

    /// One purge of everything instead of all that waits. The numbers that go with the others tell
    /// the servers that something is missing.
    fn replace_by_everything(&mut self) -> io::Result<()> {
        let record = Record {
            origin: self.origin,
            seq: self.next_seq,
            purges: Purges::Everything,
        };
        // Written behind the others first: they go only once it is there.
        self.write(&[record.encode()])?;
        self.begin = self.end - (4 + record.encode().len() as u64);
        self.waiting = 1;
        self.generation += 1;
        self.is_incomplete = false;
        self.write_head()?;
        self.move_to_front()
    }

    fn write_head(&mut self) -> io::Result<()> {
        self.file
            .write_all_at(&head(self.origin, self.next_seq - self.waiting), 0)
    }

    /// Writes the waiting records to a new file, which takes this one's place.
    fn move_to_front(&mut self) -> io::Result<()> {
        let mut bytes = head(self.origin, self.next_seq - self.waiting).to_vec();
        let from = bytes.len();
        let waiting = usize::try_from(self.end - self.begin).unwrap_or(usize::MAX);
        bytes.resize(from + waiting, 0);
        self.file.read_exact_at(&mut bytes[from..], self.begin)?;
        let new = self.folder.join("cluster.queue.new");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all_at(&bytes, 0)?;
        fs::rename(new, self.folder.join(FILE))?;
        (self.file, self.begin, self.end) = (file, HEAD_BYTES, bytes.len() as u64);
        self.is_synced = false;
        Ok(())
    }

    fn mark_complete(&self) -> io::Result<()> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.folder.join(COMPLETE))
            .map(drop)
    }
}

fn head(origin: u64, first_seq: u64) -> [u8; HEAD_BYTES as usize] {
    let mut head = [0; HEAD_BYTES as usize];
    head[..8].copy_from_slice(MAGIC);
    head[8..16].copy_from_slice(&origin.to_le_bytes());
    head[16..24].copy_from_slice(&first_seq.to_le_bytes());
    let sum = xxh3_64(&head[..24]).to_le_bytes();
    head[24..].copy_from_slice(&sum);
    head
}

fn read_head(bytes: &[u8]) -> Option<(u64, u64)> {
    let bytes = bytes.get(..HEAD_BYTES as usize)?;
    let number = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    let (origin, first_seq) = (number(8)?, number(16)?);
    (head(origin, first_seq) == *bytes && first_seq > 0).then_some((origin, first_seq))
}

/// The whole records from `first_seq` on, and where they begin and end.
fn waiting(bytes: &[u8], first_seq: u64) -> (Vec<Record>, u64, u64) {
    let (mut records, mut at, mut begin) = (Vec::new(), HEAD_BYTES as usize, HEAD_BYTES);
    while let Some(length) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let length = u32::from_le_bytes(*length) as usize;
        let record = bytes
            .get(at + 4..)
            .and_then(|rest| rest.get(..length))
            .and_then(|bytes| Record::decode(bytes).ok());
        let Some(record) = record else { break };
        at += 4 + length;
        match record.seq < first_seq {
            true => begin = at as u64,
            false => records.push(record),
        }
    }
    (records, begin, at as u64)
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_cache_store::TagMark;
    use saker_testkit::TempDir;

    fn tag(number: u64) -> Vec<Purge> {
        vec![Purge::Tag {
            mark: TagMark(number),
            is_soft: false,
        }]
    }

    fn open(dir: &Path) -> (Arc<Outbox>, Vec<u64>) {
        let (outbox, records) = Outbox::open(dir, 1 << 20).unwrap();
        (outbox, records.iter().map(|record| record.seq).collect())
    }

    fn seqs(batch: &Batch) -> Vec<u64> {
        batch
            .records
            .iter()
            .map(|bytes| Record::decode(bytes).unwrap().seq)
            .collect()
    }

    #[test]
    fn what_waits_is_sent_in_order_and_survives() {
        let dir = TempDir::new("cluster-outbox").unwrap();
        let (outbox, none) = open(&dir);
        assert_eq!(none, [0; 0]);
        (1..=5).for_each(|number| outbox.note(&tag(number)).unwrap());
        let batch = outbox.batch(2, 1 << 20).unwrap();
        assert_eq!((seqs(&batch), batch.last_seq), (vec![1, 2], 2));
        outbox.sent(&batch).unwrap();
        assert_eq!((outbox.sent_seq(), outbox.last_seq()), (2, 5));
        let origin = outbox.origin();
        // Not dropped in order: the process was killed.
        std::mem::forget(outbox);
        let (outbox, waiting) = open(&dir);
        assert_eq!((waiting, outbox.origin()), (vec![3, 4, 5], origin));
        let batch = outbox.batch(100, 1 << 20).unwrap();
        assert_eq!((seqs(&batch), batch.last_seq), (vec![3, 4, 5], 5));
        outbox.sent(&batch).unwrap();
        assert_eq!(outbox.waiting(), (0, 0));
        let (outbox, waiting) = open(&dir);
        assert_eq!(waiting, [0; 0]);
        outbox.note(&tag(6)).unwrap();
        assert_eq!(seqs(&outbox.batch(9, 1 << 20).unwrap()), [6]);
    }

    /// Wherever a crash cuts the file, whole records before the cut are known.
    #[test]
    fn a_cut_record_takes_nothing_else_along() {
        let dir = TempDir::new("cluster-cut").unwrap();
        let (outbox, _) = open(&dir);
        (1..=2).for_each(|number| outbox.note(&tag(number)).unwrap());
        let whole = fs::read(dir.join(FILE)).unwrap();
        outbox.note(&tag(3)).unwrap();
        let longer = fs::read(dir.join(FILE)).unwrap();
        for length in whole.len()..longer.len() {
            fs::write(dir.join(FILE), &longer[..length]).unwrap();
            let (outbox, waiting) = open(&dir);
            assert_eq!(waiting, [1, 2], "cut at {length}");
            outbox.note(&tag(9)).unwrap();
            assert_eq!(seqs(&outbox.batch(9, 1 << 20).unwrap()), [1, 2, 3]);
        }
    }

    #[test]
    fn the_queue_has_a_limit_and_everything_stands_in() {
        let dir = TempDir::new("cluster-full").unwrap();
        let record = 4 + record::records(1, 1, &tag(1))[0].len() as u64;
        let (outbox, _) = Outbox::open(&dir, record * 3).unwrap();
        (1..=3).for_each(|number| outbox.note(&tag(number)).unwrap());
        assert_eq!(outbox.waiting(), (3, record * 3), "it is full to the brim");
        let before = outbox.batch(9, 1 << 20).unwrap();
        outbox.note(&tag(4)).unwrap();
        let batch = outbox.batch(9, 1 << 20).unwrap();
        assert_eq!(seqs(&batch), [4]);
        assert_eq!(
            Record::decode(&batch.records[0]).unwrap().purges,
            Purges::Everything
        );
        outbox.sent(&before).unwrap();
        assert_eq!(
            outbox.waiting().0,
            1,
            "the earlier batch counts for nothing"
        );
        let (outbox, waiting) = open(&dir);
        assert_eq!((waiting, outbox.last_seq()), (vec![4], 4));
    }

    #[test]
    fn what_the_disk_did_not_take_becomes_everything() {
        let dir = TempDir::new("cluster-disk").unwrap();
        let (outbox, _) = open(&dir);
        outbox.note(&tag(1)).unwrap();
        let read_only = File::open(dir.join(FILE)).unwrap();
        let well = std::mem::replace(&mut outbox.queue().file, read_only);
        assert!(outbox.note(&tag(2)).is_err());
        assert!(!dir.join(COMPLETE).exists());
        // A start before it is made good.
        let (_, waiting) = open(&dir);
        assert_eq!(waiting, [1, 2], "with everything behind it");
        outbox.queue().file = well;
        outbox.queue().is_incomplete = true;
        outbox.maintain();
        assert!(dir.join(COMPLETE).exists());
        let batch = outbox.batch(9, 1 << 20).unwrap();
        assert_eq!(
            Record::decode(&batch.records[0]).unwrap().purges,
            Purges::Everything
        );
    }

    #[test]
    fn a_lost_queue_is_everything_and_a_new_directory_is_not() {
        let dir = TempDir::new("cluster-lost").unwrap();
        drop(open(&dir));
        fs::write(dir.join(FILE), b"rubbish").unwrap();
        let (outbox, waiting) = open(&dir);
        assert_eq!(waiting.len(), 1);
        assert_eq!(outbox.waiting().0, 1);
    }

    #[test]
    fn sent_records_do_not_pile_up_in_the_file() {
        let dir = TempDir::new("cluster-front").unwrap();
        let (outbox, _) = Outbox::open(&dir, 8 << 20).unwrap();
        let many: Vec<Purge> = (0..9_000).flat_map(tag).collect();
        for _ in 0..40 {
            outbox.note(&many).unwrap();
        }
        for _ in 0..39 {
            let batch = outbox.batch(1, 1 << 20).unwrap();
            outbox.sent(&batch).unwrap();
        }
        assert_eq!(seqs(&outbox.batch(9, 1 << 20).unwrap()), [40]);
        let bytes = fs::metadata(dir.join(FILE)).unwrap().len();
        assert!(bytes < SENT_BYTES_MAX + (1 << 20), "{bytes}");
        let (_, waiting) = open(&dir);
        assert_eq!(waiting, [40]);
    }
}
