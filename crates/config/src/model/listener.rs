//! `[[listener]]`: where connections come in.

use super::Origin;
use std::{fmt, net::SocketAddr, path::PathBuf};

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Listener {
    pub address: Address,
    /// Networks whose connections begin with a PROXY preface; connections from elsewhere must not send one. Empty: nobody.
    pub proxy_protocol_from: Vec<saker_net::Network>,
    /// `listen(2)` backlog.
    pub backlog: u32,
    /// Permissions of a Unix socket.
    pub mode: Option<u32>,
    pub origin: Origin,
}
