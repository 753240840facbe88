//! `RATE_LIMIT` (mod_ratelimit): the pace of a response, from the variables `rate-limit` and
//! `rate-initial-burst` (KiB).
//!
//! Called by: the front ends, through [`apply`].
//! Caveat: this only sets the pace; the driver keeps it. Apache sends a fifth of a second's worth
//! at a time, hence the burst.

use saker_config::model::{Rate, Settings};
use saker_pipeline::Exchange;
use std::sync::Arc;

/// Variables that determine the pace.
pub const VARIABLES: [&str; 2] = ["rate-limit", "rate-initial-burst"];

/// Sets the pace of the response from the request's variables.
pub fn apply(exchange: &mut Exchange) {
    let [limit, burst] = VARIABLES.map(|name| {
        exchange
            .environment
            .first(name.as_bytes())
            .and_then(kibibytes)
    });
    let Some(rate) = limit.map(|limit| rate(limit, burst.unwrap_or(0))) else {
        return;
    };
    if exchange.routing.settings.throttle.out_connection != Some(rate) {
        let mut settings = Settings::clone(&exchange.routing.settings);
        settings.throttle.out_connection = Some(rate);
        exchange.routing.settings = Arc::new(settings);
    }
}

fn rate(bytes_per_s: u64, after_bytes: u64) -> Rate {
    Rate {
        bytes_per_s,
        burst_bytes: (bytes_per_s / 5).max(1),
        after_bytes,
    }
}

/// A positive number of KiB at the beginning of a text, in bytes.
fn kibibytes(text: &[u8]) -> Option<u64> {
    let digits = text
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = std::str::from_utf8(text.get(..digits)?)
        .ok()?
        .parse()
        .ok()?;
    (number > 0).then(|| number.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (text, expected) in [
            ("400", Some(409_600)),
            ("1 k", Some(1024)),
            ("0", None),
            ("-5", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(kibibytes(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(
            rate(1024, 7),
            Rate {
                bytes_per_s: 1024,
                burst_bytes: 204,
                after_bytes: 7
            }
        );
    }
}
