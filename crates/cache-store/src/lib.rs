//! The store of the page cache: one file per entry, an index in memory, and purges that survive a
//! crash.
//!
//! Called by: `saker_page_cache`; one [`Store`] per process, shared by all workers. Popular pages
//! are in each worker's own memory, so most hits only read two atomic numbers here: nothing was
//! purged ([`Store::purge_seq`]), and the entry was not replaced ([`Store::is_current`]).
//! Caveat: after a crash, a full disk or a damaged file, no request gets an entry of another key,
//! part of an entry, or a purged entry. Files are written under another name and renamed; heads and
//! contents have checksums; purges are numbers per tag ([`purges`]), in the journal before they are
//! acknowledged.
//! Out of scope: HTTP (`saker_cache_rules`), and fsync of entries; one damaged by a power failure
//! does not match its checksum and is a miss.

mod bounds;
mod cache_lock;
mod entry;
mod entry_name;
mod hand_over;
mod housekeeping;
mod index;
mod journal;
mod key_hash;
mod open;
mod private_files;
mod probes;
mod purges;
mod rebuild;
mod space;
mod store;
mod versions;
mod writer;

pub use bounds::{Bounds, SiteUse, Totals};
pub use cache_lock::{CacheLock, FetchPermit, LockOutcome};
pub use entry::{Coding, Content, EntryHead, StoredEntry};
pub use hand_over::{HandedOver, Reading};
pub use index::Superseded;
pub use journal::{decode_purge, encode_purge, forget};
pub use key_hash::KeyHash;
pub use probes::UnderWay;
pub use purges::{Ban, Purge, RemotePurge, TagMark, Validity};
pub use store::{Forward, Outgoing, Store};
pub use versions::Version;
pub use writer::{Finished, Writer};

// Tests of the public interface name the crate as its users do.
#[cfg(test)]
extern crate self as saker_cache_store;
#[cfg(test)]
mod tests;
