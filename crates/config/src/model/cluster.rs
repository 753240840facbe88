//! `[cluster]`: an engine over which servers share purges, bans, limits, and certificates.
//!
//! Called by: the process, which connects to the engine.
//! Caveat: the URL may contain a password, which is not shown; nor is the secret.
//! Out of scope: the engine's protocol (`saker-cluster-redis`, `saker-cluster-postgres`,
//! `saker-cluster-nats`).

use super::Origin;
use crate::source::Location;
use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc};

/// The database at the engine, which also says what engine it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterDatabase {
    /// Redis or Valkey.
    Redis(u32),
    Postgres(String),
    /// JetStream, without a name of its own.
    Nats,
}

impl Default for ClusterDatabase {
    fn default() -> ClusterDatabase {
        ClusterDatabase::Redis(0)
    }
}

/// Address of the engine: `redis://user:password@host:port/database`, `postgres://`, or
/// `nats://`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClusterUrl {
    pub is_tls: bool,
    pub user: Option<String>,
    pub password: Option<String>,
    /// Name or address, without brackets.
    pub host: String,
    pub port: u16,
    pub database: ClusterDatabase,
}

impl fmt::Display for ClusterUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = (&self.host, self.port);
        match (&self.database, self.is_tls) {
            (ClusterDatabase::Redis(number), true) => write!(f, "rediss://{host}:{port}/{number}"),
            (ClusterDatabase::Redis(number), false) => write!(f, "redis://{host}:{port}/{number}"),
            (ClusterDatabase::Nats, true) => write!(f, "tls://{host}:{port}"),
            (ClusterDatabase::Nats, false) => write!(f, "nats://{host}:{port}"),
            (ClusterDatabase::Postgres(name), _) => write!(f, "postgres://{host}:{port}/{name}"),
        }
    }
}

impl fmt::Debug for ClusterUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Parts of their state that the servers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Purges of the page cache.
    pub purges: bool,
    /// Bans of clients.
    pub bans: bool,
    /// Request rates, and attempts to log in.
    pub limits: bool,
    /// Keys that sign the cookies of challenges and downloads.
    pub passes: bool,
    /// Automatic certificates, with their accounts and challenges.
    pub certificates: bool,
}

impl Shares {
    pub const NOTHING: Shares = Shares {
        purges: false,
        bans: false,
        limits: false,
        passes: false,
        certificates: false,
    };

    /// True if something is signed or encrypted with the secret.
    pub fn needs_secret(&self) -> bool {
        self.bans || self.limits || self.passes || self.certificates
    }
}

/// The content of `secret_file`.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterSecret(pub Arc<[u8]>);

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSecret")
    }
}

/// Places of keys, for diagnostics about several of them. All are equal: a configuration that was
/// moved within its file is the same.
#[derive(Clone, Default)]
pub struct KeyPlaces(Vec<(&'static str, Location)>);

impl fmt::Debug for KeyPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyPlaces")
    }
}

impl PartialEq for KeyPlaces {
    fn eq(&self, _: &KeyPlaces) -> bool {
        true
    }
}

impl Eq for KeyPlaces {}

impl KeyPlaces {
    pub(crate) fn note(&mut self, key: &'static str, at: Location) {
        self.0.push((key, at));
    }

    pub(crate) fn of(&self, key: &str) -> Option<&Location> {
        let mut all = self.0.iter();
        all.find(|(known, _)| *known == key).map(|(_, at)| at)
    }
}

/// `[cluster.peers]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    /// Address at which the other servers ask for pages; `None`: pages are not shared.
    pub listen: Option<SocketAddr>,
    /// Address that is told to the others, if not `listen`.
    pub announced: Option<SocketAddr>,
    /// Shown by the one that connects, and by the one that answers.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Authorities of the servers' certificates.
    pub ca_file: PathBuf,
    /// Host name in the certificates of all servers.
    pub name: String,
    /// Time in which another server has to answer.
    pub timeout_ms: u64,
    /// Longer pages are not handed out.
    pub page_bytes_max: u64,
    /// Requests to another server for a page until it is kept here.
    pub copied_after: u8,
    pub origin: Origin,
}

impl Peers {
    /// The address that is told to the others.
    pub fn address(&self) -> Option<SocketAddr> {
        self.announced.or(self.listen)
    }
}

impl Default for Peers {
    fn default() -> Peers {
        Peers {
            listen: None,
            announced: None,
            certificate: PathBuf::new(),
            key: PathBuf::new(),
            ca_file: PathBuf::new(),
            name: "saker-peer".into(),
            timeout_ms: 5_000,
            page_bytes_max: 8 << 20,
            copied_after: 2,
            origin: Origin::built_in(),
        }
    }
}

/// `[cluster]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// `None`: there is no engine; certificates may be shared in `folder`.
    pub url: Option<ClusterUrl>,
    pub share: Shares,
    pub secret_file: Option<PathBuf>,
    pub secret: Option<ClusterSecret>,
    /// A directory that all servers have, for certificates.
    pub folder: Option<PathBuf>,
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
    pub peers: Peers,
    pub origin: Origin,
    pub places: KeyPlaces,
}

impl Cluster {
    /// True if the server shares anything with others.
    pub fn is_configured(&self) -> bool {
        self.url.is_some() || self.folder.is_some()
    }
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster {
            url: None,
            share: Shares {
                purges: true,
                ..Shares::NOTHING
            },
            secret_file: None,
            secret: None,
            folder: None,
            password_file: None,
            ca_file: None,
            node: "auto".into(),
            stream: "saker".into(),
            max_staleness_ms: 30_000,
            retention: 100_000,
            peers: Peers::default(),
            origin: Origin::built_in(),
            places: KeyPlaces::default(),
        }
    }
}
