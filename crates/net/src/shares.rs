//! Questions under way to one place (a directory, a database): so many in all, and so many of one
//! client, so that no client's leave none for others.
//!
//! Called by: log-ins that ask others.
//! Out of scope: the order in which questions are answered.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Bounds, and what is under way.
#[derive(Debug)]
pub struct Shares {
    count_max: usize,
    of_client_max: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    count: usize,
    by_client: HashMap<u64, usize>,
}

/// A question counts until this is dropped.
#[derive(Debug)]
pub struct Share {
    client: u64,
    taken: Arc<Mutex<Taken>>,
}

impl Shares {
    pub fn new(count_max: usize, of_client_max: usize) -> Shares {
        Shares {
            count_max,
            of_client_max,
            taken: Arc::default(),
        }
    }

    /// `None`: too many are under way, of all or of this client.
    pub fn take(&self, client: u64) -> Option<Share> {
        let mut taken = lock(&self.taken);
        if taken.count >= self.count_max {
            return None;
        }
        let own = taken.by_client.entry(client).or_default();
        if *own >= self.of_client_max {
            return None;
        }
        *own += 1;
        taken.count += 1;
        Some(Share {
            client,
            taken: Arc::clone(&self.taken),
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        taken.count = taken.count.saturating_sub(1);
        if let Some(own) = taken.by_client.get_mut(&self.client) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                taken.by_client.remove(&self.client);
            }
        }
    }
}

fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_leaves_others_some() {
        let shares = Shares::new(5, 2);
        let mut held: Vec<Share> = (0..9).filter_map(|_| shares.take(1)).collect();
        assert_eq!(held.len(), 2);
        held.extend((0..9).filter_map(|_| shares.take(2)));
        held.extend((0..9).filter_map(|_| shares.take(3)));
        assert_eq!(held.len(), 5, "of all");
        drop(held.swap_remove(0));
        assert!(shares.take(4).is_some() && shares.take(1).is_some());
        held.clear();
        let taken = lock(&shares.taken);
        assert!(taken.count == 0 && taken.by_client.is_empty());
    }
}
