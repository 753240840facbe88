//! Waiting for conditions: the only place of the tests that sleeps.
//!
//! Called by: every test that waits for another thread or process.
//! Caveat: a wait ends as soon as its condition holds, so that its limit costs time only where a
//! test fails.
//! Out of scope: proof that something does *not* happen; wait for what follows it instead.

use rustix::{
    event::{self, PollFd, PollFlags, Timespec},
    io::Errno,
};
use std::{
    fs, io,
    os::fd::AsFd,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Limit of a wait: far beyond what anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Pause between two looks at what has to stay the same.
const POLL_EVERY: Duration = Duration::from_millis(5);
/// Bounds of the pause before something is asked for again: a tenth of the wait so far, so that a long
/// wait takes little of the processor and hardly becomes longer.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Waits until the condition holds.
///
/// # Panics
/// If it doesn't within [`PATIENCE`]; `what` names the condition.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

/// As [`wait_until`]; the message is made where the test fails, from logs for example.
///
/// # Panics
/// If the condition doesn't hold within [`PATIENCE`].
#[track_caller]
pub fn wait_until_or(mut holds: impl FnMut() -> bool, message: impl FnOnce() -> String) {
    let held = poll(PATIENCE, || holds().then_some(())).is_some();
    assert!(held, "not within {PATIENCE:?}: {}", message());
}

/// Waits until there is a value.
///
/// # Panics
/// If there is none within [`PATIENCE`]; `what` names the condition.
#[track_caller]
pub fn wait_for<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    let value = poll(PATIENCE, ask);
    assert!(value.is_some(), "not within {PATIENCE:?}: {what}");
    value.expect("checked")
}

/// Waits until a file's text is as it should be: lines of logs are written behind the responses.
///
/// # Panics
/// If it isn't within [`PATIENCE`]; the message has the text.
#[track_caller]
pub fn wait_for_text(path: impl AsRef<Path>, is_right: impl Fn(&str) -> bool) {
    let text = || fs::read_to_string(&path).unwrap_or_default();
    wait_until_or(
        || is_right(&text()),
        || format!("{}: {}", path.as_ref().display(), text()),
    );
}

/// Returns the first value, or `None` if there is none until the time is over.
pub fn poll<T>(timeout: Duration, ask: impl FnMut() -> Option<T>) -> Option<T> {
    poll_after(
        timeout,
        |waited| (waited / 10).clamp(PAUSE_MIN, PAUSE_MAX),
        ask,
    )
}

/// As [`poll`], with pauses that depend on the wait so far.
fn poll_after<T>(
    timeout: Duration,
    pause: impl Fn(Duration) -> Duration,
    mut ask: impl FnMut() -> Option<T>,
) -> Option<T> {
    let began = Instant::now();
    loop {
        if let Some(value) = ask() {
            return Some(value);
        }
        let waited = began.elapsed();
        if waited >= timeout {
            return None;
        }
        thread::sleep(pause(waited));
    }
}

/// Polls a condition that has to hold all this time.
///
/// # Panics
/// As soon as it doesn't; `what` names the condition.
#[track_caller]
pub fn holds_for(what: &str, time: Duration, mut holds: impl FnMut() -> bool) {
    let failed = poll_after(time, |_| POLL_EVERY, || (!holds()).then_some(()));
    assert!(failed.is_none(), "not for {time:?}: {what}");
}

/// Returns a value that has stayed the same for a while, of something that comes to rest.
///
/// # Panics
/// If it doesn't come to rest within [`PATIENCE`]; `what` names it.
#[track_caller]
pub fn wait_until_settled<T: PartialEq>(what: &str, mut ask: impl FnMut() -> T) -> T {
    const POLLS: usize = 100;
    let (mut last, mut same) = (ask(), 0);
    let settled = poll_after(
        PATIENCE,
        |_| POLL_EVERY,
        || {
            let now = ask();
            same = if now == last { same + 1 } else { 0 };
            last = now;
            (same == POLLS).then_some(())
        },
    );
    assert!(settled.is_some(), "not within {PATIENCE:?}: {what}");
    last
}

/// Keeps a connection open for this long without reading or answering, or until the peer closes
/// it: a slow peer.
///
/// # Errors
/// If the connection can't be polled.
pub fn keep_waiting(stream: impl AsFd, time: Duration) -> io::Result<()> {
    let end = Instant::now() + time;
    let limit = || Timespec::try_from(end.saturating_duration_since(Instant::now())).ok();
    let mut polled = [PollFd::new(&stream, PollFlags::RDHUP)];
    loop {
        match event::poll(&mut polled, limit().as_ref()) {
            Err(Errno::INTR) => {}
            polled => return Ok(polled.map(drop)?),
        }
    }
}
