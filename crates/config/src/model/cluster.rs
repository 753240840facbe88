//! `[cluster]`: an engine over which servers share the purges of their page caches.
//!
//! Called by: the process, which connects to the engine.
//! Caveat: the URL may contain a password, which is not shown.
//! Out of scope: the engine's protocol (`saker-cluster-redis`).

use super::Origin;
use std::{fmt, path::PathBuf};

/// Address of the engine: `redis://user:password@host:port/database`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClusterUrl {
    pub is_tls: bool,
    pub user: Option<String>,
    pub password: Option<String>,
    /// Name or address, without brackets.
    pub host: String,
    pub port: u16,
    pub database: u32,
}

impl fmt::Display for ClusterUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "rediss" } else { "redis" };
        write!(
            f,
            "{scheme}://{}:{}/{}",
            self.host, self.port, self.database
        )
    }
}

impl fmt::Debug for ClusterUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// `[cluster]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// `None`: this server is alone.
    pub url: Option<ClusterUrl>,
    pub password_file: Option<PathBuf>,
    pub ca_file: Option<PathBuf>,
    /// Name of this server; `auto`: the host's, with the begin of the server's id.
    pub node: String,
    /// Begin of the names of the engine's keys.
    pub stream: String,
    /// Time that a server that is cut off uses its page cache.
    pub max_staleness_ms: u64,
    /// Records that the log keeps.
    pub retention: u64,
    pub origin: Origin,
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster {
            url: None,
            password_file: None,
            ca_file: None,
            node: "auto".into(),
            stream: "saker".into(),
            max_staleness_ms: 30_000,
            retention: 100_000,
            origin: Origin::built_in(),
        }
    }
}
