//! Bans and charges to limits, as the servers of a cluster tell each other.
//!
//! Called by: the server process, with its tables of clients, as far as `[cluster]` shares them.
//! Bans are a table on the engine and a feed of its changes; charges are a feed alone, since they
//! are of no use later. Each record is signed with the cluster's secret.
//! Caveat: nothing waits for the engine. While it does not answer, bans are in force on their own
//! server, and go to the others when it is back; limits count on each server.
//! Out of scope: the meaning of batches of charges (`saker_rate_limits::deltas`).

mod ban_record;
mod ban_table;
mod exchange;
mod feeds;
mod node;

pub use exchange::ClientTarget;
pub use feeds::{BanRow, Feed, Feeds, FeedsEngine};
pub use node::{ClientNode, ClientOptions, ClientReport};
