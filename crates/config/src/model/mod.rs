//! The typed model of a loaded configuration: one [`Model`], shared by all workers, never changed
//! after it is built.
//!
//! Called by: everything that serves requests.
//! Out of scope: how the model is read; `directives` and the Apache front end make it.

mod abuse;
mod access;
mod account;
mod action;
mod auth;
mod authorize;
mod bot_protection;
mod cache;
mod cluster;
mod console;
mod content;
mod discovery;
mod dynamic_vhosts;
mod health;
mod host_pattern;
mod limits;
mod link_protection;
mod listener;
mod live;
mod media;
mod modsecurity;
mod native_stream;
mod observability;
mod php;
mod proxy;
mod request_edits;
mod routes;
mod server;
mod session_variable;
mod settings;
mod site;
mod site_name;
mod stream;
mod throttle;
mod tls;
mod trusted_proxies;
mod upstream;
mod user_directories;
mod webdav;

pub use crate::origin::{Origin, Sourced};
pub use abuse::{Evasive, ServerGuard};
pub use access::{AccessControl, AccessRules, Addresses, Consequence};
pub use account::{Account, HostAccounts};
pub use action::{Action, Candidate, Fallback, Redirect, Rewrite, RewriteTarget};
pub use auth::{
    AuthRules, AuthScheme, IdentityFields, JwtRules, LdapRules, LdapScope, LocatedPath, OidcRules,
    Secret,
};
pub use authorize::Authorize;
pub use bot_protection::{CHALLENGE_PLACE, Challenge, LoginAction, Logins, Robots, Visitors};
pub use cache::{CacheOffer, CacheStore, CacheUse};
pub use cluster::{Cluster, ClusterDatabase, ClusterSecret, ClusterUrl, KeyPlaces, Peers, Shares};
pub use console::{Console, ConsoleOidc};
pub use content::ContentRules;
pub use discovery::{
    Discovered, DiscoveredServer, DiscoveryPort, DiscoverySource, DiscoveryState, DiscoveryTerms,
};
pub use dynamic_vhosts::{ByHost, DatabaseKind, DatabaseUrl, Hosts};
pub use health::{HealthAnswer, HealthCheck, HealthJudge, HealthMethod, MemberState, MemberTest};
pub use host_pattern::{HostPattern, is_plain_name};
pub use limits::{Limits, RepairedHeads};
pub use link_protection::{
    Links, ReferrerPattern, Referrers, Refusal, SignAlgorithm, SignForm, SignPart, SignedUrls,
    TokenForm, Trigger,
};
pub use listener::{Address, Congestion, Http3, Listener};
pub use live::{LiveRedirect, LiveRedirects};
pub use media::{FlvStart, Media, Mp4Start};
pub use modsecurity::{ModSecurity, ModSecurityMode, RulesText};
pub use native_stream::{
    Stream, StreamLog, StreamLogFormat, StreamLogPart, StreamLogValue, StreamRoute, StreamTarget,
};
pub use observability::{MetricsEndpoint, TraceTrust, Tracing};
pub use php::{Php, PhpKind, PhpModule, PhpPool, PhpPools, PhpProgram, PhpSet, PhpUse, PhpValue};
pub use proxy::{Mirror, Proxy, ProxyTerms, RequestFieldAction, RequestFieldEdit};
pub use request_edits::{Edits, RequestEdits};
pub use routes::{Route, Routes};
pub use saker_matchers::{Matcher, PathPattern, Template};
pub use saker_net::program::ProgramUser;
pub use server::{
    AccessLog, AccessLogTarget, Affinity, ErrorLog, LogCondition, LogLevel, LogMatcher, NamedLog,
    NamedSocket, Sandbox, Server, ShownRequests, Workers,
};
pub use session_variable::SessionVariable;
pub use settings::{CONDITIONALS_MAX, Conditional, SettingsChange};
pub use settings::{
    CodedTags, Compression, CompressionCoding, EntityTagParts, ErrorPage, FieldEdit,
    FieldEditAction, Files, Htaccess, ProgramVariable, RouteRoot, SendFiles, Settings,
    SymlinkPolicy, Underscores,
};
pub use site::{CanonicalPort, HttpsRedirect, IsByAddress, Site};
pub use site_name::SiteName;
pub use stream::{DatagramListener, PrefaceFrom, StreamServer};
pub use throttle::{
    Excess, KeyLimit, LimitKind, LimitName, LimitPlace, LimitPlaces, Rate, RequestRate, Throttle,
    limit_number, limit_place,
};
pub use tls::{
    Acme, AcmeChallenge, AcmeDirectory, AcmeProfile, Automatic, CertificateFiles, CipherOrder,
    CipherSuite, ClientCertificates, ClientChecks, DnsWords, ExternalAccount, Group,
    HandshakeCertificate, ListenerTls, OfServerName, Passphrase, PassphraseDialog, Revocation,
    ServerTls, SiteTls, Stapling, TlsVersion,
};
pub use trusted_proxies::TrustedProxies;
pub use upstream::{
    Activity, Backend, BackendAddress, BackendTls, Balance, Discovery, Epoch, Member, Protocol,
    Resends, Revision, Sticky, Through, Tuning, Upstream,
};
pub use user_directories::UserDirectories;
pub use webdav::{ContentTypes, WebDav, has_name_of_webdav, is_reserved_by_webdav};

use saker_ipset::{AddressList, GeoDatabase};
use saker_telemetry::access_log::Rotation;
use std::{net::SocketAddr, path::PathBuf, sync::Arc};

/// A complete configuration.
#[derive(Debug, Default)]
pub struct Model {
    pub server: Server,
    pub limits: Limits,
    pub tls: ServerTls,
    pub cache: CacheStore,
    pub cluster: Cluster,
    pub guard: ServerGuard,
    /// Files of addresses used by access rules, each once.
    pub address_lists: Vec<Arc<AddressList>>,
    /// Databases that locate addresses.
    pub geo_databases: Vec<Arc<GeoDatabase>>,
    pub metrics: MetricsEndpoint,
    pub tracing: Arc<Tracing>,
    pub console: Console,
    pub php: Php,
    pub hosts: Hosts,
    /// The PHP pools, once PHP has been looked for.
    pub php_pools: PhpPools,
    /// PHP values that rules are known to set.
    pub php_sets: Vec<PhpSet>,
    pub listeners: Vec<Listener>,
    /// UDP addresses of stream servers.
    pub datagrams: Vec<DatagramListener>,
    /// Streams of saker.toml, by the number of their servers.
    pub streams: Arc<[Stream]>,
    /// Logs of streams, whose rules write the lines.
    pub stream_logs: Vec<AccessLog>,
    /// Error logs that streams have of their own.
    pub stream_error_logs: Vec<Arc<saker_telemetry::error_log::SiteLog>>,
    /// In the order of the file; the first catch-all, or else the first site, serves unknown hosts.
    pub sites: Vec<Arc<Site>>,
    /// All upstreams that requests may go to, for health checks.
    pub upstreams: Vec<Arc<Upstream>>,
    /// Error logs and script logs, for `check`.
    pub named_logs: Vec<NamedLog>,
    /// Sockets of backends, for `check`.
    pub named_sockets: Vec<NamedSocket>,
    /// Every file that was read, for `check` and `explain`.
    pub sources: Vec<PathBuf>,
}

impl Model {
    /// The listener of a connection that came to a socket of `address`: the one with this address,
    /// or where a reload has moved it, the one that has the connection's own address now.
    pub fn listener_of(&self, address: &Address, local: SocketAddr) -> Option<&Listener> {
        let of = |address: &Address| self.listeners.iter().find(|one| one.address == *address);
        let local = || Address::Tcp(SocketAddr::new(local.ip().to_canonical(), local.port()));
        of(address).or_else(|| of(&local())).or_else(|| {
            let local = local();
            self.listeners.iter().find(|one| one.address.covers(&local))
        })
    }

    /// Returns whether anything uses the page cache, or may use it later.
    pub fn wants_cache(&self) -> bool {
        // A `.htaccess` file may switch it on.
        let uses = |settings: &Settings| settings.cache.is_on || settings.htaccess == Htaccess::On;
        self.cache.is_expected || self.all_settings().any(|(_, settings)| settings.may(uses))
    }

    /// Iterates over the access logs of sites and streams.
    pub fn access_logs(&self) -> impl Iterator<Item = &AccessLog> {
        let of_sites = self.sites.iter().flat_map(|site| &site.access_logs);
        of_sites.chain(&self.stream_logs)
    }

    /// Iterates over the error logs of sites and streams.
    pub fn error_logs(&self) -> impl Iterator<Item = &Arc<saker_telemetry::error_log::SiteLog>> {
        let of_sites = self.sites.iter().flat_map(|site| site.error_logs());
        of_sites.chain(&self.stream_error_logs)
    }

    /// The rotation of a log file, which several logs may share: the first that one of them has.
    pub fn rotation_of(&self, target: &AccessLogTarget) -> Option<Rotation> {
        let mut logs = self.access_logs().filter(|log| log.target == *target);
        logs.find_map(|log| log.rotation)
    }

    /// Iterates over the settings of all sites and routes.
    pub fn all_settings(&self) -> impl Iterator<Item = (&Site, &Settings)> {
        self.sites.iter().flat_map(|site| {
            let routes = site.routes.iter().map(|route| &*route.settings);
            std::iter::once(&*site.settings)
                .chain(routes)
                .map(|settings| (&**site, settings))
        })
    }
}
