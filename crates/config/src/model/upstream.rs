//! Programs and servers that answer in our place: what they speak, where they are, and which of
//! several is asked.
//!
//! Made by both front-ends (Apache's `ProxyPass`, `<Proxy balancer:>` and `SetHandler "proxy:…"`,
//! our own `[[upstream]]`), and by rules at the time of a request. Workers keep the state
//! (connections, failures) beside it, by [`Backend`] and by upstream.

use super::{CipherSuite, HealthCheck, Revocation, Standing};
use std::{
    fmt,
    hash::Hash,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

/// What a backend speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    Http1,
    Http2,
    FastCgi,
    Scgi,
    Uwsgi,
    Lsapi,
    Ajp,
}

impl Protocol {
    /// The scheme of Apache's worker URLs; `None`: not one of a gateway.
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

    /// The other way round.
    pub fn scheme(self, tls: bool) -> &'static str {
        match self {
            Protocol::Http1 => ["http", "https"][usize::from(tls)],
            Protocol::Http2 => ["h2c", "h2"][usize::from(tls)],
            Protocol::FastCgi => "fcgi",
            Protocol::Scgi => "scgi",
            Protocol::Uwsgi => "uwsgi",
            Protocol::Lsapi => "lsapi",
            Protocol::Ajp => "ajp",
        }
    }

    /// Where a URL names none.
    pub fn default_port(self, tls: bool) -> u16 {
        match self {
            Protocol::Http1 | Protocol::Http2 => [80, 443][usize::from(tls)],
            Protocol::FastCgi => 8000,
            Protocol::Scgi => 4000,
            Protocol::Uwsgi => 3031,
            Protocol::Lsapi => 9000,
            Protocol::Ajp => 8009,
        }
    }

    /// Programs get variables; servers get the request itself.
    pub fn takes_variables(self) -> bool {
        !matches!(self, Protocol::Http1 | Protocol::Http2 | Protocol::Ajp)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BackendAddress {
    Unix(PathBuf),
    /// A name is resolved anew when what is known of it is old.
    Tcp {
        host: Box<str>,
        port: u16,
    },
}

impl BackendAddress {
    /// `host`, `host:port` or `[::1]:port`; `None`: none of these.
    pub fn tcp(authority: &str, default_port: u16) -> Option<BackendAddress> {
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
            _ => (authority, default_port),
        };
        let is_host = !host.is_empty()
            && !host.contains(['@', '/', ' '])
            && (host.starts_with('[') == host.contains(':'));
        is_host.then(|| BackendAddress::Tcp {
            host: host.into(),
            port,
        })
    }
}

/// What is demanded of a backend under TLS.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BackendTls {
    /// Its certificate has to be of an authority that is trusted.
    pub verify: bool,
    /// It has to be for the backend's name.
    pub checks_name: bool,
    /// It has to be valid now.
    pub checks_time: bool,
    /// Files, and folders of them, instead of the system's authorities.
    pub authorities: Vec<PathBuf>,
    /// Whether lists of what authorities have revoked are looked at; only Apache's configuration
    /// has such.
    pub revocation: Revocation,
    /// Files of such lists, and folders of them.
    pub revocation_lists: Vec<PathBuf>,
    /// Certificate and key shown to it.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Server name of the handshake, where it is not the host of the address.
    pub name: Option<Box<str>>,
    /// Empty: what is usual.
    pub ciphers: Vec<CipherSuite>,
    pub without_tls12: bool,
    pub without_tls13: bool,
}

/// The whole check.
impl Default for BackendTls {
    fn default() -> BackendTls {
        BackendTls {
            verify: true,
            checks_name: true,
            checks_time: true,
            authorities: Vec::new(),
            revocation: Revocation::Off,
            revocation_lists: Vec::new(),
            identity: None,
            name: None,
            ciphers: Vec::new(),
            without_tls12: false,
            without_tls13: false,
        }
    }
}

/// One place where something listens. Equal ones share connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Backend {
    pub protocol: Protocol,
    pub address: BackendAddress,
    pub tls: Option<BackendTls>,
    /// Another proxy on the way; only Apache's configuration has such.
    pub through: Option<Arc<Through>>,
}

/// A proxy that a backend is reached through: over a tunnel (RFC 9110 section 9.3.6) where TLS is
/// spoken with it, else by its whole URL.
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

/// Counts how often what listens was replaced: connections to an earlier one are not used again.
/// Shared by whoever replaces it with all workers.
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

/// How connections to a backend are handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    pub connect_timeout_ms: u64,
    /// Without a byte in either direction.
    pub timeout_ms: u64,
    /// Idle connections kept per worker; 0: one per request.
    pub kept_max: usize,
    /// An idle one is closed after this.
    pub kept_ms: u64,
    /// Managed php-fpm: processes are started when connections come, and those that come at once
    /// may count as one.
    pub forks_on_demand: bool,
    /// Connections of the whole process; 0: no limit.
    pub connections_max: usize,
    /// Requests of the whole process that wait for a connection to come free.
    pub queue_max: usize,
    pub queue_timeout_ms: u64,
    /// After a failure it is left alone for this long, if there are others.
    pub retry_ms: u64,
    /// What is known of its name's addresses is asked for again after this.
    pub address_ttl_ms: u64,
    /// What the response may be ahead of the client before the backend is made to wait: in memory,
    /// then on disk.
    pub buffer_memory_bytes: usize,
    pub buffer_disk_bytes: u64,
    /// Requests whose content is no longer are here whole before it is asked, so that a slow client
    /// holds none of its processes.
    pub request_ahead_bytes: u64,
    /// Of managed programs; stands still for others.
    pub epoch: Epoch,
    /// Where somebody wants to know when it was asked last.
    pub activity: Option<Activity>,
    /// AJP.
    pub secret: Option<Box<str>>,
    /// HTTP/1.1 with content, and AJP: it is asked whether it is ready first, and has this long to
    /// say so.
    pub ping_ms: Option<u64>,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            connect_timeout_ms: 10_000,
            timeout_ms: 60_000,
            kept_max: 32,
            kept_ms: 30_000,
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
            secret: None,
            ping_ms: None,
        }
    }
}

/// Requests under way at a backend, and when the last one came or went; of all workers.
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

    /// Since when nobody has asked; `None`: somebody does.
    pub fn idle_since_ms(&self) -> Option<u64> {
        (self.0.0.load(Ordering::Relaxed) == 0).then(|| self.0.1.load(Ordering::Relaxed))
    }
}

/// As of an [`Epoch`]: which one it is, not what it says.
impl PartialEq for Activity {
    fn eq(&self, other: &Activity) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Activity {}

/// One of several that do the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub backend: Arc<Backend>,
    pub tuning: Arc<Tuning>,
    /// Path of its URL, without a slash at the end; goes before what is left of the request's path.
    pub path: Box<str>,
    /// Its share, in hundredths.
    pub weight: u32,
    /// What a session's cookie names it by.
    pub route: Option<Box<str>>,
    pub redirect: Option<Box<str>>,
    /// Host (and port) that a server is asked for, where the client's own is not passed on.
    pub authority: Box<str>,
    /// Asked when no other can be.
    pub is_standby: bool,
    /// Stands in for a member that can't be asked, one for one.
    pub is_spare: bool,
    /// Of those that can be asked, the lowest set that has some is (Apache's lbset).
    pub set: u32,
    /// Not asked at all, or (drained) only for its sessions.
    pub is_disabled: bool,
    pub is_draining: bool,
    /// Failures don't count.
    pub ignores_errors: bool,
    /// Made of it again and again.
    pub health: Option<Arc<HealthCheck>>,
    pub standing: Standing,
}

impl Member {
    pub fn new(backend: Backend, tuning: Tuning) -> Member {
        Member {
            backend: Arc::new(backend),
            tuning: Arc::new(tuning),
            path: "".into(),
            authority: "".into(),
            weight: 100,
            route: None,
            redirect: None,
            is_standby: false,
            is_spare: false,
            set: 0,
            is_disabled: false,
            is_draining: false,
            ignores_errors: false,
            health: None,
            standing: Standing::default(),
        }
    }
}

/// Who is asked next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// By share of requests (Apache's byrequests; weighted round robin).
    #[default]
    Requests,
    /// By share of bytes.
    Traffic,
    /// The one with the fewest requests under way (bybusyness, least connections).
    Busyness,
    /// The less busy of two picked at random.
    RandomTwo,
    /// The same client address, the same member.
    ClientAddress,
    /// The same path and query, the same member.
    Target,
}

/// How a session is kept at its member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sticky {
    /// Name of the cookie, and of the path parameter.
    pub cookie: Box<str>,
    pub parameter: Box<str>,
    /// Between session and route.
    pub separator: Option<u8>,
    /// A semicolon ends the parameter in the path, too.
    pub semicolon_delimits: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// As the configuration calls it.
    pub name: Box<str>,
    pub members: Vec<Member>,
    pub balance: Balance,
    pub sticky: Option<Sticky>,
    /// A session whose member can't be asked is refused rather than given to another.
    pub is_bound: bool,
    /// Further members tried after one could not be reached; `None`: all of them.
    pub attempts_max: Option<usize>,
    /// Responses with these count as failures of the member.
    pub failure_statuses: Vec<u16>,
    /// So does silence beyond the time limit.
    pub fails_on_timeout: bool,
    /// For a free member this long, when none can be asked.
    pub wait_ms: u64,
    /// Its responses may lead to other paths of ours; `None`: those of programs may.
    pub internal_redirects: Option<bool>,
    /// A member that comes back gets its share little by little, in this time.
    pub slow_start_ms: u64,
    /// Failures in a row after which a member is left alone.
    pub failures_max: u32,
    /// Requests are refused while all members are left alone, instead of trying one of them all the
    /// same.
    pub breaks: bool,
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
            failure_statuses: Vec::new(),
            fails_on_timeout: true,
            wait_ms: 0,
            internal_redirects: None,
            slow_start_ms: 0,
            failures_max: 1,
            breaks: false,
        }
    }
}
