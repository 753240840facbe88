//! The open streams, and what is known of those that are not open.
//!
//! The one difficulty: a frame for a stream without an entry. Above the highest identifier it is
//! idle; below, it may have been closed, skipped, or reset by us a moment ago while the peer could
//! not know it (RFC 9113 section 5.1). For that there are a bit for each of the last 64 identifiers
//! and a ring of the streams that we reset.

use saker_http_mux::{Priority, StreamTable};

use crate::stream::{Stream, StreamId};
use crate::window::Overflow;

/// Number of of our resets are remembered.
const RECENT_RESETS: usize = 128;

pub(crate) struct Streams {
    table: StreamTable<Stream>,
    /// The highest identifier seen (server) or used (client), 0 for none.
    highest: u32,
    /// Bit n: the identifier `highest - 2n` was used.
    used: u64,
    resets: Vec<u32>,
    resets_at: usize,
}

impl Streams {
    pub fn new() -> Self {
        Streams {
            table: StreamTable::new(),
            highest: 0,
            used: 0,
            resets: Vec::new(),
            resets_at: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn highest(&self) -> StreamId {
        StreamId(self.highest)
    }

    #[inline]
    pub fn get(&self, id: StreamId) -> Option<&Stream> {
        self.table.get(id.0.into())
    }

    #[inline]
    pub fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.table.get_mut(id.0.into())
    }

    /// A new identifier, higher than all before it, has been used; with or without an entry.
    pub fn note_used(&mut self, id: StreamId) {
        let steps = (id.0 - self.highest).div_ceil(2);
        self.used = self.used.checked_shl(steps).unwrap_or(0) | 1;
        self.highest = id.0;
    }

    /// Returns true if an identifier, which must not be above the highest, was passed over. Known
    /// for the last 64 identifiers only.
    pub fn was_skipped(&self, id: StreamId) -> bool {
        let steps = self.highest.saturating_sub(id.0) / 2;
        steps < u64::BITS && self.used & (1 << steps) == 0
    }

    pub fn was_reset(&self, id: StreamId) -> bool {
        self.resets.contains(&id.0)
    }

    /// Frames that the peer sent before it learns of our reset are to be ignored.
    pub fn note_reset(&mut self, id: StreamId) {
        if self.resets.len() < RECENT_RESETS {
            self.resets.push(id.0);
        } else if let Some(oldest) = self.resets.get_mut(self.resets_at) {
            *oldest = id.0;
        }
        self.resets_at = (self.resets_at + 1) % RECENT_RESETS;
    }

    pub fn insert(&mut self, stream: Stream, priority: Priority) {
        self.table.insert(stream.id.0.into(), priority, stream);
    }

    pub fn remove(&mut self, id: StreamId) {
        self.table.remove(id.0.into());
    }

    /// We have ended our side of a stream. Where the peer has ended its own, the stream is gone.
    pub fn end_local(&mut self, id: StreamId) {
        let Some(stream) = self.get_mut(id) else {
            return;
        };
        stream.local_ended = true;
        if stream.remote_ended {
            self.remove(id);
        } else {
            self.requeue(id);
        }
    }

    /// Removes every stream above `last`.
    pub fn remove_above(&mut self, last: StreamId) {
        self.table.remove_where(|id| id > last.0.into());
    }

    /// Gives back memory where nothing is open.
    pub fn trim(&mut self) {
        self.table.trim();
    }

    /// After anything that can change whether a stream can send. Returns whether it can now and
    /// could not before.
    pub fn requeue(&mut self, id: StreamId) -> bool {
        self.table.requeue(id.0.into())
    }

    pub fn priority(&self, id: StreamId) -> Option<Priority> {
        self.table.priority(id.0.into())
    }

    pub fn set_priority(&mut self, id: StreamId, priority: Priority) {
        self.table.set_priority(id.0.into(), priority);
    }

    /// Whose turn it is to send.
    pub fn next_ready(&mut self) -> Option<StreamId> {
        self.table.next_ready().map(|id| StreamId(id as u32))
    }

    /// RFC 9113 section 6.9.2: the peer's SETTINGS_INITIAL_WINDOW_SIZE changed by that much.
    /// Returns whether some stream can send again.
    pub fn adjust_send_windows(&mut self, difference: i64) -> Result<bool, Overflow> {
        let mut opened = false;
        self.table.change_all(|stream| {
            let was_open = stream.send_window.is_open();
            stream.send_window.adjust(difference)?;
            opened |= !was_open && stream.send_window.is_open();
            Ok(())
        })?;
        Ok(opened)
    }
}

#[cfg(any(test, debug_assertions))]
impl Streams {
    #[cfg(test)]
    pub fn slot_count(&self) -> usize {
        self.table.slot_count()
    }

    /// Checks what must hold between any two calls.
    pub fn check_invariants(&self) {
        self.table.check_invariants();
        for (id, stream) in self.table.iter() {
            assert_eq!(id, u64::from(stream.id.0));
            assert!(!(stream.remote_ended && stream.local_ended), "{stream:?}");
            assert!(stream.id.0 <= self.highest);
        }
    }
}
