//! The test environment of a measurement: folders, certificate, core, upstreams.
//!
//! Called by: whatever starts a server.
//! Caveat: it is the same for all subjects of a row, except for what the row is about.
//! Out of scope: the load (`load`).

use crate::{behind::SessionStore, conditions::Congestion};
use saker_testkit::{PeerSite, PeerTls};
use std::{net::Ipv4Addr, path::Path};

/// Settings shared by all participants of a run.
#[derive(Clone, Copy, Debug)]
pub struct TestEnv<'a> {
    pub saker: &'a Path,
    /// The files.
    pub root: &'a Path,
    pub host: Ipv4Addr,
    pub work: &'a Path,
    /// For the rows over TLS.
    pub tls: Option<PeerTls<'a>>,
    pub core: Option<usize>,
    pub site: PeerSite<'a>,
    /// Session store behind PHP.
    pub sessions: SessionStore<'a>,
    /// Congestion control of HTTP/3.
    pub congestion: Congestion,
}
