//! `[[site]]`: host names, document root, routes and settings.
//!
//! Called by: host selection and routing.
//! Out of scope: choosing the site for a host (`host_table`).

use super::{
    AccessLog, Address, ByHost, Limits, LiveRedirects, Origin, Routes, Settings, SiteName, SiteTls,
};
use saker_http::Status;
use saker_telemetry::{error_log::SiteLog, forensic_log::ForensicLog};
use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// The port of a site's name in logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CanonicalPort {
    /// The port of the connection.
    #[default]
    Local,
    /// 80 or 443.
    Scheme,
    Named(u16),
}

/// Set for sites that share a port with sites for other addresses: what is kept by URL belongs to the
/// addresses, too. Known once all sites are ([`crate::HostTable::new`]).
#[derive(Debug, Default)]
pub struct IsByAddress(AtomicBool);

impl IsByAddress {
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, is_so: bool) {
        self.0.store(is_so, Ordering::Relaxed);
    }
}

impl Clone for IsByAddress {
    fn clone(&self) -> IsByAddress {
        IsByAddress(AtomicBool::new(self.get()))
    }
}

#[derive(Clone, Debug)]
pub struct Site {
    pub names: Vec<SiteName>,
    /// Names with `*` or `?` elsewhere than `*.` at the start; set by Apache's configuration only.
    pub patterns: Vec<String>,
    /// Requests without a host go to the site below this path. Set by Apache's configuration only.
    pub legacy_path: Option<Box<str>>,
    /// Serves only connections to these local addresses (port 0: any); an unspecified address
    /// serves those that no site names. Empty: all. Set by Apache's configuration only.
    pub local_addresses: Vec<SocketAddr>,
    /// Serves only these listeners; empty: all.
    pub listeners: Vec<Address>,
    pub is_by_address: IsByAddress,
    /// Document root. `None` for a site with redirects only.
    pub root: Option<PathBuf>,
    /// Settings that depend on the requested host name.
    pub by_host: Option<ByHost>,
    /// The site's own, and behind them those of routes ([`Route::access_logs`](super::Route)).
    pub access_logs: Vec<AccessLog>,
    /// Overrides the server's. Set by Apache's configuration only.
    pub error_log: Option<Arc<SiteLog>>,
    /// Those of parts of the site; set by nginx's configuration only.
    pub inner_error_logs: Option<Arc<Vec<Arc<SiteLog>>>>,
    /// Log of requests before and after they are served. Set by Apache's configuration only.
    pub forensic_log: Option<Arc<ForensicLog>>,
    /// Name in logs, if not the first name.
    pub canonical_name: Option<Arc<str>>,
    pub canonical_port: CanonicalPort,
    pub tls: Arc<SiteTls>,
    /// Limits of requests to the site, and of connections to its address if it is the first site
    /// there; override the server's. Set by Apache's configuration only.
    pub limits: Option<Arc<Limits>>,
    /// Redirects plain HTTP requests to HTTPS.
    pub https_redirect: Option<HttpsRedirect>,
    /// The other servers of a cluster ask it for pages.
    pub is_for_peers: bool,
    /// The first match wins.
    pub routes: Routes,
    /// Settings of requests that match no route.
    pub settings: Arc<Settings>,
    /// Redirects that operators have added to the running server, before all routes.
    pub live_redirects: LiveRedirects,
    pub origin: Origin,
}

impl Site {
    /// A site without names or content.
    pub fn new(origin: Origin) -> Site {
        Site {
            names: Vec::new(),
            patterns: Vec::new(),
            legacy_path: None,
            local_addresses: Vec::new(),
            is_by_address: IsByAddress::default(),
            listeners: Vec::new(),
            root: None,
            by_host: None,
            access_logs: Vec::new(),
            error_log: None,
            inner_error_logs: None,
            forensic_log: None,
            canonical_name: None,
            canonical_port: CanonicalPort::Local,
            tls: Arc::default(),
            limits: None,
            https_redirect: None,
            is_for_peers: false,
            routes: Routes::default(),
            settings: Arc::default(),
            live_redirects: LiveRedirects::default(),
            origin,
        }
    }

    /// The error logs of the site and of its parts.
    pub fn error_logs(&self) -> impl Iterator<Item = &Arc<SiteLog>> {
        let inner = self.inner_error_logs.iter().flat_map(|inner| inner.iter());
        self.error_log.iter().chain(inner)
    }
}

/// Redirects plain HTTP requests to the same host, path and query, except for
/// `/.well-known/acme-challenge/`, which authorities request over plain HTTP (RFC 8555 section
/// 8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpsRedirect {
    pub status: Status,
    /// Port of the first TLS listener of the site; 443 is omitted from the URL.
    pub port: u16,
}
