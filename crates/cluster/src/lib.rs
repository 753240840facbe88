//! State that many servers share: purges of the page cache over an ordered log, bans, limits, and
//! certificates.
//!
//! Called by: the server process, which opens a [`Node`] with the page cache and starts it, and a
//! [`ClientNode`] for bans and limits (`clients`).
//! Each purge is written to the [`outbox`], is in force here, and goes to the log; the purges of the
//! others are read from the log in its order. A server that cannot be sure that it has read all of
//! them clears its cache.
//! Caveat: the log is an engine that other software may write to, lose or replace. Records carry a
//! version, a checksum, and the number of the server's purge; a position in the log is a record
//! with its hash ([`position`]), so another log is never taken for this one.
//! Out of scope: the engines ([`Engine`] has one crate each), and what purges mean for entries.

mod clients;
mod clock;
mod follow;
mod log;
mod members;
mod node;
mod options;
mod outbox;
mod own_thread;
mod peers;
mod position;
mod position_file;
mod publish;
mod record;
mod replica;
mod secret;
mod shared;
#[cfg(test)]
mod simulation;
mod state;
mod tls;

pub use clients::{
    BanRow, ClientNode, ClientOptions, ClientReport, ClientTarget, Feed, Feeds, FeedsEngine,
};
pub use clock::Clock;
pub use log::{Engine, Entry, EntryId, Log, LogError};
pub use members::{MEMBERS_MAX, MemberReport, MemberState};
pub use node::{Acknowledged, Node, NodeQueue};
pub use options::NodeOptions;
pub use peers::{Peer, PeerTable, RequiredPlace};
pub use replica::Target;
pub use secret::{SECRET_BYTES_MIN, Sealer, Secret, Signer};
pub use shared::Report;
pub use state::{FolderEngine, Held, Lock, SharedState, StateEngine, StateNode, Store};
pub use tls::tls_client_config;
