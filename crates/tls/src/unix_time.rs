//! The current time in the unit of certificates' validity periods.
//!
//! Called by: checks of certificates, revocation lists, and OCSP responses.

use std::time::SystemTime;

/// Seconds since 1970.
pub fn now() -> i64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_secs()).ok())
        .unwrap_or(0)
}
