//! The table of open streams, and whose turn it is to send.
//!
//! Slots are reused and found through a small hash index, so that looking a stream up costs the
//! same for one and for a thousand, and a connection that has none open holds no memory for them
//! after [`StreamTable::trim`].
//!
//! Absent on purpose: which identifiers are idle or closed, because HTTP/2 has to find that out and
//! QUIC says it.

use hashbrown::HashTable;

use crate::priority::Priority;
use crate::schedule::{HasTurn, NO_SLOT, Schedule, Slot, Turn};

/// Slots that an idle connection keeps.
const SLOTS_KEPT: usize = 4;

/// Properties that the table needs of a stream.
pub trait Transmitter {
    /// True if content could go out now. After anything that may change this, the table has to hear
    /// of it ([`StreamTable::requeue`]).
    fn can_send(&self) -> bool;
}

pub struct StreamTable<S> {
    rows: Vec<Row<S>>,
    free: Slot,
    /// Slot of the newest stream, which is the one looked up most often.
    newest: Slot,
    index: HashTable<Slot>,
    schedule: Schedule,
}

/// `stream` is empty where the slot is free; then `turn.next` is the next free one.
struct Row<S> {
    turn: Turn,
    stream: Option<S>,
}

impl<S> HasTurn for Row<S> {
    fn turn(&self) -> &Turn {
        &self.turn
    }

    fn turn_mut(&mut self) -> &mut Turn {
        &mut self.turn
    }
}

impl<S: Transmitter> Default for StreamTable<S> {
    fn default() -> Self {
        StreamTable::new()
    }
}

impl<S: Transmitter> StreamTable<S> {
    pub fn new() -> Self {
        StreamTable {
            rows: Vec::new(),
            free: NO_SLOT,
            newest: NO_SLOT,
            index: HashTable::new(),
            schedule: Schedule::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    #[inline]
    pub fn get(&self, id: u64) -> Option<&S> {
        self.rows.get(self.find(id)? as usize)?.stream.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, id: u64) -> Option<&mut S> {
        let slot = self.find(id)?;
        self.rows.get_mut(slot as usize)?.stream.as_mut()
    }

    /// Adds a stream that is not in.
    pub fn insert(&mut self, id: u64, priority: Priority, stream: S) {
        let slot = self.place(Row {
            turn: Turn::new(id, priority),
            stream: Some(stream),
        });
        self.newest = slot;
        let rows = &self.rows;
        self.index.insert_unique(hash(id), slot, |slot| {
            rows.get(*slot as usize).map_or(0, |row| hash(row.turn.id))
        });
        self.requeue_slot(slot);
    }

    pub fn remove(&mut self, id: u64) -> Option<S> {
        let rows = &self.rows;
        let is_it = |slot: &Slot| {
            rows.get(*slot as usize)
                .is_some_and(|row| row.turn.id == id)
        };
        let (slot, _) = self.index.find_entry(hash(id), is_it).ok()?.remove();
        self.unqueue(slot);
        let row = self.rows.get_mut(slot as usize)?;
        row.turn.next = self.free;
        self.free = slot;
        row.stream.take()
    }

    /// The streams that are in, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &S)> {
        self.rows
            .iter()
            .filter_map(|row| Some((row.turn.id, row.stream.as_ref()?)))
    }

    /// Calls `change` for each stream, until it fails, and puts each in or out of turn by what
    /// became of it.
    pub fn change_all<E>(
        &mut self,
        mut change: impl FnMut(&mut S) -> Result<(), E>,
    ) -> Result<(), E> {
        for slot in 0..self.rows.len() {
            if let Some(stream) = self.rows.get_mut(slot).and_then(|row| row.stream.as_mut()) {
                change(stream)?;
                self.requeue_slot(slot as Slot);
            }
        }
        Ok(())
    }

    /// Removes every stream whose identifier says so.
    pub fn remove_where(&mut self, goes: impl Fn(u64) -> bool) {
        for slot in 0..self.rows.len() {
            if let Some(id) = self
                .rows
                .get(slot)
                .filter(|row| row.stream.is_some())
                .map(|row| row.turn.id)
                && goes(id)
            {
                self.remove(id);
            }
        }
    }

    /// Gives back memory where nothing is open.
    pub fn trim(&mut self) {
        if self.index.is_empty() {
            self.rows.clear();
            (self.free, self.newest) = (NO_SLOT, NO_SLOT);
            self.rows.shrink_to(SLOTS_KEPT);
            self.index.shrink_to(SLOTS_KEPT, |_| 0);
        }
    }

    /// After anything that can change whether a stream can send. Returns whether it can now and
    /// could not before.
    pub fn requeue(&mut self, id: u64) -> bool {
        let Some(slot) = self.find(id) else {
            return false;
        };
        self.requeue_slot(slot)
    }

    pub fn priority(&self, id: u64) -> Option<Priority> {
        self.rows
            .get(self.find(id)? as usize)
            .map(|row| row.turn.priority)
    }

    pub fn set_priority(&mut self, id: u64, priority: Priority) {
        let Some(slot) = self.find(id) else { return };
        self.unqueue(slot);
        if let Some(row) = self.rows.get_mut(slot as usize) {
            row.turn.priority = priority;
        }
        self.requeue_slot(slot);
    }

    /// Whose turn it is to send, of those that can.
    pub fn next_ready(&mut self) -> Option<u64> {
        let slot = self.schedule.next(&mut self.rows)?;
        self.rows.get(slot as usize).map(|row| row.turn.id)
    }

    /// Number of slots there are, used or not.
    pub fn slot_count(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    fn find(&self, id: u64) -> Option<Slot> {
        if self
            .rows
            .get(self.newest as usize)
            .is_some_and(|row| row.turn.id == id && row.stream.is_some())
        {
            return Some(self.newest);
        }
        self.index
            .find(hash(id), |slot| {
                self.rows
                    .get(*slot as usize)
                    .is_some_and(|row| row.turn.id == id)
            })
            .copied()
    }

    fn requeue_slot(&mut self, slot: Slot) -> bool {
        let Some(row) = self.rows.get(slot as usize) else {
            return false;
        };
        match (
            row.stream.as_ref().is_some_and(S::can_send),
            row.turn.is_queued,
        ) {
            (true, false) => {
                self.schedule.insert(&mut self.rows, slot);
                true
            }
            (false, true) => {
                self.schedule.remove(&mut self.rows, slot);
                false
            }
            _ => false,
        }
    }

    fn unqueue(&mut self, slot: Slot) {
        if self
            .rows
            .get(slot as usize)
            .is_some_and(|row| row.turn.is_queued)
        {
            self.schedule.remove(&mut self.rows, slot);
        }
    }

    fn place(&mut self, row: Row<S>) -> Slot {
        let slot = self.free;
        match self.rows.get_mut(slot as usize) {
            Some(free) => {
                self.free = free.turn.next;
                *free = row;
                slot
            }
            None => {
                self.rows.push(row);
                self.rows.len() as Slot - 1
            }
        }
    }
}

/// Identifiers come in sequence, so a multiplication spreads them well; the table takes its control
/// bits from the top.
fn hash(id: u64) -> u64 {
    id.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(any(test, debug_assertions))]
impl<S: Transmitter> StreamTable<S> {
    /// Checks what must hold between any two calls.
    pub fn check_invariants(&self) {
        let live = self.rows.iter().filter(|row| row.stream.is_some());
        assert_eq!(live.clone().count(), self.index.len());
        for row in live {
            assert_eq!(
                self.find(row.turn.id)
                    .map(|slot| self.rows[slot as usize].turn.id),
                Some(row.turn.id)
            );
            assert_eq!(
                row.turn.is_queued,
                row.stream.as_ref().is_some_and(S::can_send),
                "{:?}",
                row.turn
            );
        }
        self.schedule.check_invariants(&self.rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that is ready or not.
    struct Ready(bool);

    impl Transmitter for Ready {
        fn can_send(&self) -> bool {
            self.0
        }
    }

    fn table(ids: &[u64]) -> StreamTable<Ready> {
        let mut table = StreamTable::new();
        ids.iter()
            .for_each(|id| table.insert(*id, Priority::default(), Ready(true)));
        table
    }

    #[test]
    fn slots_are_used_again_and_given_back() {
        let mut table = table(&[0, 4, 8]);
        assert!(table.remove(4).is_some() && table.remove(4).is_none() && table.get(4).is_none());
        table.insert(12, Priority::default(), Ready(false));
        assert_eq!((table.slot_count(), table.len()), (3, 3));
        table.check_invariants();
        table.remove_where(|id| id > 4);
        table.check_invariants();
        assert_eq!(table.iter().map(|(id, _)| id).collect::<Vec<_>>(), [0]);
        table.trim();
        assert_eq!(table.slot_count(), 3, "not while a stream is open");
        table.remove(0);
        table.trim();
        assert!(table.is_empty() && table.slot_count() == 0);
    }

    #[test]
    fn turns_follow_what_a_stream_can_do() {
        let mut table = table(&[0, 4]);
        assert_eq!(table.next_ready(), Some(0));
        table.get_mut(0).unwrap().0 = false;
        assert!(!table.requeue(0));
        assert_eq!(table.next_ready(), Some(4));
        table.get_mut(0).unwrap().0 = true;
        assert!(table.requeue(0) && !table.requeue(0) && !table.requeue(99));
        table.set_priority(
            4,
            Priority {
                urgency: 0,
                incremental: false,
            },
        );
        assert_eq!(
            (
                table.next_ready(),
                table.priority(4).map(|found| found.urgency)
            ),
            (Some(4), Some(0))
        );
        let stop = |stream: &mut Ready| -> Result<(), ()> {
            stream.0 = false;
            Ok(())
        };
        table.change_all(stop).unwrap();
        assert_eq!(table.next_ready(), None);
        table.check_invariants();
    }
}
