//! Turns for heavy tests: as many at a time as the machine has cores, in all test programs.
//!
//! Called by: tests that start browsers, databases, valgrind, or hundreds of connections.
//! Caveat: a turn lasts until the guard is dropped; take it once per test, at its beginning.
//! Out of scope: tests that must be alone (the `measured` program has a lock of its own).

use crate::{
    process::for_all_runs,
    wait::{PATIENCE, poll},
};
use std::{
    fs::{self, File, TryLockError},
    path::Path,
    thread,
};

/// A turn; the next test has it when this is dropped.
#[derive(Debug)]
pub struct HeavyTurn(#[allow(dead_code, reason = "it holds the lock")] Option<File>);

/// Waits for a turn. Where turns can't be counted (a read-only temporary folder) there is always
/// one.
pub fn heavy() -> HeavyTurn {
    let folder = for_all_runs("saker-test-turns");
    let _ = fs::create_dir(&folder);
    let turns = thread::available_parallelism().map_or(2, usize::from);
    loop {
        if let Some(turn) = poll(PATIENCE, || free_turn(&folder, turns)) {
            return turn;
        }
    }
}

fn free_turn(folder: &Path, turns: usize) -> Option<HeavyTurn> {
    for number in 0..turns {
        let path = folder.join(number.to_string());
        let opened = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path);
        let Ok(file) = opened else {
            return Some(HeavyTurn(None));
        };
        match file.try_lock() {
            Ok(()) => return Some(HeavyTurn(Some(file))),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(_)) => return Some(HeavyTurn(None)),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn no_more_at_a_time_than_cores() {
        let cores = thread::available_parallelism().map_or(2, usize::from);
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..3 * cores {
                scope.spawn(|| {
                    let _turn = heavy();
                    let running = now.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(running, Ordering::SeqCst);
                    thread::yield_now();
                    now.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert!((1..=cores).contains(&most.into_inner()));
    }
}
