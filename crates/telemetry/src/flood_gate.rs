//! Admits a message a limited number of times per second and counts the rest.
//!
//! Caveat: any thread may call it, so second and count share one atomic word.

use std::sync::atomic::{AtomicU64, Ordering};

/// Lines per second of one message; the rest is suppressed and counted.
pub(crate) const LINES_PER_SECOND_MAX: u64 = 100;

/// Seconds since the epoch in the upper 40 bits, count in the lower 24.
const COUNT_BITS: u32 = 24;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

#[derive(Debug)]
pub(crate) struct FloodGate {
    word: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// So many were suppressed in an earlier second and not told yet.
    Pass {
        suppressed: u64,
    },
    Suppress,
}

impl FloodGate {
    pub(crate) const fn new() -> Self {
        FloodGate {
            word: AtomicU64::new(0),
        }
    }

    pub(crate) fn admit(&self, now_s: u64) -> Admission {
        let next = |word: u64| match word >> COUNT_BITS == now_s {
            // The count stops at its end instead of running into the second.
            true if count(word) == COUNT_MASK => word,
            true => word + 1,
            false => now_s << COUNT_BITS | 1,
        };
        let old = self
            .word
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                Some(next(word))
            })
            .unwrap_or_default();
        if old >> COUNT_BITS != now_s {
            return Admission::Pass {
                suppressed: excess(old),
            };
        }
        if count(old) < LINES_PER_SECOND_MAX {
            Admission::Pass { suppressed: 0 }
        } else {
            Admission::Suppress
        }
    }

    /// True if something was suppressed that [`FloodGate::settle`] has not told.
    pub(crate) fn is_suppressing(&self) -> bool {
        excess(self.word.load(Ordering::Relaxed)) > 0
    }

    /// Returns, once, the number of messages suppressed in a second that is over.
    pub(crate) fn settle(&self, now_s: u64) -> u64 {
        let over = |word: u64| (word >> COUNT_BITS != now_s && excess(word) > 0).then_some(0);
        self.word
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, over)
            .map_or(0, excess)
    }
}

fn count(word: u64) -> u64 {
    word & COUNT_MASK
}

fn excess(word: u64) -> u64 {
    count(word).saturating_sub(LINES_PER_SECOND_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_of_the_limit() {
        let gate = FloodGate::new();
        for _ in 0..LINES_PER_SECOND_MAX {
            assert_eq!(gate.admit(7), Admission::Pass { suppressed: 0 });
        }
        assert_eq!(gate.admit(7), Admission::Suppress);
        assert_eq!(gate.admit(7), Admission::Suppress);
        assert_eq!(gate.settle(7), 0, "the second is not over");
        assert_eq!(gate.admit(8), Admission::Pass { suppressed: 2 });
        assert_eq!(gate.admit(8), Admission::Pass { suppressed: 0 });
    }

    #[test]
    fn settles_once() {
        let gate = FloodGate::new();
        (0..150).for_each(|_| assert_ne!(gate.admit(7), Admission::Pass { suppressed: 1 }));
        assert_eq!((gate.settle(8), gate.settle(8)), (50, 0));
    }

    #[test]
    fn the_count_stays_at_its_end() {
        let gate = FloodGate {
            word: AtomicU64::new(7 << COUNT_BITS | COUNT_MASK),
        };
        assert_eq!(gate.admit(7), Admission::Suppress);
        assert_eq!(gate.settle(8), COUNT_MASK - LINES_PER_SECOND_MAX);
    }
}
