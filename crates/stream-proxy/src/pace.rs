//! Limits of speed, one per direction of a session.
//!
//! Called by: `tcp`, before each read.
//! Caveat: the first second's bytes may come at once, as in nginx.

use saker_net::clock;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Sleep, sleep};

/// A limit of speed.
pub struct Pace {
    /// Bytes per second; 0: no limit.
    rate: u64,
    began_ms: u64,
    bytes: u64,
    wait: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    pub fn new(rate: u64, now_ms: u64) -> Pace {
        Pace {
            rate,
            began_ms: now_ms,
            bytes: 0,
            wait: None,
        }
    }

    /// Ready with the bytes that may be read now.
    pub fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        if self.rate == 0 {
            return Poll::Ready(usize::MAX);
        }
        loop {
            if let Some(wait) = &mut self.wait {
                ready!(wait.as_mut().poll(cx));
                self.wait = None;
            }
            match self.room(clock::monotonic_precise_ns() / 1_000_000) {
                Ok(room) => return Poll::Ready(room),
                Err(ms) => self.wait = Some(Box::pin(sleep(Duration::from_millis(ms)))),
            }
        }
    }

    pub fn take(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Bytes that may pass, or the time until there are some.
    fn room(&self, now_ms: u64) -> Result<usize, u64> {
        let passed_ms = now_ms.saturating_sub(self.began_ms);
        let allowed = self.rate.saturating_mul(passed_ms / 1000 + 1);
        match allowed.checked_sub(self.bytes) {
            Some(room) if room > 0 => Ok(usize::try_from(room).unwrap_or(usize::MAX)),
            _ => Err(1000 - passed_ms % 1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_bytes() {
        let mut pace = Pace::new(100, 1000);
        assert_eq!(pace.room(1000), Ok(100));
        pace.take(60);
        assert_eq!(pace.room(1500), Ok(40));
        pace.take(40);
        assert_eq!(pace.room(1500), Err(500));
        assert_eq!(pace.room(2000), Ok(100));
        pace.take(150);
        assert_eq!(pace.room(2001), Err(999));
    }
}
