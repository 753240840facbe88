//! A steady beat on the event loop, as a descriptor of its own.
//!
//! tokio's timers would do it, but one that is always set makes every wait of the event loop a wait
//! with an end: one more look at the clock, and in the kernel a timer that is set and taken back,
//! for each batch of requests. A descriptor costs nothing between beats.

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::{io, os::fd::OwnedFd, time::Duration};
use tokio::io::{Interest, unix::AsyncFd};

#[derive(Debug)]
pub struct Ticker(AsyncFd<OwnedFd>);

impl Ticker {
    /// Beats every `period`, which must not be zero. Must be called inside a tokio runtime.
    pub fn new(period: Duration) -> io::Result<Ticker> {
        let fd = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        let period = Timespec::try_from(period).map_err(|_| io::ErrorKind::InvalidInput)?;
        timerfd_settime(
            &fd,
            TimerfdTimerFlags::empty(),
            &Itimerspec {
                it_interval: period,
                it_value: period,
            },
        )?;
        // SAFETY: assumes that the descriptor stays open and the same until it is deregistered.
        // `AsyncFd` owns the `OwnedFd`, lends it by shared reference only, and deregisters before
        // it drops it. Test: `beats_in_time_and_counts_what_was_missed`.
        #[allow(unsafe_code)]
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE)? };
        Ok(Ticker(fd))
    }

    /// Waits for the next beat, and returns how many there were since the last one.
    pub async fn tick(&mut self) -> io::Result<u64> {
        loop {
            // Forgotten before the read, which empties the descriptor: a beat after it makes an
            // event of its own.
            self.0.readable().await?.clear_ready();
            let mut beats = [0; size_of::<u64>()];
            match rustix::io::read(self.0.get_ref(), &mut beats) {
                Ok(_) => return Ok(u64::from_ne_bytes(beats)),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::wait_until;
    use std::time::Instant;

    #[tokio::test]
    async fn beats_in_time_and_counts_what_was_missed() {
        let began = Instant::now();
        let mut ticker = Ticker::new(Duration::from_millis(20)).unwrap();
        let mut beats = ticker.tick().await.unwrap() + ticker.tick().await.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(20 * beats));
        // Without a look at it, until three more are due.
        let three_more = Duration::from_millis(20 * (beats + 3));
        wait_until("three beats", || began.elapsed() >= three_more);
        let missed = ticker.tick().await.unwrap();
        assert!(missed >= 3, "{missed}");
        beats += missed;
        assert!(began.elapsed() >= Duration::from_millis(20 * beats));
    }
}
