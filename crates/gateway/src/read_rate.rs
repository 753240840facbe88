//! The speed at which a response is read from its upstream (`proxy_limit_rate`).
//!
//! Called by: `spool`.
//! Caveat: a read may bring more than is allowed now; the rest waits here.
//! Out of scope: the speed at which clients get it (pacing in `serving`).

use saker_pipeline::Chunk;
use std::num::NonZeroU64;

/// The account of one response: as in nginx, a second's worth of bytes is free at the beginning.
#[derive(Debug)]
pub struct ReadRate {
    bytes_per_s: NonZeroU64,
    begun_ms: u64,
    read_bytes: u64,
    now_ms: u64,
    rest: Option<Chunk>,
}

impl ReadRate {
    pub fn new(bytes_per_s: NonZeroU64, now_ms: u64) -> ReadRate {
        ReadRate {
            bytes_per_s,
            begun_ms: now_ms,
            read_bytes: 0,
            now_ms,
            rest: None,
        }
    }

    /// Bytes that may be read now.
    fn allowed(&self) -> u64 {
        let passed_ms = self.now_ms.saturating_sub(self.begun_ms);
        let earned = u128::from(self.bytes_per_s.get()) * u128::from(passed_ms + 1000) / 1000;
        let earned = u64::try_from(earned).unwrap_or(u64::MAX);
        earned.saturating_sub(self.read_bytes)
    }

    /// Returns the time until a tenth of a second's worth may be read; `None`: something may be read
    /// now.
    pub fn wait_ms(&mut self, now_ms: u64) -> Option<u64> {
        self.now_ms = now_ms;
        (self.allowed() == 0).then(|| {
            let rate = self.bytes_per_s.get();
            let passed_ms = now_ms.saturating_sub(self.begun_ms);
            let due_ms = u128::from(self.read_bytes) * 1000 / u128::from(rate);
            let due_ms = u64::try_from(due_ms)
                .unwrap_or(u64::MAX)
                .saturating_sub(1000);
            due_ms.saturating_sub(passed_ms).max(PAUSE_MS)
        })
    }

    pub fn take_rest(&mut self) -> Option<Chunk> {
        self.rest.take()
    }

    /// Returns the part of a chunk that is allowed now, and keeps the rest.
    pub fn cut(&mut self, chunk: Chunk) -> Chunk {
        let allowed = usize::try_from(self.allowed()).unwrap_or(usize::MAX);
        let bytes = chunk.len().min(allowed);
        self.read_bytes += bytes as u64;
        if bytes == chunk.len() {
            return chunk;
        }
        self.rest = Some(chunk.slice(bytes..chunk.len()));
        chunk.slice(0..bytes)
    }
}

/// Shortest pause between two reads.
const PAUSE_MS: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_free_and_the_rest_comes_at_the_rate() {
        let mut rate = ReadRate::new(NonZeroU64::new(1000).unwrap(), 5000);
        assert_eq!(rate.wait_ms(5000), None);
        assert_eq!(rate.cut(Chunk::from(vec![0; 2500])).len(), 1000);
        assert_eq!(rate.wait_ms(5000), Some(PAUSE_MS));
        assert_eq!(rate.wait_ms(5100), None);
        let rest = rate.take_rest().unwrap();
        assert_eq!(rate.cut(rest).len(), 100);
        assert_eq!(rate.wait_ms(6500), None);
        let rest = rate.take_rest().unwrap();
        assert_eq!(rate.cut(rest).len(), 1400);
        assert!(rate.take_rest().is_none());
        assert_eq!(rate.wait_ms(6500), Some(PAUSE_MS));
    }
}
