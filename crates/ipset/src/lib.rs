//! Sets of client addresses, by the million: blocks, lists of them in files, bans that expire, and
//! GeoIP databases.
//!
//! Called by: `config` (lists and databases of a configuration), `pipeline` (access checks), and
//! the server's control socket. Pure except for reading files: no clock, no logs.
//! Out of scope: the consequences for a listed client, which `pipeline::throttle` decides.

mod bans;
mod block;
mod client_network;
pub mod forwarded;
mod geo;
mod list;
mod ranges;
mod set;

pub use bans::{BANS_MAX, Ban, BanObserver, Bans, Full};
pub use block::Block;
pub use client_network::ClientNetwork;
pub use geo::{GeoDatabase, Place, Record, place_of};
pub use list::{AddressList, ListFault};
pub use set::{AddressSet, SetBuilder};
