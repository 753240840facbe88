//! The rules of the page cache: what may be stored, for how long, for whom, and what invalidates
//! it.
//!
//! Called by: `saker_page_cache`. Pure: heads and bytes in, decisions out; times are milliseconds
//! since the epoch.
//! Caveat: two protocols control one cache, HTTP's ([`rules`]) and LSCache's ([`lscache`]), and an
//! entry stored by one obeys the other's purges.
//! Out of scope: fetching, waiting, and everything that depends on a connection.

pub mod ban;
pub mod cookie_names;
pub mod device;
pub mod keyed;
pub mod lscache;
pub mod names;
pub mod rules;

// Tests of the public interface name the crate as its users do.
#[cfg(test)]
extern crate self as saker_cache_rules;
#[cfg(test)]
mod tests;
