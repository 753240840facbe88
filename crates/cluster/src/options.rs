//! Settings of a server in its cluster.
//!
//! Called by: `node` and `follow`.
//! Out of scope: the configuration they are read from.

use crate::clock::Clock;
use std::{
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Settings of a server in its cluster.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The page cache's directory.
    pub folder: PathBuf,
    /// Empty: the server's id.
    pub name: String,
    pub version: String,
    pub max_staleness: Duration,
    pub started: Instant,
    pub clock: Clock,
    /// Address at which the others can ask this server for pages.
    pub peer: Option<SocketAddr>,
}
