//! Lines that programs have sent to the error log over their protocol, remembered for a while,
//! because php-fpm's processes write the same lines to their standard error.
//!
//! Called by: the gateway, which notes the lines it logs; `php`, which checks before it logs a line
//! of standard error.
//! Caveat: bounded; a forgotten line is logged twice, never dropped.
//! Out of scope: the origin of a line. Identical lines of two processes are told apart by their
//! number.

use std::{
    collections::{VecDeque, hash_map::RandomState},
    hash::BuildHasher,
    sync::{Mutex, OnceLock, PoisonError},
};

/// Lines that are remembered.
const LINES_MAX: usize = 4096;

static HEARD: Mutex<VecDeque<u64>> = Mutex::new(VecDeque::new());
/// Set by [`listen`]; until then no line is remembered.
static KEYS: OnceLock<RandomState> = OnceLock::new();

/// Remembers lines from now on.
pub fn listen() {
    KEYS.get_or_init(RandomState::new);
}

/// Remembers the lines of a message.
pub fn note(message: &[u8]) {
    let Some(keys) = KEYS.get() else { return };
    let mut heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
    for line in message.split(|byte| *byte == b'\n').filter_map(plain) {
        if heard.len() >= LINES_MAX {
            heard.pop_front();
        }
        heard.push_back(keys.hash_one(line));
    }
}

/// True if the line was noted; it is forgotten by that.
pub fn take(line: &[u8]) -> bool {
    let (Some(keys), Some(line)) = (KEYS.get(), plain(line)) else {
        return false;
    };
    let hash = keys.hash_one(line);
    let mut heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
    heard
        .iter()
        .position(|known| *known == hash)
        .and_then(|at| heard.remove(at))
        .is_some()
}

/// Without white space at its ends; empty lines are nothing.
fn plain(line: &[u8]) -> Option<&[u8]> {
    Some(line.trim_ascii()).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_counts_as_often_as_it_was_said() {
        note(b"before anybody listens");
        listen();
        assert!(!take(b"before anybody listens"));
        note(b"one\n  two\nthree\n");
        note(b"two");
        assert!(take(b"  two ") && take(b"two") && !take(b"two"));
        assert!(take(b"one") && take(b"three") && !take(b"") && !take(b"four"));
        (0..LINES_MAX + 1).for_each(|number| note(number.to_string().as_bytes()));
        assert!(!take(b"0") && take(b"1"));
    }
}
