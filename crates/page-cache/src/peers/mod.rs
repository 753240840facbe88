//! Pages that the servers of a cluster hand each other, so that each is made once.
//!
//! Called by: the look-up, for pages that are missing or stale here ([`get`], [`renew`]); the registry, for the
//! handler that answers the other servers ([`PeerHandler`]).
//! The server that rendezvous hashing names for a URL makes its pages; the others ask it, and keep
//! what is asked for often. It is given the request as it came, without anything personal, and
//! hands out public pages only.
//! Caveat: a page is taken only if its key is the one that it has here, so a server that disagrees
//! about variants or sites is not believed; and only from a server that has all purges that are in
//! force here ([`saker_cluster::PeerTable`]).
//! Out of scope: connections (`peer_access`, `saker_gateway`), and pages with keys of the configuration (`keyed`).

mod answer;
mod ask;
mod copy;
mod wire;

pub use answer::{IsPeer, PeerHandler};
pub use ask::{PeerStep, get, renew};

/// Path at which pages are asked for.
const PATH: &str = "/pages";
