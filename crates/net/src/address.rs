//! Address types for listening sockets and their peers.
//!
//! Called by: `listener` and `stream`.
//! Out of scope: names; host names are resolved by the code that connects to upstreams.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

/// Address to listen on. The Unix form carries the permission bits of the socket file, if they
/// differ from the umask's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bind<'a> {
    Tcp(SocketAddr),
    Unix(&'a Path, Option<u32>),
}

/// Address a listening socket is bound to; with port 0 the kernel chose the port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LocalAddress {
    Ip(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for LocalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LocalAddress::Ip(address) => address.fmt(f),
            LocalAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Address of a peer. Peers of Unix sockets have no address worth keeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerAddress {
    Ip(SocketAddr),
    Unix,
}

impl PeerAddress {
    /// The address that access rules and limits look at: IPv4-mapped IPv6 addresses (dual-stack
    /// listeners) are IPv4.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            PeerAddress::Ip(address) => Some(address.ip().to_canonical()),
            PeerAddress::Unix => None,
        }
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerAddress::Ip(address) => address.fmt(f),
            PeerAddress::Unix => f.write_str("unix:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_peer_counts_as_ipv4() {
        let peer = PeerAddress::Ip("[::ffff:192.0.2.7]:4711".parse().unwrap());
        assert_eq!(peer.ip(), Some("192.0.2.7".parse().unwrap()));
        assert_eq!(PeerAddress::Unix.ip(), None);
    }

    #[test]
    fn shown_as_in_configuration() {
        assert_eq!(
            LocalAddress::Ip("[::1]:80".parse().unwrap()).to_string(),
            "[::1]:80"
        );
        assert_eq!(
            LocalAddress::Unix("/run/saker.sock".into()).to_string(),
            "unix:/run/saker.sock"
        );
        assert_eq!(PeerAddress::Unix.to_string(), "unix:");
    }
}
