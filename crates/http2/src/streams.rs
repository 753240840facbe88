//! The table of open streams.
//!
//! Slots are reused and found through a small hash index, so that looking a stream up costs the same for one and for a thousand, and a
//! connection that has none open holds no memory for them after [`Streams::trim`].
//!
//! The one difficulty: a frame for a stream without an entry. Above the highest identifier it is idle; below, it may have been closed,
//! skipped, or reset by us a moment ago while the peer could not know it (RFC 9113 section 5.1). For that there are a bit for each of
//! the last 64 identifiers and a ring of the streams that we reset.

use hashbrown::HashTable;

use crate::priority::Priority;
use crate::schedule::Schedule;
use crate::stream::{NO_SLOT, Slot, Stream, StreamId};
use crate::window::Overflow;

/// How many of our resets are remembered.
const RECENT_RESETS: usize = 128;

/// Slots that an idle connection keeps.
const SLOTS_KEPT: usize = 4;

pub(crate) struct Streams {
    slots: Vec<Stream>,
    free: Slot,
    /// Where the last stream was put, which is the one most often asked for.
    newest: Slot,
    index: HashTable<Slot>,
    schedule: Schedule,
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
            slots: Vec::new(),
            free: NO_SLOT,
            newest: NO_SLOT,
            index: HashTable::new(),
            schedule: Schedule::new(),
            highest: 0,
            used: 0,
            resets: Vec::new(),
            resets_at: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn highest(&self) -> StreamId {
        StreamId(self.highest)
    }

    #[inline]
    pub fn find(&self, id: StreamId) -> Option<Slot> {
        if id != StreamId::CONNECTION && self.at(self.newest).is_some_and(|stream| stream.id == id) {
            return Some(self.newest);
        }
        self.index.find(hash(id), |slot| self.slots.get(*slot as usize).is_some_and(|stream| stream.id == id)).copied()
    }

    #[inline]
    pub fn at(&self, slot: Slot) -> Option<&Stream> {
        self.slots.get(slot as usize)
    }

    #[inline]
    pub fn get(&self, id: StreamId) -> Option<&Stream> {
        self.at(self.find(id)?)
    }

    #[inline]
    pub fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        let slot = self.find(id)?;
        self.slots.get_mut(slot as usize)
    }

    /// A new identifier, higher than all before it, has been used; with or without an entry.
    pub fn note_used(&mut self, id: StreamId) {
        let steps = (id.0 - self.highest).div_ceil(2);
        self.used = self.used.checked_shl(steps).unwrap_or(0) | 1;
        self.highest = id.0;
    }

    /// Of an identifier not above the highest: whether it was passed over. Known for the last 64 only.
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

    pub fn insert(&mut self, stream: Stream) {
        let slot = self.place(stream);
        self.newest = slot;
        let slots = &self.slots;
        self.index.insert_unique(hash(stream.id), slot, |slot| slots.get(*slot as usize).map_or(0, |stream| hash(stream.id)));
    }

    pub fn remove(&mut self, id: StreamId) {
        let slots = &self.slots;
        let is_it = |slot: &Slot| slots.get(*slot as usize).is_some_and(|stream| stream.id == id);
        let Ok(entry) = self.index.find_entry(hash(id), is_it) else { return };
        let (slot, _) = entry.remove();
        self.unqueue(slot);
        if let Some(stream) = self.slots.get_mut(slot as usize) {
            stream.id = StreamId::CONNECTION;
            stream.next = self.free;
            self.free = slot;
        }
    }

    /// We have ended our side of a stream. Where the peer has ended its own, the stream is gone.
    pub fn end_local(&mut self, id: StreamId) {
        let Some(slot) = self.find(id) else { return };
        if let Some(stream) = self.slots.get_mut(slot as usize) {
            stream.local_ended = true;
            if stream.remote_ended { self.remove(id) } else { self.unqueue(slot) }
        }
    }

    /// Removes every stream above `last`.
    pub fn remove_above(&mut self, last: StreamId) {
        for slot in 0..self.slots.len() {
            if let Some(id) = self.slots.get(slot).map(|stream| stream.id)
                && id > last
            {
                self.remove(id);
            }
        }
    }

    /// Gives back memory where nothing is open.
    pub fn trim(&mut self) {
        if self.index.is_empty() {
            self.slots.clear();
            (self.free, self.newest) = (NO_SLOT, NO_SLOT);
            self.slots.shrink_to(SLOTS_KEPT);
            self.index.shrink_to(SLOTS_KEPT, |_| 0);
        }
    }

    /// After anything that can change whether a stream can send. Returns whether it can now and could not before.
    pub fn requeue(&mut self, id: StreamId) -> bool {
        let Some(slot) = self.find(id) else { return false };
        self.requeue_slot(slot)
    }

    fn requeue_slot(&mut self, slot: Slot) -> bool {
        let Some(stream) = self.at(slot) else { return false };
        match (stream.can_send(), stream.is_queued) {
            (true, false) => {
                self.schedule.insert(&mut self.slots, slot);
                true
            }
            (false, true) => {
                self.schedule.remove(&mut self.slots, slot);
                false
            }
            _ => false,
        }
    }

    pub fn set_priority(&mut self, id: StreamId, priority: Priority) {
        let Some(slot) = self.find(id) else { return };
        self.unqueue(slot);
        if let Some(stream) = self.slots.get_mut(slot as usize) {
            stream.priority = priority;
        }
        self.requeue_slot(slot);
    }

    /// Whose turn it is to send.
    pub fn next_ready(&mut self) -> Option<StreamId> {
        let slot = self.schedule.next(&mut self.slots)?;
        self.at(slot).map(|stream| stream.id)
    }

    /// RFC 9113 section 6.9.2: the peer's SETTINGS_INITIAL_WINDOW_SIZE changed by that much. Returns whether some stream can send again.
    pub fn adjust_send_windows(&mut self, difference: i64) -> Result<bool, Overflow> {
        let mut opened = false;
        for slot in 0..self.slots.len() {
            let Some(stream) = self.slots.get_mut(slot).filter(|stream| stream.id != StreamId::CONNECTION) else { continue };
            let was_open = stream.send_window.is_open();
            stream.send_window.adjust(difference)?;
            opened |= !was_open && stream.send_window.is_open();
            self.requeue_slot(slot as Slot);
        }
        Ok(opened)
    }

    fn unqueue(&mut self, slot: Slot) {
        if self.at(slot).is_some_and(|stream| stream.is_queued) {
            self.schedule.remove(&mut self.slots, slot);
        }
    }

    fn place(&mut self, stream: Stream) -> Slot {
        let slot = self.free;
        match self.slots.get_mut(slot as usize) {
            Some(free) => {
                self.free = free.next;
                *free = stream;
                slot
            }
            None => {
                self.slots.push(stream);
                self.slots.len() as Slot - 1
            }
        }
    }
}

/// Identifiers come in sequence, so a multiplication spreads them well; the table takes its control bits from the top.
fn hash(id: StreamId) -> u64 {
    u64::from(id.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(any(test, debug_assertions))]
impl Streams {
    #[cfg(test)]
    pub fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// What must hold between any two calls.
    pub fn check_invariants(&self) {
        let live = self.slots.iter().filter(|stream| stream.id != StreamId::CONNECTION);
        assert_eq!(live.clone().count(), self.index.len());
        for stream in live {
            assert_eq!(self.find(stream.id).map(|slot| self.slots[slot as usize].id), Some(stream.id));
            assert_eq!(stream.is_queued, stream.can_send(), "{stream:?}");
            assert!(!(stream.remote_ended && stream.local_ended), "{stream:?}");
            assert!(stream.id.0 <= self.highest);
        }
        self.schedule.check_invariants(&self.slots);
    }
}
