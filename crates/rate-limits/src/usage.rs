//! Usage of limits: an account for each limit of the configuration, by client or by site.
//!
//! Called by: `addresses` and `sites`, which hold the usage; `abuse` and drivers charge it.
//! Caveat: a limit that is set in one place has nothing to do with a stricter one that is set in
//! another: a debt is compared with the burst of the limit that it was charged for. Clients choose
//! which limits they meet, so their number is bounded, for each holder and for the whole table. Limits
//! beyond the bound share one usage for each kind.
//! Out of scope: names of limits (`LimitName` of the configuration).

use crate::{Account, Places};
use saker_config::model::{LimitKind, LimitName};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
};

/// Limits of one holder that have a usage of their own.
const LIMITS_MAX: usize = 64;

/// Usage of one limit by those who share it.
#[derive(Debug, Default)]
pub struct Usage {
    pub account: Account,
    /// Requests that are being answered.
    at_a_time: AtomicU32,
    /// Slots for programs, created once a limit needs them.
    places: OnceLock<Arc<Places>>,
    _room: Option<TakenRoom>,
}

impl Usage {
    /// Counts a request that is being answered, unless `max` are.
    pub fn begin_request(self: &Arc<Self>, max: u64) -> Option<Counted> {
        let below = |count| (u64::from(count) < max).then_some(count + 1);
        self.at_a_time.fetch_update(Relaxed, Relaxed, below).ok()?;
        let usage = Arc::clone(self);
        Some(Counted::new(move || {
            usage.at_a_time.fetch_sub(1, Relaxed);
        }))
    }

    /// Places at programs.
    pub fn places(&self) -> &Arc<Places> {
        self.places.get_or_init(Arc::default)
    }

    /// Nothing to pay off, and no place taken. Requests at a time hold the usage itself.
    fn is_at_rest(&self, now_ns: u64) -> bool {
        let is_left = |places: &Arc<Places>| Arc::strong_count(places) == 1;
        self.account.is_at_rest(now_ns) && self.places.get().is_none_or(is_left)
    }
}

/// A count that goes down again when this is dropped.
pub struct Counted(Option<Box<dyn FnOnce()>>);

impl Counted {
    pub fn new(leave: impl FnOnce() + 'static) -> Counted {
        Counted(Some(Box::new(leave)))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(leave) = self.0.take() {
            leave();
        }
    }
}

/// Room for usages, which the holders of a table share.
#[derive(Debug)]
pub struct Room(AtomicUsize);

impl Room {
    pub fn new(usages_max: usize) -> Room {
        Room(AtomicUsize::new(usages_max))
    }

    fn take(self: &Arc<Self>) -> Option<TakenRoom> {
        let one_less = |left: usize| left.checked_sub(1);
        self.0.fetch_update(Relaxed, Relaxed, one_less).ok()?;
        Some(TakenRoom(Arc::clone(self)))
    }
}

/// Room of one usage, which is given back with it.
#[derive(Debug)]
struct TakenRoom(Arc<Room>);

impl Drop for TakenRoom {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Relaxed);
    }
}

/// Usages by the names of their limits.
#[derive(Debug, Default)]
pub struct Usages {
    by_name: Mutex<Vec<(LimitName, Arc<Usage>)>>,
    /// Shared by limits that have no room, by kind.
    shared: OnceLock<[Arc<Usage>; LimitKind::COUNT]>,
    room: Option<Arc<Room>>,
}

impl Usages {
    /// Takes `room` for each usage.
    pub fn within(room: &Arc<Room>) -> Usages {
        Usages {
            room: Some(Arc::clone(room)),
            ..Usages::default()
        }
    }

    /// Returns the usage of a limit; creates it if necessary.
    pub fn of(&self, name: LimitName) -> Arc<Usage> {
        let mut all = lock(&self.by_name);
        if let Some((_, usage)) = all.iter().find(|(own, _)| *own == name) {
            return Arc::clone(usage);
        }
        let room = match &self.room {
            _ if all.len() >= LIMITS_MAX => None,
            None => Some(None),
            Some(room) => room.take().map(Some),
        };
        let Some(room) = room else {
            let shared = self.shared.get_or_init(Default::default);
            let usage = shared.get(name.kind_index());
            return usage.map(Arc::clone).unwrap_or_default();
        };
        let usage = Arc::new(Usage {
            _room: room,
            ..Usage::default()
        });
        all.push((name, Arc::clone(&usage)));
        usage
    }

    /// Debts by limit.
    pub fn debts_ns(&self, now_ns: u64) -> Vec<(LimitName, u64)> {
        let all = lock(&self.by_name);
        let debts = all
            .iter()
            .map(|(name, usage)| (*name, usage.account.debt_ns(now_ns)));
        debts.filter(|(_, debt_ns)| *debt_ns > 0).collect()
    }

    /// Forgets the usages that are not held and at rest. `true`: none is left.
    pub fn sweep(&self, now_ns: u64) -> bool {
        let mut all = lock(&self.by_name);
        if all.capacity() == 0 {
            return self.is_shared_at_rest(now_ns);
        }
        // If this is the only reference, no other one can be taken while the lock is held.
        all.retain_mut(|(_, usage)| {
            Arc::get_mut(usage).is_none_or(|usage| !usage.is_at_rest(now_ns))
        });
        if all.is_empty() {
            *all = Vec::new();
        }
        all.is_empty() && self.is_shared_at_rest(now_ns)
    }

    fn is_shared_at_rest(&self, now_ns: u64) -> bool {
        self.shared.get().is_none_or(|shared| {
            let is_free = |usage: &Arc<Usage>| Arc::strong_count(usage) == 1;
            let mut all = shared.iter();
            all.all(|usage| is_free(usage) && usage.is_at_rest(now_ns))
        })
    }
}

/// Nothing that holds the lock can leave the list half changed.
fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Admission, requests::admit};
    use saker_config::model::{Excess, LimitPlace, RequestRate};

    const START: u64 = 77_000_000_000;

    fn name(origin: u32) -> LimitName {
        LimitName::new(LimitKind::StaticRequests, 7, LimitPlace(origin << 8))
    }

    #[test]
    fn a_strict_limit_does_not_count_for_another() {
        let usages = Usages::default();
        let rate = |per_1000_s, burst| RequestRate {
            per_1000_s,
            burst,
            excess: Excess::Refuse,
        };
        let (strict, lax) = (rate(83, 5), rate(50_000, 50));
        let admit =
            |origin, rate: &RequestRate| admit(&usages.of(name(origin)).account, rate, START);
        for _ in 0..6 {
            assert_eq!(admit(1, &strict), Admission::Pass);
        }
        assert!(matches!(admit(1, &strict), Admission::Refuse { .. }));
        assert_eq!(admit(2, &lax), Admission::Pass);
        // Of another site.
        let other = LimitName::new(LimitKind::StaticRequests, 8, LimitPlace(1 << 8));
        assert!(usages.of(other).account.is_at_rest(START));
    }

    #[test]
    fn what_owes_nothing_is_forgotten_and_gives_its_room_back() {
        let room = Arc::new(Room::new(3));
        let (usages, others) = (Usages::within(&room), Usages::within(&room));
        let held = usages.of(name(1));
        usages.of(name(2)).account.charge(START, 5, |_| (true, ()));
        let counted = others.of(name(1)).begin_request(1).unwrap();
        let shared = others.of(name(2));
        assert!(Arc::ptr_eq(&shared, &others.of(name(3))), "no room");
        assert!(!usages.sweep(START) && !others.sweep(START));
        drop((held, shared));
        assert!(!usages.sweep(START));
        assert_eq!(usages.debts_ns(START), [(name(2), 5)]);
        assert!(usages.sweep(START + 5) && !others.sweep(START + 5));
        drop(counted);
        assert!(others.sweep(START + 5));
        assert_eq!(room.0.load(Relaxed), 3);
    }

    #[test]
    fn the_limits_of_one_holder_are_bounded() {
        let usages = Usages::default();
        let own: Vec<_> = (0..LIMITS_MAX as u32)
            .map(|at| usages.of(name(at)))
            .collect();
        assert!(Arc::ptr_eq(&usages.of(name(3)), &own[3]));
        assert!(Arc::ptr_eq(&usages.of(name(70)), &usages.of(name(71))));
    }

    #[test]
    fn places_and_requests_are_counted_by_limit() {
        let usages = Usages::default();
        let first = usages.of(name(1)).begin_request(1);
        assert!(first.is_some() && usages.of(name(1)).begin_request(1).is_none());
        assert!(usages.of(name(2)).begin_request(1).is_some());
        let place = usages.of(name(3)).places().try_enter(1);
        drop(first);
        assert!(!usages.sweep(START), "a place is taken");
        drop(place);
        assert!(usages.sweep(START));
    }
}
