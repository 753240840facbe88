//! Time limits of a request body: between two reads, and in total.
//!
//! Called by: the bodies of all protocols.
//! Caveat: the total grows with each piece by the time that the piece takes at the minimum rate
//! (as Apache's RequestReadTimeout), so that large bodies are possible.

use saker_config::model::Limits;

pub struct BodyTime {
    between_ms: u64,
    /// 0: no bound.
    whole_ms: u64,
    bytes_per_s_min: u64,
    /// The first wait for the body.
    began_ms: Option<u64>,
}

impl BodyTime {
    pub fn new(limits: &Limits) -> BodyTime {
        BodyTime {
            between_ms: limits.body_timeout_ms,
            whole_ms: limits.body_time_ms,
            bytes_per_s_min: limits.body_bytes_per_s_min,
            began_ms: None,
        }
    }

    /// The deadline of a wait that starts now.
    pub fn due_ms(&mut self, now_ms: u64, received: u64) -> u64 {
        let between_ms = now_ms.saturating_add(self.between_ms);
        let began_ms = *self.began_ms.get_or_insert(now_ms);
        if self.whole_ms == 0 {
            return between_ms;
        }
        let put_off_ms = received
            .saturating_mul(1000)
            .checked_div(self.bytes_per_s_min)
            .unwrap_or(0);
        between_ms.min(
            began_ms
                .saturating_add(self.whole_ms)
                .saturating_add(put_off_ms),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_put_the_end_off() {
        let limits = |body_time_ms, body_bytes_per_s_min| Limits {
            body_timeout_ms: 1000,
            body_time_ms,
            body_bytes_per_s_min,
            ..Limits::default()
        };
        let due = |limits: Limits| {
            let mut time = BodyTime::new(&limits);
            [(100, 0), (1000, 0), (1000, 500), (5000, 500)]
                .map(|(now_ms, received)| time.due_ms(now_ms, received))
        };
        assert_eq!(due(limits(0, 0)), [1100, 2000, 2000, 6000]);
        assert_eq!(due(limits(1200, 0)), [1100, 1300, 1300, 1300]);
        assert_eq!(due(limits(1200, 1000)), [1100, 1300, 1800, 1800]);
    }
}
