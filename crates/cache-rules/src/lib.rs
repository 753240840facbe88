//! The page cache: what may be stored, for how long, for whom, and what takes it away again.
//!
//! Floor 4: knows HTTP's heads and fields (`http`), neither the pipeline nor the server. What is
//! here besides the store is pure: bytes and heads in, decisions out; times come in as milliseconds
//! since the epoch.
//!
//! Difficulty: two languages steer one cache, HTTP's own ([`rules`]) and LSCache's ([`lscache`]),
//! and an entry made by one obeys the other's purges. Absent on purpose: fetching, waiting and
//! everything that depends on a connection; the walk does that.

pub mod ban;
pub mod cookie_names;
pub mod device;
pub mod lscache;
pub mod names;
pub mod rules;

// Tests of the public interface name the crate as its users do.
#[cfg(test)]
extern crate self as saker_cache_rules;
#[cfg(test)]
mod tests;
