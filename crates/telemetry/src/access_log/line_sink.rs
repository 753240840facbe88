//! Writes whole lines, even when a file takes only part of a batch.
//!
//! Called by: [`super::LogFile`], under its lock. Pure except for its [`Sink`], so that tests can
//! simulate a full disk.
//! Caveat: a disk that fills up takes half a line. The rest of that line stays here and is written
//! before anything else, so that the file continues where it broke; later batches are dropped and
//! counted in the meantime, because memory is no place for a log.

use std::io;

/// Whole lines behind a torn one are kept up to here.
const PENDING_BYTES_MAX: usize = 128 * 1024;

pub(super) trait Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Takes the last `bytes` written back; false if that cannot be done safely.
    fn take_back(&mut self, bytes: usize) -> bool;
}

#[derive(Debug)]
pub(super) struct LineSink<S> {
    sink: S,
    /// Bytes from the start of the torn line on.
    pending: Vec<u8>,
    /// Bytes of `pending` that are in the sink already; less than its first line.
    sent: usize,
    failing: bool,
    /// Lines lost since it fails.
    lost: u64,
}

#[derive(Debug)]
pub(super) enum Event {
    Failed(io::Error),
    Recovered { lost: u64 },
}

#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub written: u64,
    pub dropped: u64,
    pub event: Option<Event>,
}

impl<S: Sink> LineSink<S> {
    pub(super) fn new(sink: S) -> Self {
        LineSink {
            sink,
            pending: Vec::new(),
            sent: 0,
            failing: false,
            lost: 0,
        }
    }

    pub(super) fn sink(&self) -> &S {
        &self.sink
    }

    /// Writes whole lines. Lines that are kept count as neither written nor dropped yet.
    pub(super) fn write_batch(&mut self, lines: &[u8]) -> Outcome {
        let mut outcome = Outcome::default();
        let result = match self.write_pending(&mut outcome) {
            Ok(()) => self.write_new(lines, &mut outcome),
            Err(error) => {
                outcome.dropped += line_count(lines);
                Err(error)
            }
        };
        self.conclude(result, &mut outcome);
        outcome
    }

    /// Goes over to another sink. A line torn in the old one is taken back there and written whole
    /// in the new one, or is lost.
    pub(super) fn replace(&mut self, sink: S) -> Outcome {
        let torn = self.sent > 0 && !self.sink.take_back(self.sent);
        self.sent = 0;
        if torn {
            self.pending.drain(..first_line_bytes(&self.pending));
        }
        self.sink = sink;
        let mut outcome = self.write_batch(b"");
        outcome.dropped += u64::from(torn);
        outcome
    }

    /// Closes the sink. An incomplete line is taken back, so that the next writer begins with a
    /// line of its own.
    pub(super) fn close(&mut self) -> Outcome {
        let mut outcome = self.write_batch(b"");
        if self.sent > 0 {
            self.sink.take_back(self.sent);
            self.sent = 0;
        }
        outcome.dropped += line_count(&self.pending);
        self.pending.clear();
        outcome
    }

    fn write_pending(&mut self, outcome: &mut Outcome) -> io::Result<()> {
        let (sent, result) = write_all(
            &mut self.sink,
            self.pending.get(self.sent..).unwrap_or_default(),
        );
        let reached = self.sent + sent;
        let line_start = last_line_start(&self.pending[..reached]);
        outcome.written += line_count(&self.pending[..line_start]);
        self.pending.drain(..line_start);
        self.sent = reached - line_start;
        result
    }

    fn write_new(&mut self, lines: &[u8], outcome: &mut Outcome) -> io::Result<()> {
        let (sent, result) = write_all(&mut self.sink, lines);
        let line_start = last_line_start(&lines[..sent]);
        outcome.written += line_count(&lines[..line_start]);
        self.sent = sent - line_start;
        let rest = &lines[line_start..];
        let kept = if rest.len() <= PENDING_BYTES_MAX {
            rest
        } else {
            &rest[..first_line_bytes(rest)]
        };
        self.pending.extend_from_slice(kept);
        outcome.dropped += line_count(&rest[kept.len()..]);
        result
    }

    fn conclude(&mut self, result: io::Result<()>, outcome: &mut Outcome) {
        self.lost += outcome.dropped;
        match result {
            Ok(()) if self.failing => {
                outcome.event = Some(Event::Recovered {
                    lost: std::mem::take(&mut self.lost),
                });
                self.failing = false;
            }
            Err(error) if !self.failing => {
                outcome.event = Some(Event::Failed(error));
                self.failing = true;
            }
            _ => {}
        }
    }
}

/// Writes as much as possible. Returns the number of bytes written, and the error that stopped it.
fn write_all(sink: &mut impl Sink, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut sent = 0;
    while sent < bytes.len() {
        match sink.write(&bytes[sent..]) {
            Ok(0) => return (sent, Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => sent = bytes.len().min(sent + count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (sent, Err(error)),
        }
    }
    (sent, Ok(()))
}

pub(super) fn line_count(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn last_line_start(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1)
}

fn first_line_bytes(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(bytes.len(), |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with so much room; each write takes at most `chunk`.
    struct Disk {
        data: Vec<u8>,
        room: usize,
        chunk: usize,
        can_take_back: bool,
    }

    impl Disk {
        fn with_room(room: usize) -> Disk {
            Disk {
                data: Vec::new(),
                room,
                chunk: usize::MAX,
                can_take_back: true,
            }
        }
    }

    impl Sink for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room).min(self.chunk);
            if count == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.data.extend_from_slice(&bytes[..count]);
            self.room -= count;
            Ok(count)
        }

        fn take_back(&mut self, bytes: usize) -> bool {
            self.data
                .truncate(self.data.len() - if self.can_take_back { bytes } else { 0 });
            self.can_take_back
        }
    }

    #[test]
    fn short_writes_are_continued() {
        let mut log = LineSink::new(Disk {
            chunk: 3,
            ..Disk::with_room(100)
        });
        let outcome = log.write_batch(b"first line\nsecond\n");
        assert_eq!(
            (outcome.written, outcome.dropped, outcome.event.is_none()),
            (2, 0, true)
        );
        assert_eq!(log.sink.data, b"first line\nsecond\n");
    }

    #[test]
    fn a_full_disk_tears_no_line_wherever_it_fills_up() {
        let batch = b"aaaa\nbbbb\ncccc\n";
        for room in 0..batch.len() {
            let mut log = LineSink::new(Disk::with_room(room));
            let first = log.write_batch(batch);
            assert!(
                matches!(&first.event, Some(Event::Failed(error)) if error.kind() == io::ErrorKind::StorageFull),
                "{room}"
            );
            let second = log.write_batch(b"lost\nlost\n");
            assert_eq!(
                (second.dropped, second.event.is_none()),
                (2, true),
                "{room}: reported once"
            );
            log.sink.room = 1000;
            let third = log.write_batch(b"dddd\n");
            assert!(
                matches!(third.event, Some(Event::Recovered { lost: 2 })),
                "{room}"
            );
            assert_eq!(first.written + second.written + third.written, 4);
            assert_eq!(log.sink.data, b"aaaa\nbbbb\ncccc\ndddd\n", "{room}");
        }
    }

    #[test]
    fn space_that_comes_back_in_drops() {
        let mut log = LineSink::new(Disk::with_room(2));
        let mut written = log.write_batch(b"aaaa\nbbbb\ncccc\n").written;
        for _ in 0..20 {
            log.sink.room = 1;
            written += log.write_batch(b"").written;
        }
        assert_eq!(
            (written, log.sink.data.as_slice()),
            (3, b"aaaa\nbbbb\ncccc\n".as_slice())
        );
        assert!(!log.failing && log.pending.is_empty());
    }

    #[test]
    fn memory_is_bounded_but_the_torn_line_is_kept() {
        let mut log = LineSink::new(Disk::with_room(2));
        let batch = b"aaaa\n".repeat(PENDING_BYTES_MAX / 5 + 1);
        let outcome = log.write_batch(&batch);
        assert_eq!(outcome.dropped, batch.len() as u64 / 5 - 1);
        log.sink.room = 100;
        log.write_batch(b"bbbb\n");
        assert_eq!(log.sink.data, b"aaaa\nbbbb\n");
    }

    #[test]
    fn reopening_moves_a_torn_line_to_the_new_file() {
        let mut log = LineSink::new(Disk::with_room(7));
        log.write_batch(b"aaaa\nbbbb\ncccc\n");
        assert_eq!(log.sink.data, b"aaaa\nbb");
        let old = std::mem::replace(&mut log.sink, Disk::with_room(0));
        log.sink = old;
        let outcome = log.replace(Disk::with_room(1000));
        assert!(matches!(outcome.event, Some(Event::Recovered { lost: 0 })));
        assert_eq!(
            (outcome.written, log.sink.data.as_slice()),
            (2, b"bbbb\ncccc\n".as_slice())
        );
    }

    #[test]
    fn a_torn_line_that_cannot_be_taken_back_is_lost_whole() {
        let mut log = LineSink::new(Disk {
            can_take_back: false,
            ..Disk::with_room(7)
        });
        log.write_batch(b"aaaa\nbbbb\ncccc\n");
        let outcome = log.replace(Disk::with_room(1000));
        assert_eq!(
            (outcome.written, outcome.dropped, log.sink.data.as_slice()),
            (1, 1, b"cccc\n".as_slice())
        );
    }

    #[test]
    fn the_end_leaves_whole_lines() {
        let mut log = LineSink::new(Disk::with_room(7));
        log.write_batch(b"aaaa\nbbbb\ncccc\n");
        let outcome = log.close();
        assert_eq!(
            (outcome.dropped, log.sink.data.as_slice()),
            (2, b"aaaa\n".as_slice())
        );
        let mut log = LineSink::new(Disk::with_room(7));
        log.write_batch(b"aaaa\nbbbb\ncccc\n");
        log.sink.room = 100;
        assert_eq!(
            (log.close().written, log.sink.data.as_slice()),
            (2, b"aaaa\nbbbb\ncccc\n".as_slice())
        );
    }
}
