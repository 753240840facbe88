//! Who is making which entry: of many that want the same one, the first makes it and the others
//! wait.
//!
//! Difficulty: what turns out not to be kept. Were the next of those who waited to make it, and the
//! others to wait again, an uncacheable page would be served to one client at a time; so it is
//! remembered for a while that nobody waits for it (Varnish calls it hit-for-miss).

use crate::store::KeyHash;
use foldhash::fast::RandomState;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// Keys that nobody waits for; beyond that, some are forgotten.
const PASSED_MAX: usize = 100_000;

#[derive(Default)]
pub struct Flights {
    known: Mutex<HashMap<KeyHash, Flight, RandomState>>,
}

enum Flight {
    /// Ends when the sender goes.
    Under(watch::Receiver<()>),
    /// Nobody waits until then, in monotonic milliseconds.
    PassedUntil(u64),
}

/// What to do about a key that is not there.
pub enum Boarding {
    /// Make it. Whoever waits is let go when this is dropped.
    First(Ticket),
    /// Somebody does. Look again when this has ended.
    Wait(watch::Receiver<()>),
    /// It is not to be kept: everybody for himself.
    Pass,
}

pub struct Ticket {
    flights: Arc<Flights>,
    hash: KeyHash,
    passes_until_ms: Option<u64>,
    _sender: watch::Sender<()>,
}

impl Flights {
    pub fn board(self: &Arc<Self>, hash: KeyHash, now_ms: u64) -> Boarding {
        let mut known = self.lock();
        match known.get(&hash) {
            Some(Flight::Under(receiver)) => return Boarding::Wait(receiver.clone()),
            Some(Flight::PassedUntil(until)) if *until > now_ms => return Boarding::Pass,
            _ => {}
        }
        let (sender, receiver) = watch::channel(());
        known.insert(hash, Flight::Under(receiver));
        Boarding::First(Ticket {
            flights: Arc::clone(self),
            hash,
            passes_until_ms: None,
            _sender: sender,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<KeyHash, Flight, RandomState>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what has run out.
    pub fn tick(&self, now_ms: u64) {
        self.lock()
            .retain(|_, flight| !matches!(flight, Flight::PassedUntil(until) if *until <= now_ms));
    }
}

impl Ticket {
    pub fn hash(&self) -> KeyHash {
        self.hash
    }

    /// It is not kept: nobody has to wait for it until then.
    pub fn pass_until(&mut self, until_ms: u64) {
        self.passes_until_ms = Some(until_ms);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut known = self.flights.lock();
        match self.passes_until_ms {
            Some(until) if known.len() < PASSED_MAX => {
                drop(known.insert(self.hash, Flight::PassedUntil(until)))
            }
            _ => drop(known.remove(&self.hash)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: KeyHash = KeyHash(7);

    #[test]
    fn one_makes_it_and_the_others_wait() {
        let flights = Arc::<Flights>::default();
        let Boarding::First(ticket) = flights.board(KEY, 0) else {
            panic!("somebody makes it")
        };
        let Boarding::Wait(mut receiver) = flights.board(KEY, 0) else {
            panic!("nobody makes it")
        };
        assert!(matches!(flights.board(KeyHash(8), 0), Boarding::First(_)));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let brief = std::time::Duration::from_millis(10);
            assert!(
                tokio::time::timeout(brief, receiver.changed())
                    .await
                    .is_err()
            );
            drop(ticket);
            assert!(
                tokio::time::timeout(brief, receiver.changed())
                    .await
                    .is_ok()
            );
        });
        assert!(matches!(flights.board(KEY, 0), Boarding::First(_)));
    }

    #[test]
    fn nobody_waits_for_what_is_not_kept() {
        let flights = Arc::<Flights>::default();
        let Boarding::First(mut ticket) = flights.board(KEY, 0) else {
            panic!("somebody makes it")
        };
        ticket.pass_until(100);
        drop(ticket);
        assert!(matches!(flights.board(KEY, 99), Boarding::Pass));
        assert!(matches!(flights.board(KEY, 100), Boarding::First(_)));
        flights.tick(200);
        assert_eq!(flights.lock().len(), 0);
    }
}
