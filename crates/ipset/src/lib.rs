//! Client addresses by the million: sets of blocks, lists of them in files, bans that run out, and
//! where an address is.
//!
//! Used by `config` (what a configuration names), `pipeline` (what a request meets) and the
//! server's control socket. Pure but for reading the lists' files: no clock, no logs. Absent on
//! purpose: what happens to somebody who is in one, which is `pipeline::throttle`'s to say.

mod bans;
mod block;
mod client_network;
mod geo;
mod list;
mod ranges;
mod set;

pub use bans::{BANS_MAX, Ban, Bans, Full};
pub use block::Block;
pub use client_network::ClientNetwork;
pub use geo::{GeoDatabase, Place, Record, place_of};
pub use list::{AddressList, ListFault};
pub use set::{AddressSet, SetBuilder};
