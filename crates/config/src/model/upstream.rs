//! Upstreams: protocols, addresses, load balancing.
//!
//! Called by: both front ends (Apache's `ProxyPass`, `<Proxy balancer:>` and `SetHandler
//! "proxy:…"`; `[[upstream]]`), and rules at request time. Workers keep the state (connections,
//! failures) separately, by [`Backend`] and by upstream.

use super::{CipherSuite, DiscoveryTerms, HealthCheck, MemberState, Revocation};
use saker_net::proxy_preface::PrefaceVersion;
use std::{
    fmt,
    hash::Hash,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

/// Protocol of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    Http1,
    Http2,
    FastCgi,
    Scgi,
    Uwsgi,
    Lsapi,
    Ajp,
    /// Streams over TCP, which speak any protocol.
    Bytes,
    /// Streams over UDP.
    Datagrams,
    Memcached,
}

impl Protocol {
    /// Parses the scheme of Apache's worker URLs; `None`: unknown.
    pub fn from_scheme(scheme: &str) -> Option<(Protocol, bool)> {
        Some(match scheme.to_ascii_lowercase().as_str() {
            "http" | "ws" => (Protocol::Http1, false),
            "https" | "wss" => (Protocol::Http1, true),
            "h2c" => (Protocol::Http2, false),
            "h2" => (Protocol::Http2, true),
            "fcgi" => (Protocol::FastCgi, false),
            "scgi" => (Protocol::Scgi, false),
            "uwsgi" => (Protocol::Uwsgi, false),
            "lsapi" => (Protocol::Lsapi, false),
            "ajp" => (Protocol::Ajp, false),
            _ => return None,
        })
    }

    /// The scheme of a protocol.
    pub fn scheme(self, tls: bool) -> &'static str {
        match self {
            Protocol::Http1 => ["http", "https"][usize::from(tls)],
            Protocol::Http2 => ["h2c", "h2"][usize::from(tls)],
            Protocol::FastCgi => "fcgi",
            Protocol::Scgi => "scgi",
            Protocol::Uwsgi => "uwsgi",
            Protocol::Lsapi => "lsapi",
            Protocol::Ajp => "ajp",
            Protocol::Bytes => ["tcp", "tls"][usize::from(tls)],
            Protocol::Datagrams => "udp",
            Protocol::Memcached => "memcached",
        }
    }

    /// Port of URLs without one.
    pub fn default_port(self, tls: bool) -> u16 {
        match self {
            Protocol::Http1 | Protocol::Http2 => [80, 443][usize::from(tls)],
            Protocol::FastCgi => 8000,
            Protocol::Scgi => 4000,
            Protocol::Uwsgi => 3031,
            Protocol::Lsapi => 9000,
            Protocol::Ajp => 8009,
            // Addresses of streams have a port.
            Protocol::Bytes | Protocol::Datagrams => 0,
            Protocol::Memcached => 11_211,
        }
    }

    /// Streams use it, and no request can.
    pub fn is_of_streams(self) -> bool {
        matches!(self, Protocol::Bytes | Protocol::Datagrams)
    }

    /// Programs get variables; HTTP servers get the request itself.
    pub fn takes_variables(self) -> bool {
        !matches!(
            self,
            Protocol::Http1
                | Protocol::Http2
                | Protocol::Ajp
                | Protocol::Bytes
                | Protocol::Datagrams
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BackendAddress {
    Unix(PathBuf),
    /// A name is resolved again when its addresses expire.
    Tcp {
        host: Box<str>,
        port: u16,
    },
}

impl BackendAddress {
    /// Parses `host`, `host:port` or `[::1]:port`; `None`: invalid.
    pub fn tcp(authority: &str, default_port: u16) -> Option<BackendAddress> {
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
            _ => (authority, default_port),
        };
        let is_host = !host.is_empty()
            && !host.contains(['@', '/', ' '])
            && host.starts_with('[') == host.contains(':')
            && host.starts_with('[') == host.ends_with(']');
        is_host.then(|| BackendAddress::Tcp {
            host: host.into(),
            port,
        })
    }
}

/// Requirements on a backend's TLS.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BackendTls {
    /// The certificate must be issued by a trusted authority.
    pub verify: bool,
    /// The certificate must match the backend's name.
    pub checks_name: bool,
    /// The certificate must be valid now.
    pub checks_time: bool,
    /// Files and directories of CA certificates, instead of the system's.
    pub authorities: Vec<PathBuf>,
    /// Maximum depth of the chain: 1 is a certificate issued directly by a CA. Set by nginx's
    /// configuration only.
    pub depth_max: Option<u32>,
    /// Revocation checks; set by Apache's configuration only.
    pub revocation: Revocation,
    /// Files and directories of revocation lists.
    pub revocation_lists: Vec<PathBuf>,
    /// Client certificate and key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// A file with passphrases for the key, one a line.
    pub passphrases: Option<PathBuf>,
    /// Server name of the handshake, if not the host of the address.
    pub name: Option<Box<str>>,
    /// Empty: defaults.
    pub ciphers: Vec<CipherSuite>,
    pub without_tls12: bool,
    pub without_tls13: bool,
    /// The handshake names the server (RFC 6066 section 3).
    pub sends_name: bool,
    /// Later connections resume the session.
    pub resumes: bool,
}

/// Verifies everything.
impl Default for BackendTls {
    fn default() -> BackendTls {
        BackendTls {
            verify: true,
            checks_name: true,
            checks_time: true,
            authorities: Vec::new(),
            depth_max: None,
            revocation: Revocation::Off,
            revocation_lists: Vec::new(),
            identity: None,
            passphrases: None,
            name: None,
            ciphers: Vec::new(),
            without_tls12: false,
            without_tls13: false,
            sends_name: true,
            resumes: true,
        }
    }
}

/// A backend server. Equal ones share connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Backend {
    pub protocol: Protocol,
    pub address: BackendAddress,
    pub tls: Option<BackendTls>,
    /// A forward proxy on the way; set by Apache's configuration only.
    pub through: Option<Arc<Through>>,
    /// The address that connections leave from; port 0: any.
    pub local: Option<SocketAddr>,
    /// The kernel looks from time to time whether the other end is there.
    pub keeps_alive: bool,
    /// The group that shares connections with no other one; `None`: all share them.
    pub group: Option<Box<str>>,
    /// PHP of the server's own, which serves several sites: its settings come from the server alone,
    /// never from variables of rules, and no rules lead to it by its socket's name.
    pub is_own_php: bool,
}

/// A proxy through which a backend is reached: by a tunnel (RFC 9110 section 9.3.6) with TLS, by
/// absolute URLs without.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Through {
    pub host: Box<str>,
    pub port: u16,
    /// The value of Proxy-Authorization.
    pub authorization: Option<Box<str>>,
}

impl Backend {
    pub fn new(protocol: Protocol, address: BackendAddress) -> Backend {
        Backend {
            protocol,
            address,
            tls: None,
            through: None,
            local: None,
            keeps_alive: false,
            group: None,
            is_own_php: false,
        }
    }

    pub fn scheme(&self) -> &'static str {
        self.protocol.scheme(self.tls.is_some())
    }
}

/// For logs.
impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            BackendAddress::Unix(path) => write!(f, "{} at unix:{}", self.scheme(), path.display()),
            BackendAddress::Tcp { host, port } => write!(f, "{}://{host}:{port}", self.scheme()),
        }
    }
}

/// Counts replacements of a backend process: connections to an earlier one are not reused. Shared
/// by all workers.
#[derive(Clone, Debug, Default)]
pub struct Epoch(Arc<AtomicU32>);

impl Epoch {
    pub fn now(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn advance(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl PartialEq for Epoch {
    fn eq(&self, other: &Epoch) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Epoch {}

/// Connection settings of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    pub connect_timeout_ms: u64,
    /// Maximum time without a byte in either direction.
    pub timeout_ms: u64,
    /// Idle connections kept per worker; 0: one per request.
    pub kept_max: usize,
    /// Idle time after which a connection is closed.
    pub kept_ms: u64,
    /// Requests that a connection serves; 0: no limit.
    pub requests_per_connection_max: u64,
    /// Age beyond which a connection serves no further request; 0: no limit.
    pub connection_age_ms_max: u64,
    /// Fields of a response's head; 0: as many as the protocol's reader takes.
    pub response_head_bytes_max: u64,
    /// HTTP/1: requests are sent in HTTP/1.0, on a connection of their own.
    pub is_http10: bool,
    /// For managed php-fpm: processes are started when connections arrive, and several that arrive
    /// at once may count as one.
    pub forks_on_demand: bool,
    /// Connections of the whole process; 0: no limit.
    pub connections_max: usize,
    /// Requests of the whole process that wait for a connection.
    pub queue_max: usize,
    pub queue_timeout_ms: u64,
    /// Time that a failed backend is not used if there are others.
    pub retry_ms: u64,
    /// Interval of DNS lookups.
    pub address_ttl_ms: u64,
    /// Bytes that a response may be ahead of the client before the backend has to wait: in memory,
    /// then on disk.
    pub buffer_memory_bytes: usize,
    pub buffer_disk_bytes: u64,
    /// Request bodies up to this size are buffered before the backend is used, so that a slow
    /// client occupies none of its processes.
    pub request_ahead_bytes: u64,
    /// Changes for managed programs only.
    pub epoch: Epoch,
    /// Set if the last use has to be known.
    pub activity: Option<Activity>,
    /// The PROXY protocol header that each connection begins with; then each request has its own.
    pub proxy_preface: Option<PrefaceVersion>,
    /// AJP.
    pub secret: Option<Box<str>>,
    /// FastCGI: texts in the error stream, ahead of the response, that make the response an invalid
    /// one.
    pub caught_errors: Arc<[Box<str>]>,
    /// uwsgi: the first and the last byte of the head of a request.
    pub modifiers: (u8, u8),
    /// HTTP/1.1 with a body, and AJP: timeout of the readiness check (Expect: 100-continue, CPing)
    /// sent first.
    pub ping_ms: Option<u64>,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            connect_timeout_ms: 10_000,
            timeout_ms: 60_000,
            // As many as a load needs: their idle time is what bounds them.
            kept_max: 1024,
            kept_ms: 30_000,
            requests_per_connection_max: 0,
            connection_age_ms_max: 0,
            response_head_bytes_max: 0,
            is_http10: false,
            forks_on_demand: false,
            connections_max: 0,
            queue_max: 1024,
            queue_timeout_ms: 30_000,
            retry_ms: 10_000,
            address_ttl_ms: 10_000,
            buffer_memory_bytes: 256 << 10,
            buffer_disk_bytes: 1 << 30,
            request_ahead_bytes: 0,
            epoch: Epoch::default(),
            activity: None,
            proxy_preface: None,
            secret: None,
            caught_errors: Arc::default(),
            modifiers: (0, 0),
            ping_ms: None,
        }
    }
}

/// Active requests at a backend, and when the last one started or ended; of all workers.
#[derive(Clone, Debug)]
pub struct Activity(Arc<(AtomicU32, AtomicU64)>);

impl Default for Activity {
    fn default() -> Activity {
        Activity(Arc::new((
            AtomicU32::new(0),
            AtomicU64::new(saker_net::clock::monotonic_ms()),
        )))
    }
}

impl Activity {
    pub fn begin(&self, now_ms: u64) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
        self.0.1.store(now_ms, Ordering::Relaxed);
    }

    pub fn end(&self, now_ms: u64) {
        self.0.1.store(now_ms, Ordering::Relaxed);
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns since when it is idle; `None`: it is in use.
    pub fn idle_since_ms(&self) -> Option<u64> {
        (self.0.0.load(Ordering::Relaxed) == 0).then(|| self.0.1.load(Ordering::Relaxed))
    }
}

/// Like [`Epoch`]: compares by identity, not by value.
impl PartialEq for Activity {
    fn eq(&self, other: &Activity) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Activity {}

/// One of several equivalent servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub backend: Arc<Backend>,
    pub tuning: Arc<Tuning>,
    /// Path of its URL, without a trailing slash; prepended to the rest of the request's path.
    pub path: Box<str>,
    /// Its URL has a path, perhaps `/` alone, which replaces the beginning of a route's paths; set
    /// by saker.toml only.
    pub names_path: bool,
    /// Weight, in hundredths.
    pub weight: u32,
    /// Name in session cookies.
    pub route: Option<Box<str>>,
    pub redirect: Option<Box<str>>,
    /// Host (and port) to send if the client's is not forwarded.
    pub authority: Box<str>,
    /// Used only if no other is available.
    pub is_standby: bool,
    /// Replaces one unavailable member.
    pub is_spare: bool,
    /// The lowest set with an available member is used (Apache's lbset).
    pub set: u32,
    /// Not used at all, or (drained) only for its sessions.
    pub is_disabled: bool,
    /// The same, by another word of Apache's.
    pub is_stopped: bool,
    pub is_draining: bool,
    /// Failures are ignored.
    pub ignores_errors: bool,
    /// Active health check.
    pub health: Option<Arc<HealthCheck>>,
    /// Its bytes are counted, for Apache's balancer-manager.
    pub counts_bytes: bool,
    pub state: MemberState,
}

impl Member {
    pub fn new(backend: Backend, tuning: Tuning) -> Member {
        Member {
            backend: Arc::new(backend),
            tuning: Arc::new(tuning),
            path: "".into(),
            names_path: false,
            authority: "".into(),
            weight: 100,
            route: None,
            redirect: None,
            is_standby: false,
            is_spare: false,
            set: 0,
            is_disabled: false,
            is_stopped: false,
            is_draining: false,
            ignores_errors: false,
            health: None,
            counts_bytes: false,
            state: MemberState::default(),
        }
    }

    /// Its URL, as status reports write it.
    pub fn address(&self) -> String {
        format!("{}{}", self.backend, self.path)
    }

    /// Returns true if it gets nothing but requests of sessions that are bound to it.
    pub fn drains(&self) -> bool {
        self.is_draining || self.state.is_drained()
    }

    /// Weight in force, in hundredths.
    pub fn weight_now(&self) -> u32 {
        self.state.weight().unwrap_or(self.weight)
    }

    /// Returns true if the configuration, or an administrator, has taken it out.
    pub fn is_out(&self) -> bool {
        self.is_disabled || self.is_stopped
    }
}

/// Load balancing method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// By weight and number of requests (Apache's byrequests; weighted round robin).
    #[default]
    Requests,
    /// By weight and bytes transferred.
    Traffic,
    /// The member with the fewest active requests (bybusyness, least connections).
    Busyness,
    /// The less loaded of two picked at random.
    RandomTwo,
    /// By client address.
    ClientAddress,
    /// By path and query.
    Target,
    /// By weight, at random.
    Random,
    /// By a key that rules give for each request: by shares of weight.
    Key,
    /// The same, on a ring, where another member moves few keys.
    KeyRing,
    /// By the network of the client's address.
    ClientNetwork,
}

/// Sticky sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sticky {
    /// Name of the cookie, and of the path parameter.
    pub cookie: Box<str>,
    pub parameter: Box<str>,
    /// Separates session and route.
    pub separator: Option<u8>,
    /// A semicolon also ends the parameter in the path.
    pub semicolon_delimits: bool,
}

/// Requests that are sent to another member although one may have carried them out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resends {
    #[default]
    None,
    /// Those whose method is idempotent (RFC 9110 section 9.2.2).
    Idempotent,
    All,
}

/// The upstream that is used in place of the one that has this: with servers that were found, or that
/// an operator has added or removed. It is no part of what makes two upstreams equal.
#[derive(Clone, Debug, Default)]
pub struct Revision(Arc<(AtomicBool, RwLock<Option<Arc<Upstream>>>)>);

impl Revision {
    /// `None`: the configuration's is used.
    pub fn set(&self, revised: Option<Arc<Upstream>>) {
        let is_revised = revised.is_some();
        *self.0.1.write().unwrap_or_else(PoisonError::into_inner) = revised;
        self.0.0.store(is_revised, Ordering::Release);
    }

    pub fn get(&self) -> Option<Arc<Upstream>> {
        if !self.0.0.load(Ordering::Acquire) {
            return None;
        }
        let revised = self.0.1.read().unwrap_or_else(PoisonError::into_inner);
        revised.clone()
    }
}

impl PartialEq for Revision {
    fn eq(&self, _: &Revision) -> bool {
        true
    }
}

impl Eq for Revision {}

/// Servers of an upstream that a source names while the server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    pub terms: DiscoveryTerms,
    /// The server of the source's API; `None`: the source is DNS.
    pub api: Option<Arc<Member>>,
    /// A server with the settings that all discovered ones have.
    pub template: Member,
    /// The upstream with the servers that were found.
    pub found: Revision,
}

/// For logs and status reports.
impl fmt::Display for Discovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.api {
            Some(api) => write!(f, "{} at {}", self.terms.source, api.backend),
            None => write!(f, "{}", self.terms.source),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// As written in the configuration.
    pub name: Box<str>,
    pub members: Vec<Member>,
    pub balance: Balance,
    pub sticky: Option<Sticky>,
    /// A session whose member is unavailable is refused instead of moved.
    pub is_bound: bool,
    /// Further members to try if connecting fails; `None`: all of them.
    pub attempts_max: Option<usize>,
    /// Time after which no further member is tried; `None`: no limit.
    pub attempts_ms: Option<u64>,
    /// Statuses that count as failures of the member.
    pub failure_statuses: Vec<u16>,
    /// Statuses with which another member is asked, if the request may be repeated.
    pub retried_statuses: Vec<u16>,
    /// Requests that may be repeated once a member has got them.
    pub resends: Resends,
    /// A timeout counts as a failure too.
    pub fails_on_timeout: bool,
    /// Time to wait for a member if none is available.
    pub wait_ms: u64,
    /// Allows internal redirects by responses; `None`: for programs only.
    pub internal_redirects: Option<bool>,
    /// Time over which a recovered member's share grows.
    pub slow_start_ms: u64,
    /// Consecutive failures after which a member is not used for a while.
    pub failures_max: u32,
    /// Refuses requests while no member is available, instead of trying one anyway.
    pub breaks: bool,
    /// Servers besides `members`.
    pub discovery: Option<Arc<Discovery>>,
    /// The upstream with the servers that were found, and that an operator has added or removed.
    pub revision: Revision,
    /// Takes the place of this one for content that a program might leave unread, to be run as its
    /// next request: its processes serve one request each (managed lsphp).
    pub alone: Option<Arc<Upstream>>,
}

impl Upstream {
    pub fn new(name: &str, members: Vec<Member>) -> Upstream {
        Upstream {
            name: name.into(),
            members,
            balance: Balance::default(),
            sticky: None,
            is_bound: false,
            attempts_max: None,
            attempts_ms: None,
            failure_statuses: Vec::new(),
            retried_statuses: Vec::new(),
            resends: Resends::None,
            fails_on_timeout: true,
            wait_ms: 0,
            internal_redirects: None,
            slow_start_ms: 0,
            failures_max: 1,
            breaks: false,
            discovery: None,
            revision: Revision::default(),
            alone: None,
        }
    }

    /// The upstream with the servers that were found, without the changes of an operator. `None`:
    /// nothing was found yet, or it has no discovery.
    pub fn discovered(&self) -> Option<Arc<Upstream>> {
        self.discovery.as_ref()?.found.get()
    }

    /// Iterates over servers with all settings that members may have: those of the configuration,
    /// and the one that stands for those that are found.
    pub fn templates(&self) -> impl Iterator<Item = &Member> {
        let found = self.discovery.as_ref().map(|found| &found.template);
        self.members.iter().chain(found)
    }

    /// The upstream as it is used now.
    pub fn current(self: &Arc<Self>) -> Arc<Upstream> {
        let now = self.revision.get().or_else(|| self.discovered());
        now.unwrap_or_else(|| Arc::clone(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_used_until_it_is_taken_back() {
        let upstream = Arc::new(Upstream::new("app", Vec::new()));
        assert!(Arc::ptr_eq(&upstream.current(), &upstream));
        let revised = Arc::new(Upstream::new("app", Vec::new()));
        upstream.revision.set(Some(Arc::clone(&revised)));
        assert!(Arc::ptr_eq(&upstream.current(), &revised));
        upstream.revision.set(None);
        assert!(Arc::ptr_eq(&upstream.current(), &upstream));
    }
}
