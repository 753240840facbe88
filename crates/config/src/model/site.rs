//! `[[site]]`: hosts, their document root, routes and settings.

use super::{AccessLog, Action, Address, ByHost, Limits, Origin, Settings, SiteTls};
use saker_http::Status;
use saker_telemetry::{error_log::SiteLog, forensic_log::ForensicLog};
use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc};

/// A name that a site answers to, in lower case without a trailing dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SiteName {
    Exact(String),
    /// `*.example.org` is kept as `example.org`; matches any number of labels before it, not the
    /// name itself.
    Wildcard(String),
    /// `*`
    Any,
}

/// The port that goes with a site's name in logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CanonicalPort {
    /// That of the connection.
    #[default]
    Local,
    /// 80 or 443.
    Scheme,
    Named(u16),
}

#[derive(Clone, Debug)]
pub struct Site {
    pub names: Vec<SiteName>,
    /// Names with `*` or `?` elsewhere than `*.` at their beginning; only Apache's configuration
    /// has such.
    pub patterns: Vec<String>,
    /// Requests that name no host are for it below this path. Only Apache's configuration has such.
    pub legacy_path: Option<Box<str>>,
    /// Only for connections to these addresses of this machine (port 0: any); an unspecified one is
    /// for those that no site names. Empty: for all. Only Apache's configuration has such.
    pub local_addresses: Vec<SocketAddr>,
    /// Only on these listeners; empty: on all.
    pub listeners: Vec<Address>,
    /// Document root. `None` for a site of redirects alone.
    pub root: Option<PathBuf>,
    /// What is to be made of the name that was asked for.
    pub by_host: Option<ByHost>,
    pub access_logs: Vec<AccessLog>,
    /// In the place of the server's. Only Apache's configuration has such.
    pub error_log: Option<Arc<SiteLog>>,
    /// Of requests before and after they are served. Only Apache's configuration has such.
    pub forensic_log: Option<Arc<ForensicLog>>,
    /// As logs name it, where that is not its first name.
    pub canonical_name: Option<Arc<str>>,
    pub canonical_port: CanonicalPort,
    pub tls: Arc<SiteTls>,
    /// Of requests for it, and of connections to its address if it is the first there, where they
    /// are not the server's. Only Apache's configuration has such.
    pub limits: Option<Arc<Limits>>,
    /// Requests over plain HTTP are sent to HTTPS.
    pub https_redirect: Option<HttpsRedirect>,
    /// First match wins.
    pub routes: Arc<[Route]>,
    /// Where no route matches.
    pub settings: Arc<Settings>,
    pub origin: Origin,
}

impl Site {
    /// A site without names that serves nothing.
    pub fn new(origin: Origin) -> Site {
        Site {
            names: Vec::new(),
            patterns: Vec::new(),
            legacy_path: None,
            local_addresses: Vec::new(),
            listeners: Vec::new(),
            root: None,
            by_host: None,
            access_logs: Vec::new(),
            error_log: None,
            forensic_log: None,
            canonical_name: None,
            canonical_port: CanonicalPort::Local,
            tls: Arc::default(),
            limits: None,
            https_redirect: None,
            routes: Arc::default(),
            settings: Arc::default(),
            origin,
        }
    }
}

/// Where requests over plain HTTP are sent: same host, path and query. Not those for
/// `/.well-known/acme-challenge/`, which an authority asks over plain HTTP (RFC 8555 section 8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpsRedirect {
    pub status: Status,
    /// Of the first TLS listener on which the site is found; 443 is left out of the URL.
    pub port: u16,
}

/// What of the (normalised, decoded) path a route is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPattern {
    Exact(String),
    /// `/img/*` is kept as `/img/`.
    Prefix(String),
    /// `*.jpg` is kept as `.jpg`.
    Suffix(String),
    /// Any other use of `*` (which matches any run of bytes, slashes included): the literal pieces
    /// between the stars.
    Glob(Vec<String>),
}

impl PathPattern {
    /// The pattern that a text with stars stands for.
    pub fn new(text: &str) -> PathPattern {
        let pieces: Vec<String> = text.split('*').map(str::to_owned).collect();
        match pieces.as_slice() {
            [exact] => PathPattern::Exact(exact.clone()),
            [prefix, end] if end.is_empty() => PathPattern::Prefix(prefix.clone()),
            [start, suffix] if start.is_empty() => PathPattern::Suffix(suffix.clone()),
            _ => PathPattern::Glob(pieces),
        }
    }

    /// How many captures a match has.
    pub fn stars(&self) -> usize {
        match self {
            PathPattern::Exact(_) => 0,
            PathPattern::Prefix(_) | PathPattern::Suffix(_) => 1,
            PathPattern::Glob(pieces) => pieces.len().saturating_sub(1),
        }
    }

    /// Whether it matches; the captures are what the stars stood for.
    pub fn captures<'p>(&self, path: &'p [u8]) -> Option<Vec<&'p [u8]>> {
        match self {
            PathPattern::Exact(text) => (path == text.as_bytes()).then(Vec::new),
            PathPattern::Prefix(prefix) => {
                path.strip_prefix(prefix.as_bytes()).map(|rest| vec![rest])
            }
            PathPattern::Suffix(suffix) => {
                path.strip_suffix(suffix.as_bytes()).map(|rest| vec![rest])
            }
            PathPattern::Glob(pieces) => glob(pieces, path),
        }
    }
}

/// As it stands in a configuration.
impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathPattern::Exact(text) => f.write_str(text),
            PathPattern::Prefix(prefix) => write!(f, "{prefix}*"),
            PathPattern::Suffix(suffix) => write!(f, "*{suffix}"),
            PathPattern::Glob(pieces) => f.write_str(&pieces.join("*")),
        }
    }
}

/// Leftmost-shortest matching, which decides every pattern of literals and stars without going
/// back.
fn glob<'p>(pieces: &[String], path: &'p [u8]) -> Option<Vec<&'p [u8]>> {
    let (first, rest) = pieces.split_first()?;
    let mut left = path.strip_prefix(first.as_bytes())?;
    let (last, middle) = rest.split_last()?;
    let mut captures = Vec::with_capacity(rest.len());
    for piece in middle {
        let at = find(left, piece.as_bytes())?;
        captures.push(&left[..at]);
        left = &left[at + piece.len()..];
    }
    captures.push(left.strip_suffix(last.as_bytes())?);
    Some(captures)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() {
        return Some(0);
    }
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

#[derive(Clone, Debug)]
pub struct Route {
    pub pattern: PathPattern,
    pub action: Action,
    /// The site's settings with the route's laid over them.
    pub settings: Arc<Settings>,
    /// Clients are answered 404; it is for what the server itself leads there.
    pub is_internal: bool,
    pub origin: Origin,
}
