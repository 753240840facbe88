//! A request to an upstream: target, options, and parameters of programs.
//!
//! Called by: phases (the rules of front ends) and handlers, which build it; the gateway, which
//! carries it out. Rules leave it in [`UpstreamState::call`](crate::UpstreamState::call).
//! Caveat: it is incomplete without its exchange.
//! Out of scope: everything that the exchange already has (fields, client, environment variables).

use crate::script_log::ScriptLog;
use saker_cgi::Variables;
use saker_config::model::{PhpValue, ProgramUser, ProxyTerms, SendFiles, Upstream};
use std::{borrow::Cow, num::NonZeroU64, path::PathBuf, sync::Arc, time::Duration};

#[derive(Clone)]
pub struct UpstreamRequest {
    pub to: UpstreamTarget,
    /// Path and query as sent to the upstream, escaped.
    pub target: Vec<u8>,
    /// Parameters of FastCGI, SCGI, and CGI programs; `None` for HTTP upstreams.
    pub script: Option<Box<Script>>,
    pub manner: Arc<ProxyOptions>,
    pub names: CallNames,
}

/// Names of this server for one request; empty if the options do not use them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallNames {
    /// `scheme://name:port`, for URLs that point back to this server.
    pub origin: Vec<u8>,
    /// The name in `Via`.
    pub via: Vec<u8>,
    /// Beginning of the request's path that the upstream does not see, and what it sees instead
    /// behind the path of its URL; without trailing slashes. Native proxy routes only.
    pub public_prefix: Box<str>,
    pub added_prefix: Box<str>,
    /// Dot segments came to be where the public prefix was cut off: such a path could lead out of
    /// the path of the upstream's URL, and is not forwarded.
    pub leads_out: bool,
}

impl UpstreamRequest {
    /// Returns the configured name of the upstream; empty for a CGI program.
    pub fn upstream_name(&self) -> &str {
        match &self.to {
            UpstreamTarget::Upstream(upstream) => &upstream.name,
            UpstreamTarget::Process(_) => "",
        }
    }
}

#[derive(Clone)]
pub enum UpstreamTarget {
    Upstream(Arc<Upstream>),
    /// A CGI program, started for this request.
    Process(Arc<ProcessManner>),
}

/// Parameters of a program (RFC 3875, and Apache's additions) that are not in the exchange.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The script, or the file that the program uses in its place.
    pub filename: Vec<u8>,
    /// The file name is prefixed with the balancer member (`proxy:fcgi://member/…`), and the
    /// variables of mod_proxy_balancer are set.
    pub names_member: bool,
    /// Decoded path of the request, including the path info.
    pub path: Vec<u8>,
    /// The part of the path after the script (PATH_INFO).
    pub path_info: Vec<u8>,
    /// The file that the path info maps to (PATH_TRANSLATED).
    pub path_translated: Option<Vec<u8>>,
    pub document_root: Vec<u8>,
    pub context_prefix: Vec<u8>,
    /// Empty: the document root.
    pub context_document_root: Vec<u8>,
    pub server_name: Vec<u8>,
    pub server_port: u16,
    pub server_admin: Option<Box<str>>,
    pub server_signature: Vec<u8>,
    pub server_software: Cow<'static, [u8]>,
    /// `Basic` or `Digest` if a user is authenticated.
    pub auth_type: Option<Box<str>>,
    /// Passes the credentials, too (Apache's CGIPassAuth).
    pub passes_authorization: bool,
    /// Path of the request that was redirected to this one (REDIRECT_URL).
    pub redirect_url: Option<Vec<u8>>,
    pub redirect_query: Option<Vec<u8>>,
    /// The response is included in a page.
    pub is_included: bool,
    /// The program only authorizes the request (FastCGI 1.0 section 6.3, Authorizer).
    pub is_authorizer: bool,
    /// PHP settings passed with the request (PHP_VALUE, PHP_ADMIN_VALUE).
    pub php: Vec<PhpValue>,
    /// Variables that override all others of the same name (ProxyFCGISetEnvIf).
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// The exchange has a final adjustment of the variables
    /// ([`VariableAdjustment`](crate::VariableAdjustment)).
    pub is_adjusted: bool,
    /// All that the program is told, in place of everything above.
    pub parameters: Option<Parameters>,
}

/// Parameters that rules have made for a request (`fastcgi_param`).
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    pub values: Variables,
    /// Fields of the request become variables in front of them, but for those that `values` has, and
    /// those of `left_out`.
    pub passes_fields: bool,
    /// Variables of fields (`HTTP_…`) that are set only if they are not empty.
    pub left_out: Vec<Box<[u8]>>,
}

/// Options for proxying, shared by all requests of a configuration section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyOptions {
    /// Sends the client's Host instead of the upstream's (ProxyPreserveHost).
    pub preserves_host: bool,
    /// The TLS handshake names the host of the client's Host, too.
    pub names_tls_by_host: bool,
    /// The name of the upstream in the TLS handshake, where the rules give one for the request.
    pub tls_name: Option<Box<str>>,
    /// Adds X-Forwarded-For, -Host, and -Server (ProxyAddHeaders).
    pub adds_forwarded: bool,
    /// Sets X-Forwarded-Proto, replacing the value that the client sent.
    pub tells_scheme: bool,
    /// Replaces error responses with error documents (ProxyErrorOverride): those in `overridden`,
    /// or all if that is empty.
    pub overrides_errors: bool,
    pub overridden: Vec<u16>,
    pub via: Via,
    /// Overrides the timeout of the upstream.
    pub timeout: Option<Duration>,
    /// Bytes of content per second that are read from the upstream.
    pub read_rate: Option<NonZeroU64>,
    /// Streams the response without buffering: a slow client blocks the upstream.
    pub is_unbuffered: bool,
    /// Trailers of the response don't get to the client.
    pub drops_trailers: bool,
    /// Buffers the whole request body before the upstream is contacted.
    pub spools_request: bool,
    /// Lets the program finish if the client disconnects.
    pub outlives_client: bool,
    /// Rewrites of response fields (ProxyPassReverse).
    pub reverse: Vec<Reverse>,
    pub reverse_cookie_paths: Vec<(Box<str>, Box<str>)>,
    pub reverse_cookie_domains: Vec<(Box<str>, Box<str>)>,
    /// Handles a Location without a status: a URL is a redirect to the client, and a local path is
    /// an internal redirect (RFC 3875 section 6.2).
    pub follows_locations: bool,
    /// Passes a program's `Last-Modified` on as it is, if it is no date as well (nginx).
    pub keeps_dates: bool,
    /// Protocols that a client may upgrade to (`Upgrade`).
    pub upgrades: Upgrades,
    /// Fields of FastCGI and SCGI programs stay where an error document replaces their content.
    pub keeps_program_fields: bool,
    /// Answers in Apache's statuses if an HTTP upstream can't be reached in time (503) or says
    /// nothing in time (502), where it is 504 otherwise.
    pub has_apaches_statuses: bool,
    /// As nginx: content of unknown length is sent as such, even if it is here already; a redirect
    /// that can't be followed is left to the rules ([`UpstreamState::refused_redirect`]).
    ///
    /// [`UpstreamState::refused_redirect`]: crate::UpstreamState::refused_redirect
    pub is_like_nginx: bool,
    /// The name of this server in Via and X-Forwarded-Server.
    pub server_name: Box<str>,
    /// Response fields that control this server.
    pub trust: Trust,
    /// Options of a native proxy route.
    pub terms: Option<Arc<ProxyTerms>>,
}

/// Protocols that requests to an upstream may upgrade to (RFC 9110 section 7.8). Other versions of
/// HTTP are never among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Upgrades {
    #[default]
    None,
    Any,
    Named(Arc<[Box<str>]>),
}

impl Upgrades {
    /// True if `protocol` is one of them; names are compared without case, and with their version.
    pub fn allows(&self, protocol: &[u8]) -> bool {
        match self {
            Upgrades::None => false,
            Upgrades::Any => true,
            Upgrades::Named(names) => names
                .iter()
                .any(|name| name.as_bytes().eq_ignore_ascii_case(protocol)),
        }
    }

    /// The protocols of both.
    pub fn or(&self, other: &Upgrades) -> Upgrades {
        match (self, other) {
            (Upgrades::Any, _) | (_, Upgrades::Any) => Upgrades::Any,
            (Upgrades::None, one) | (one, Upgrades::None) => one.clone(),
            (Upgrades::Named(one), Upgrades::Named(two)) => {
                Upgrades::Named(one.iter().chain(two.iter()).cloned().collect())
            }
        }
    }
}

/// Response fields by which an upstream may control this server. Fields that are not trusted are
/// passed on like any other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Trusts nginx's X-Accel-Redirect, -Buffering, -Charset, and -Limit-Rate.
    pub accel: bool,
    /// Trusts LiteSpeed's X-LiteSpeed-Location.
    pub litespeed: bool,
    /// Trusts X-Sendfile, for files in these directories.
    pub files: Option<Arc<SendFiles>>,
    /// Removes untrusted control fields from responses to the client.
    pub hides: bool,
    /// Names of nginx's fields that are not followed all the same (`proxy_ignore_headers`).
    pub unheeded: Box<[Box<str>]>,
}

impl Trust {
    /// True if nginx's field of that name is followed.
    pub fn heeds(&self, name: &str) -> bool {
        let mut unheeded = self.unheeded.iter();
        self.accel && !unheeded.any(|other| other.eq_ignore_ascii_case(name))
    }
}

impl Default for ProxyOptions {
    fn default() -> ProxyOptions {
        ProxyOptions {
            preserves_host: false,
            names_tls_by_host: false,
            tls_name: None,
            adds_forwarded: true,
            tells_scheme: false,
            overrides_errors: false,
            overridden: Vec::new(),
            via: Via::Off,
            timeout: None,
            read_rate: None,
            is_unbuffered: false,
            drops_trailers: false,
            spools_request: false,
            outlives_client: false,
            reverse: Vec::new(),
            reverse_cookie_paths: Vec::new(),
            reverse_cookie_domains: Vec::new(),
            follows_locations: true,
            keeps_dates: false,
            upgrades: Upgrades::Any,
            keeps_program_fields: false,
            has_apaches_statuses: false,
            is_like_nginx: false,
            server_name: "".into(),
            trust: Trust::default(),
            terms: None,
        }
    }
}

/// Treatment of the Via field (`ProxyVia`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Via {
    #[default]
    Off,
    On,
    Full,
    Block,
}

/// Mapping of an upstream URL to a local path (`ProxyPassReverse`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reverse {
    pub path: Box<str>,
    pub url: Box<str>,
}

/// Options for running a CGI program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessManner {
    /// Interpreter that runs the file, with the file as its argument; `None`: the file is
    /// executable.
    pub interpreter: Option<PathBuf>,
    /// User that it runs as; `None`: the user of the server.
    pub user: Option<ProgramUser>,
    /// Resource limits (seconds of CPU time, processes, bytes of memory), each soft and hard.
    pub cpu_s: Option<(u64, u64)>,
    pub processes: Option<(u64, u64)>,
    pub memory_bytes: Option<(u64, u64)>,
    /// Log of failed scripts (`ScriptLog`).
    pub script_log: Option<Arc<ScriptLog>>,
}
