//! Settings of a peer: address, content, and certificate.
//!
//! Called by: tests and benches, which start peers.
//! Caveat: not every peer has every site; [`PeerSite`] says which.
//! Out of scope: the configurations (one file or function per peer).

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

/// Address and content of a server.
#[derive(Clone, Copy, Debug)]
pub struct PeerSetting<'a> {
    pub root: &'a Path,
    pub host: Ipv4Addr,
    pub port: u16,
    /// Configuration, sockets and temporary files go here.
    pub work: &'a Path,
    /// Makes it a server of HTTPS, and of nothing else.
    pub tls: Option<PeerTls<'a>>,
    pub site: PeerSite<'a>,
}

/// Content besides files.
#[derive(Clone, Copy, Debug, Default)]
pub enum PeerSite<'a> {
    #[default]
    Files,
    /// The same, and rules in the folders' `.htaccess` are obeyed by those that know them.
    Htaccess,
    /// Paths below `/blog/` that are no file and no folder are its index (nginx alone).
    Permalinks,
    /// `*.php` is for FastCGI at that socket, over connections that are kept.
    Php { socket: &'a Path },
    /// Everything is for that server, over connections that are kept.
    Proxy { upstream: SocketAddr },
    /// The same, and what it answers is kept, for an hour (nginx, Varnish). `gzip`: the clients
    /// take it.
    Cached { upstream: SocketAddr, gzip: bool },
    /// `*.php` goes to FastCGI at that socket. Public responses are cached; a client with a cookie
    /// [`SESSION_COOKIE`] gets its own (nginx, Apache).
    Store { socket: &'a Path },
    /// The same in front of such a server, with everything else kept, too (Varnish).
    StoreBehind { upstream: SocketAddr },
    /// Each request is in the log, of one or several workers (not Varnish, HAProxy, Caddy).
    Logged { log: &'a Path, workers: usize },
    /// The shop's page as before, the other files from the folder; Varnish keeps those, too.
    Shop { upstream: SocketAddr },
    /// The files, each connection at so many bytes per second (Saker, nginx, lighttpd).
    Paced { bytes_per_s: u64 },
}

/// Cookie of a client that is logged in to the store.
pub const SESSION_COOKIE: &str = "shop_session";

/// Idle connections that are kept to a program or server.
pub const KEPT: usize = 16;

/// PEM files.
#[derive(Clone, Copy, Debug)]
pub struct PeerTls<'a> {
    pub chain: &'a Path,
    pub key: &'a Path,
}
