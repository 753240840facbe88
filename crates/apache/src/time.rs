//! The local time, and chance, for expressions and maps.

use saker_ap_expr::LocalTime;
pub use saker_ssi::formatted;
use std::hash::{BuildHasher, RandomState};

pub fn local(unix_s: i64) -> LocalTime {
    saker_pipeline::local_time(unix_s)
}

/// A number that cannot be foreseen; not for secrets.
pub fn chance() -> u64 {
    RandomState::new().hash_one(0)
}
