//! The block `stream`: servers over TCP and UDP, their upstreams, and their rules.
//!
//! `read` reads the block with the setters of `conf`; `finish` makes servers, listeners, and
//! upstreams of it.
//!
//! Called by: `load`.
//! Caveat: names of variables, zones, formats, and upstreams are those of this block alone.
//! Out of scope: sessions (`saker-nginx`).

mod addresses;
mod conf;
mod finish;
mod read;

pub use addresses::StreamAddress;
pub use conf::{StreamConf, StreamProxyConf};
pub use finish::{Members, finish, upstream};
pub use read::{ReadStream, StreamReader};

use crate::{
    modules::{
        access::AccessRule,
        limits::{ConnectionLimit, Zone},
        maps::Tables,
        resolver::ResolverConf,
        upstream::Group,
    },
    text::Text,
    variables::NamedVariable,
};
use saker_ap_expr::Subnet;
use saker_config::model::{AccessLogTarget, Upstream};
use saker_telemetry::{access_log::Escapes, error_log::SiteLog, message::Level};
use std::sync::Arc;

/// The streams of a configuration, for sessions.
#[derive(Debug, Default)]
pub struct Streams {
    /// By number.
    pub servers: Vec<StreamRulesOf>,
    /// Addresses that several servers share, or a server with a name.
    pub addresses: Vec<StreamAddress>,
    pub variables: Vec<NamedVariable>,
    pub tables: Tables,
    pub zones: Vec<Arc<Zone>>,
    pub groups: Vec<Group>,
    /// Targets of logs, by number.
    pub log_targets: Vec<AccessLogTarget>,
}

/// The rules of a server.
#[derive(Debug)]
pub struct StreamRulesOf {
    pub access: Option<Arc<Vec<AccessRule>>>,
    pub connections: Option<Arc<[ConnectionLimit]>>,
    pub connections_dry_run: bool,
    pub connections_log_level: Level,
    /// `None`: the process's.
    pub error_log: Option<Arc<SiteLog>>,
    pub real_ip_from: Vec<Subnet>,
    /// Proxies on Unix sockets are trusted.
    pub real_ip_unix: bool,
    /// Variables that are set, in order.
    pub sets: Vec<(usize, Text)>,
    pub target: StreamTarget,
    /// Sessions need a good certificate (`true`), or must not have a bad one (`false`).
    pub demands_certificate: Option<bool>,
    /// Handshakes for the server's names fail.
    pub rejects: bool,
    pub members: Members,
    pub resolver: ResolverConf,
    pub logs: Vec<StreamLog>,
}

/// The way of a server's sessions.
#[derive(Debug)]
pub enum StreamTarget {
    Return(Text),
    /// An upstream, with the key that chooses its member.
    Upstream(Arc<Upstream>, Option<Text>),
    /// A group or an address, by its value.
    Evaluated(Text),
    /// A listener of `http`, by the value of its address.
    Pass(Text),
}

/// A log of a server.
#[derive(Clone, Debug)]
pub struct StreamLog {
    /// Number of its target.
    pub target: usize,
    pub text: Text,
    /// The path below the target's directory, where it has variables.
    pub path: Option<Text>,
    pub escape: Escapes,
    pub condition: Option<Text>,
}
