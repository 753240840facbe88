//! The body of a request on a stream: content that has been received and not read.
//!
//! Called by: the connection, which fills it; `stream_body`, which reads it.
//! Caveat: windows are opened as the handler reads, so a slow handler slows its client, and the
//! content held here is bounded by the stream's window; without a reader, nothing is held.
//! `100 Continue` is sent on the first read (RFC 9110 section 10.1.1).

use saker_http::{Fields, HeadView, fields::known_name};
use saker_http1::is_forbidden_trailer;
use saker_pipeline::{BodyError, ChunkQueue};
use std::task::Waker;

/// Unread request content that is still accepted after the response; the machine accepts most of a
/// window.
const DRAIN_BYTES_MAX: u64 = 192 << 10;

/// Maximum number of unread bytes that are taken from drivers that can leave content unread.
const UNREAD_BYTES_MAX: usize = 64 << 10;

/// Both sides of it.
pub struct Upload {
    pub(super) chunks: ChunkQueue,
    pub(super) declared: Option<u64>,
    pub received: u64,
    /// Received and not read yet.
    pub(super) unread_bytes: usize,
    /// 0: no limit.
    pub(super) bytes_max: u64,
    pub(super) ended: bool,
    pub(super) failed: Option<BodyError>,
    /// Window to be returned: read bytes and padding.
    pub owed: usize,
    /// `100 Continue` is due.
    pub continue_due: bool,
    pub(super) expects_continue: bool,
    pub(super) reader: Option<Waker>,
    /// No reader is left: content counts, and is not kept.
    pub(super) is_unwanted: bool,
    pub(super) trailers: Option<Fields>,
    /// A copy for the log, because a reader takes the original.
    pub trailers_to_log: Option<Fields>,
}

impl Upload {
    pub fn new(declared: Option<u64>, bytes_max: u64, expects_continue: bool) -> Upload {
        let (received, ended, failed, owed) = (0, false, None, 0);
        let (chunks, continue_due, reader, trailers, trailers_to_log) =
            (ChunkQueue::default(), false, None, None, None);
        Upload {
            chunks,
            declared,
            received,
            unread_bytes: 0,
            bytes_max,
            ended,
            failed,
            owed,
            continue_due,
            expects_continue,
            reader,
            is_unwanted: false,
            trailers,
            trailers_to_log,
        }
    }

    /// Content has come. `flow_bytes` of window were used for it.
    pub fn push(&mut self, data: &[u8], flow_bytes: usize, end: bool) {
        self.received += data.len() as u64;
        self.expects_continue = false;
        if self.bytes_max > 0 && self.received > self.bytes_max {
            self.fail(BodyError::TooLarge);
        }
        if self.failed.is_some() {
            self.owed += flow_bytes;
        } else {
            self.owed += flow_bytes - data.len();
            self.unread_bytes += data.len();
            if !self.is_unwanted {
                self.chunks.push_bytes(data);
            }
        }
        self.ended |= end;
        self.wake();
    }

    /// Drops unread content, and what follows. Its window is given back with the stream: the client
    /// is to take the response, not to send more.
    pub(super) fn stop_keeping(&mut self) {
        self.is_unwanted = true;
        self.chunks.clear();
    }

    /// Bounds the whole. More of it may be here than that, even all of it.
    pub fn limit(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
        if bytes_max > 0 && self.received > bytes_max {
            self.failed.get_or_insert(BodyError::TooLarge);
            self.wake();
        }
    }

    pub fn fail(&mut self, error: BodyError) {
        if !self.ended {
            self.failed.get_or_insert(error);
        }
        self.wake();
    }

    /// Trailers end the content. Of what may not stand there (RFC 9110 section 6.5.1) nothing is
    /// kept.
    pub fn end(&mut self, trailers: HeadView<'_>) {
        let mut kept = Fields::new();
        // The machine lets names through that are tokens, which are ASCII.
        let named = trailers
            .fields()
            .map(|(name, value)| (std::str::from_utf8(name).unwrap_or_default(), value));
        named
            .filter(|line| !is_forbidden_trailer(line.0))
            .for_each(|(name, value)| kept.append(known_name(name), value.to_vec()));
        self.trailers = (!kept.is_empty()).then_some(kept);
        self.trailers_to_log.clone_from(&self.trailers);
        self.ended = true;
        self.wake();
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns whether all content has been received and read.
    pub fn is_read(&self) -> bool {
        self.ended && self.failed.is_none() && self.chunks.is_empty()
    }

    /// The rest may be short enough to be let come and thrown away; some clients take a reset for a
    /// failure even after a whole response.
    pub fn is_cheap_to_drain(&self) -> bool {
        self.declared
            .is_none_or(|declared| declared.saturating_sub(self.received) <= DRAIN_BYTES_MAX)
    }

    /// Drops unread content. Returns the window to give back for it.
    pub fn abandon(&mut self) -> usize {
        if !self.chunks.is_empty() {
            // A reader that continues must not take a partial body for the whole.
            self.failed.get_or_insert(BodyError::Gone);
        }
        self.chunks.clear();
        std::mem::take(&mut self.unread_bytes) + std::mem::take(&mut self.owed)
    }

    pub fn failed(&self) -> Option<BodyError> {
        self.failed
    }

    /// Returns whether so much is unread that reading from the client should pause.
    pub fn is_full(&self) -> bool {
        self.unread_bytes >= UNREAD_BYTES_MAX
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiny_pieces_cost_no_more_than_their_bytes() {
        let mut upload = Upload::new(None, 0, false);
        (0..100_000).for_each(|_| upload.push(b"x", 1, false));
        assert!(upload.chunks.count() <= 100_000 / 4096 + 1);
        assert_eq!(
            (upload.chunks.bytes(), upload.unread_bytes),
            (100_000, 100_000)
        );
    }

    #[test]
    fn nothing_is_kept_without_a_reader() {
        let mut upload = Upload::new(None, 0, false);
        upload.push(b"before", 6, false);
        upload.stop_keeping();
        upload.push(b"behind", 7, false);
        assert!(upload.chunks.is_empty() && upload.is_read() == upload.has_ended());
        assert_eq!(upload.received, 12);
        assert_eq!(upload.abandon(), 13, "the window of all");
    }
}
