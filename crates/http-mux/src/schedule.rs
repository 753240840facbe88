//! Order of sending (RFC 9218 section 10): lowest urgency first; of the same urgency those that are
//! not incremental, one after the other in the order of their requests, then the incremental ones
//! in turns.
//!
//! Sixteen doubly linked lists through the slots of the stream table, and a bit for each that is
//! not empty; every step is O(1) but for putting back a stream that is not incremental, which is
//! searched for from the end, where it most often belongs. Absent on purpose: weights and
//! dependencies of RFC 7540, which RFC 9113 section 5.3 took out.

use crate::priority::{Priority, URGENCY_MAX};

/// Place of a stream in the table.
pub(crate) type Slot = u32;
pub(crate) const NO_SLOT: Slot = u32::MAX;

const LISTS: usize = 2 * (URGENCY_MAX as usize + 1);

/// A stream as its turn is found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub id: u64,
    pub priority: Priority,
    /// In a list.
    pub is_queued: bool,
    pub previous: Slot,
    pub next: Slot,
}

impl Turn {
    pub fn new(id: u64, priority: Priority) -> Turn {
        Turn {
            id,
            priority,
            is_queued: false,
            previous: NO_SLOT,
            next: NO_SLOT,
        }
    }
}

/// Element that takes turns: a row of the stream table.
pub(crate) trait HasTurn {
    fn turn(&self) -> &Turn;
    fn turn_mut(&mut self) -> &mut Turn;
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: Slot,
    last: Slot,
}

/// The streams that could send at once.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    lists: [List; LISTS],
    /// Bit n: list n has a stream.
    occupied: u16,
}

impl Schedule {
    pub fn new() -> Self {
        Schedule {
            lists: [List {
                first: NO_SLOT,
                last: NO_SLOT,
            }; LISTS],
            occupied: 0,
        }
    }

    /// Adds a stream that is not in.
    pub fn insert(&mut self, streams: &mut [impl HasTurn], slot: Slot) {
        let Some(stream) = streams.get(slot as usize).map(HasTurn::turn) else {
            return;
        };
        let list = list_of(stream.priority);
        let after = if stream.priority.incremental {
            self.lists[list].last
        } else {
            self.last_before(streams, list, stream.id)
        };
        self.link(streams, list, slot, after);
    }

    /// Takes out a stream that is in, with the priority it was put in with.
    pub fn remove(&mut self, streams: &mut [impl HasTurn], slot: Slot) {
        let Some(stream) = streams.get_mut(slot as usize).map(HasTurn::turn_mut) else {
            return;
        };
        let (list, previous, next) = (list_of(stream.priority), stream.previous, stream.next);
        (stream.previous, stream.next, stream.is_queued) = (NO_SLOT, NO_SLOT, false);
        match streams.get_mut(previous as usize).map(HasTurn::turn_mut) {
            Some(stream) => stream.next = next,
            None => self.lists[list].first = next,
        }
        match streams.get_mut(next as usize).map(HasTurn::turn_mut) {
            Some(stream) => stream.previous = previous,
            None => self.lists[list].last = previous,
        }
        if self.lists[list].first == NO_SLOT {
            self.occupied &= !(1 << list);
        }
    }

    /// Whose turn it is. An incremental stream goes to the end of its list by that.
    pub fn next(&mut self, streams: &mut [impl HasTurn]) -> Option<Slot> {
        let list = self.occupied.trailing_zeros() as usize;
        let slot = self.lists.get(list)?.first;
        if is_incremental(list) && self.lists[list].last != slot {
            self.remove(streams, slot);
            let last = self.lists[list].last;
            self.link(streams, list, slot, last);
        }
        Some(slot)
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// The last stream of the list whose identifier is lower.
    fn last_before(&self, streams: &[impl HasTurn], list: usize, id: u64) -> Slot {
        let mut at = self.lists[list].last;
        while let Some(stream) = streams.get(at as usize).map(HasTurn::turn)
            && stream.id > id
        {
            at = stream.previous;
        }
        at
    }

    /// `after` may be no slot: to the front.
    fn link(&mut self, streams: &mut [impl HasTurn], list: usize, slot: Slot, after: Slot) {
        let next = streams
            .get(after as usize)
            .map_or(self.lists[list].first, |stream| stream.turn().next);
        if let Some(stream) = streams.get_mut(slot as usize).map(HasTurn::turn_mut) {
            (stream.previous, stream.next, stream.is_queued) = (after, next, true);
        }
        match streams.get_mut(after as usize).map(HasTurn::turn_mut) {
            Some(stream) => stream.next = slot,
            None => self.lists[list].first = slot,
        }
        match streams.get_mut(next as usize).map(HasTurn::turn_mut) {
            Some(stream) => stream.previous = slot,
            None => self.lists[list].last = slot,
        }
        self.occupied |= 1 << list;
    }
}

#[cfg(any(test, debug_assertions))]
impl Schedule {
    /// The lists hold exactly the queued streams, linked both ways, and the bits say which are
    /// empty.
    pub fn check_invariants(&self, streams: &[impl HasTurn]) {
        let mut linked = 0;
        for (at, list) in self.lists.iter().enumerate() {
            assert_eq!(self.occupied & (1 << at) != 0, list.first != NO_SLOT);
            let (mut before, mut slot) = (NO_SLOT, list.first);
            while let Some(stream) = streams.get(slot as usize).map(HasTurn::turn) {
                assert!(
                    stream.is_queued && stream.previous == before && list_of(stream.priority) == at
                );
                (before, slot, linked) = (slot, stream.next, linked + 1);
            }
            assert_eq!(list.last, before);
        }
        assert_eq!(
            linked,
            streams
                .iter()
                .filter(|stream| stream.turn().is_queued)
                .count()
        );
    }
}

fn list_of(priority: Priority) -> usize {
    2 * usize::from(priority.urgency.min(URGENCY_MAX)) + usize::from(priority.incremental)
}

fn is_incremental(list: usize) -> bool {
    list % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl HasTurn for Turn {
        fn turn(&self) -> &Turn {
            self
        }

        fn turn_mut(&mut self) -> &mut Turn {
            self
        }
    }

    fn table(rows: &[(u64, u8, bool)]) -> Vec<Turn> {
        rows.iter()
            .map(|(id, urgency, incremental)| {
                Turn::new(
                    *id,
                    Priority {
                        urgency: *urgency,
                        incremental: *incremental,
                    },
                )
            })
            .collect()
    }

    fn turns(schedule: &mut Schedule, streams: &mut [Turn], count: usize) -> Vec<u64> {
        (0..count)
            .map(|_| {
                schedule
                    .next(streams)
                    .map_or(0, |slot| streams[slot as usize].id)
            })
            .collect()
    }

    #[test]
    fn lower_urgency_goes_first_and_others_wait() {
        let mut streams = table(&[(1, 3, false), (3, 0, false), (5, 7, true)]);
        let mut schedule = Schedule::new();
        (0..3).for_each(|slot| schedule.insert(&mut streams, slot));
        assert_eq!(turns(&mut schedule, &mut streams, 2), [3, 3]);
        schedule.remove(&mut streams, 1);
        assert_eq!(turns(&mut schedule, &mut streams, 2), [1, 1]);
        schedule.remove(&mut streams, 0);
        assert_eq!(turns(&mut schedule, &mut streams, 2), [5, 5]);
        schedule.remove(&mut streams, 2);
        assert!(schedule.is_empty() && schedule.next(&mut streams).is_none());
    }

    #[test]
    fn of_the_same_urgency_the_order_is_by_request_and_incremental_streams_take_turns() {
        let mut streams = table(&[
            (7, 3, true),
            (5, 3, false),
            (3, 3, true),
            (1, 3, false),
            (9, 3, true),
        ]);
        let mut schedule = Schedule::new();
        (0..5).for_each(|slot| schedule.insert(&mut streams, slot));
        assert_eq!(turns(&mut schedule, &mut streams, 2), [1, 1]);
        schedule.remove(&mut streams, 3);
        assert_eq!(turns(&mut schedule, &mut streams, 1), [5]);
        schedule.remove(&mut streams, 1);
        assert_eq!(turns(&mut schedule, &mut streams, 5), [7, 3, 9, 7, 3]);
        schedule.remove(&mut streams, 4);
        assert_eq!(turns(&mut schedule, &mut streams, 3), [7, 3, 7]);
    }

    proptest! {
        /// Against the plain rule: the least of (urgency, incremental), and the least identifier
        /// where not incremental.
        #[test]
        fn agrees_with_sorting(rows in prop::collection::vec((0u8..8, any::<bool>()), 1..40), order in any::<u64>()) {
            let ids: Vec<_> = rows.iter().enumerate().map(|(at, row)| (2 * at as u64 + 1, row.0, row.1)).collect();
            let mut streams = table(&ids);
            let mut schedule = Schedule::new();
            let mut slots: Vec<u32> = (0..ids.len() as u32).collect();
            slots.sort_by_key(|slot| u64::from(*slot).wrapping_mul(order | 1).rotate_left(17));
            slots.iter().for_each(|slot| schedule.insert(&mut streams, *slot));
            let mut left: Vec<u32> = (0..ids.len() as u32).collect();
            while let Some(slot) = schedule.next(&mut streams) {
                let key = |slot: &u32| (ids[*slot as usize].1, ids[*slot as usize].2);
                prop_assert_eq!(left.iter().map(key).min(), Some(key(&slot)));
                if !ids[slot as usize].2 {
                    prop_assert_eq!(left.iter().filter(|other| key(other) == key(&slot)).min(), Some(&slot));
                }
                schedule.remove(&mut streams, slot);
                left.retain(|other| *other != slot);
            }
            prop_assert!(left.is_empty());
        }
    }
}
