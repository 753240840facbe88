//! The time limit of `saker purge --wait`.
//!
//! Called by: `arguments`.
//! Out of scope: the waiting, which the server does.

use saker_control::WAIT_MS_MAX;

/// Parses the time of `--wait` into milliseconds.
pub fn parse(text: &str) -> Result<u64, String> {
    text.strip_suffix('s')
        .unwrap_or(text)
        .parse::<u64>()
        .ok()
        .and_then(|seconds| seconds.checked_mul(1000))
        .filter(|ms| *ms <= WAIT_MS_MAX)
        .ok_or_else(|| format!("a time of up to {}s, such as 5s", WAIT_MS_MAX / 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, ms) in [("0", 0), ("5s", 5_000), ("60", 60_000)] {
            assert_eq!(parse(text), Ok(ms));
        }
        for wrong in ["61", "1m", "-1", "", "99999999999999999999"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
