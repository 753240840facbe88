//! Where the page cache keeps its entries: one file each, an index in memory, and the purges that
//! outlive a crash.
//!
//! Floor 3: knows files and bytes, nothing of HTTP; what an entry means is for `cache` (pure rules)
//! and for the handler that uses both. One [`Store`] per process, shared by all workers; what is
//! hot is kept by each worker in memory of its own, so that most hits come here only to learn from
//! two atomic numbers that nothing has been purged ([`Store::moment`]), and that no other entry has
//! come in its place ([`Store::is_current`]).
//!
//! What holds whatever happens (a crash in the midst of anything, a full disk, a damaged file):
//! nobody gets an entry of another key, a part of an entry, or one that was purged. Files are
//! written under another name and renamed; heads and contents carry checksums; a purge is a number
//! per tag ([`purges`]), in the journal before anybody is told that it is done.
//!
//! Absent on purpose: fsync of entries. One that a power failure damaged does not match its
//! checksum, and is a miss.

mod bounds;
mod closed;
mod entry;
mod flights;
mod housekeeping;
mod index;
mod journal;
mod probes;
mod purges;
mod rebuild;
mod space;
mod store;
mod versions;
mod writer;

pub use bounds::{Bounds, SiteUse, Totals};
pub use entry::{Coding, Content, EntryHead, Found};
pub use flights::{Boarding, Flights, Ticket};
pub use index::Superseded;
pub use journal::forget;
pub use probes::UnderWay;
pub use purges::{Ban, Purge, Standing, TagMark};
pub use store::{KeyHash, Store};
pub use versions::Version;
pub use writer::{Finished, Writer};

// Tests of the public interface name the crate as its users do.
#[cfg(test)]
extern crate self as saker_cache_store;
#[cfg(test)]
mod tests;
