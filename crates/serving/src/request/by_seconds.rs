//! A bandwidth limit of one response that grants a second's worth for each second begun
//! (`limit_rate` of nginx's configuration).
//!
//! Called by: `pace`.
//! Caveat: seconds are those of the clock, not of the response, as in nginx; what was sent waits for
//! the time that it takes at the rate.
//! Out of scope: limits that several responses share.

use saker_config::model::Rate;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};

/// State of the limit.
pub struct BySeconds {
    rate: Rate,
    begun_s: u64,
    sent: u64,
    /// Bytes that may be sent before the limit is asked again.
    pub granted: u64,
    /// Bytes of the current grant that were sent and count.
    counted: u64,
    wait: Option<Pin<Box<Sleep>>>,
}

impl BySeconds {
    pub fn new(rate: Rate) -> BySeconds {
        BySeconds {
            rate,
            begun_s: now_s(),
            sent: 0,
            granted: 0,
            counted: 0,
            wait: None,
        }
    }

    /// Ready when `granted` is not 0.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.granted == 0 {
            if let Some(wait) = &mut self.wait {
                ready!(wait.as_mut().poll(cx));
                self.wait = None;
            }
            if self.counted > 0 {
                self.wait_for(self.counted);
                self.counted = 0;
                continue;
            }
            let allowed = self.allowed(now_s());
            match allowed.checked_sub(self.sent).filter(|left| *left > 0) {
                Some(left) => self.granted = left,
                None => self.wait_for(self.sent.saturating_sub(allowed).max(1)),
            }
        }
        Poll::Ready(())
    }

    /// Bytes from the beginning of the response that may have been sent by a second.
    fn allowed(&self, now_s: u64) -> u64 {
        let seconds = now_s.saturating_sub(self.begun_s).saturating_add(1);
        let earned = seconds.saturating_mul(self.rate.bytes_per_s);
        earned.saturating_add(self.rate.after_bytes)
    }

    /// Waits for the time that bytes take at the rate.
    fn wait_for(&mut self, bytes: u64) {
        let ms = u128::from(bytes) * 1000 / u128::from(self.rate.bytes_per_s.max(1));
        let ms = u64::try_from(ms).unwrap_or(u64::MAX).clamp(1, DAY_MS);
        self.wait = Some(Box::pin(sleep_until(
            Instant::now() + Duration::from_millis(ms),
        )));
    }

    /// Counts sent bytes.
    pub fn charge(&mut self, bytes: u64) {
        self.granted = self.granted.saturating_sub(bytes);
        let before = self.sent.max(self.rate.after_bytes);
        self.sent = self.sent.saturating_add(bytes);
        self.counted += self.sent.saturating_sub(before);
    }
}

const DAY_MS: u64 = 86_400_000;

fn now_s() -> u64 {
    saker_net::clock::realtime_precise_ns() / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(bytes_per_s: u64, after_bytes: u64) -> BySeconds {
        BySeconds::new(Rate {
            bytes_per_s,
            burst_bytes: bytes_per_s,
            after_bytes,
        })
    }

    #[tokio::test]
    async fn each_second_has_its_worth() {
        let mut limit = limit(1000, 500);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert_eq!(limit.allowed(limit.begun_s), 1500);
        assert_eq!(limit.allowed(limit.begun_s + 2), 3500);
        assert!(limit.poll(&mut cx).is_ready() && limit.granted >= 1500);
        limit.charge(1500);
        // The free part does not count.
        assert_eq!(limit.counted, 1000);
        limit.granted = 0;
        assert!(limit.poll(&mut cx).is_pending() && limit.wait.is_some());
    }

    #[tokio::test]
    async fn a_rate_of_one_byte_is_one() {
        let mut limit = limit(1, 0);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(limit.poll(&mut cx).is_ready() && limit.granted <= 2);
        limit.charge(limit.granted);
        assert!(limit.poll(&mut cx).is_pending());
    }
}
