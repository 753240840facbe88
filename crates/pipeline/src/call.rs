//! What rules want of the gateway: whom to ask, and with what.
//!
//! Left in [`Exchange::call`](crate::Exchange::call) by a phase (Apache's rules, or a native
//! route); the gateway's handler takes it from there. Absent on purpose: everything that the
//! exchange says itself (fields, client, variables that rules have set).

use crate::{Exchange, script_log::ScriptLog};
use saker_config::model::{PhpValue, ProgramUser, SendFiles, Upstream};
use std::{path::PathBuf, rc::Rc, sync::Arc, time::Duration};

pub struct Call {
    pub to: CallTo,
    /// Path and query as they go to a server, escaped.
    pub target: Vec<u8>,
    /// What programs are told besides; `None` for servers.
    pub script: Option<Box<Script>>,
    pub manner: Arc<CallManner>,
    pub names: CallNames,
}

/// What this server is called in this request; empty where the manner has no use for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallNames {
    /// `scheme://name:port`, for URLs that lead back to us.
    pub origin: Vec<u8>,
    /// In Via.
    pub via: Vec<u8>,
}

impl Call {
    /// As the configuration calls whom it is to.
    pub fn upstream_name(&self) -> &str {
        match &self.to {
            CallTo::Upstream(upstream) => &upstream.name,
            CallTo::Process(_) => "",
        }
    }
}

pub enum CallTo {
    Upstream(Arc<Upstream>),
    /// A program that is started for this request (CGI).
    Process(Arc<ProcessManner>),
}

/// What RFC 3875 and Apache tell a program that is not in the exchange.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The file that is run, or stands for what is run.
    pub filename: Vec<u8>,
    /// Who is asked stands before it (`proxy:fcgi://member/…`), and in variables of its own
    /// (mod_proxy_balancer).
    pub names_member: bool,
    /// The path of the request, decoded, with what follows the script.
    pub path: Vec<u8>,
    /// What follows the script.
    pub path_info: Vec<u8>,
    /// The file that the rest of the path would stand for.
    pub path_translated: Option<Vec<u8>>,
    pub document_root: Vec<u8>,
    pub context_prefix: Vec<u8>,
    pub context_document_root: Vec<u8>,
    pub server_name: Vec<u8>,
    pub server_port: u16,
    pub server_admin: Option<Box<str>>,
    pub server_signature: Vec<u8>,
    pub server_software: Vec<u8>,
    /// `Basic` or `Digest` where a user is known.
    pub auth_type: Option<Box<str>>,
    /// The credentials themselves are told, too (Apache's CGIPassAuth).
    pub passes_authorization: bool,
    /// Of the request that led to this one.
    pub redirect_url: Option<Vec<u8>>,
    pub redirect_query: Option<Vec<u8>>,
    /// Its answer becomes a part of a page.
    pub is_included: bool,
    /// It says whether the request may pass, and nothing else (FastCGI 1.0 section 6.3).
    pub is_authorizer: bool,
    /// What PHP is told of its settings.
    pub php: Vec<PhpValue>,
    /// Told last, over everything of the same name (ProxyFCGISetEnvIf).
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// Has the last word.
    pub adjust: Option<Adjust>,
}

type Told = Vec<(Vec<u8>, Vec<u8>)>;
type Adjusting = dyn Fn(&Exchange, Told) -> Told;

/// Makes other variables of those that a program would be told.
#[derive(Clone)]
pub struct Adjust(pub Rc<Adjusting>);

impl std::fmt::Debug for Adjust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Adjust")
    }
}

/// How a call is made. Shared by all requests of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallManner {
    /// The client's Host goes along instead of the backend's (ProxyPreserveHost).
    pub preserves_host: bool,
    /// X-Forwarded-For, -Host, -Server (ProxyAddHeaders).
    pub adds_forwarded: bool,
    /// X-Forwarded-Proto is ours to say, too, whatever the client says.
    pub tells_scheme: bool,
    /// Error pages are ours (ProxyErrorOverride); empty with `true`: of all errors.
    pub overrides_errors: bool,
    pub overridden: Vec<u16>,
    pub via: Via,
    /// Instead of the backend's own.
    pub timeout: Option<Duration>,
    /// Pieces go to the client as they come, and a slow client makes the program wait.
    pub is_unbuffered: bool,
    /// The whole request is here before the program hears of it.
    pub spools_request: bool,
    /// The program is not stopped when the client goes.
    pub outlives_client: bool,
    /// Fields of the response that are rewritten (ProxyPassReverse).
    pub reverse: Vec<Reverse>,
    pub reverse_cookie_paths: Vec<(Box<str>, Box<str>)>,
    pub reverse_cookie_domains: Vec<(Box<str>, Box<str>)>,
    /// A Location without a status is a redirect, and a path of ours is followed here (RFC 3875
    /// section 6.2).
    pub follows_locations: bool,
    /// What follows `Upgrade` may be asked of it.
    pub upgrades: bool,
    /// Name that Via and X-Forwarded-Server give us.
    pub server_name: Box<str>,
    /// What its responses may make this server do.
    pub trust: Trust,
}

/// What a program may leave to this server, by fields of its responses. Fields that are not trusted
/// are those of any response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// nginx's X-Accel-Redirect, -Buffering, -Charset and -Limit-Rate.
    pub accel: bool,
    /// LiteSpeed's X-LiteSpeed-Location.
    pub litespeed: bool,
    /// X-Sendfile.
    pub files: Option<Arc<SendFiles>>,
    /// Those that are not trusted do not go to the client either.
    pub hides: bool,
}

impl Default for CallManner {
    fn default() -> CallManner {
        CallManner {
            preserves_host: false,
            adds_forwarded: true,
            tells_scheme: false,
            overrides_errors: false,
            overridden: Vec::new(),
            via: Via::Off,
            timeout: None,
            is_unbuffered: false,
            spools_request: false,
            outlives_client: false,
            reverse: Vec::new(),
            reverse_cookie_paths: Vec::new(),
            reverse_cookie_domains: Vec::new(),
            follows_locations: true,
            upgrades: true,
            server_name: "".into(),
            trust: Trust::default(),
        }
    }
}

/// `ProxyVia`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Via {
    #[default]
    Off,
    On,
    Full,
    Block,
}

/// `ProxyPassReverse`: a URL of the backend becomes a path of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reverse {
    pub path: Box<str>,
    pub url: Box<str>,
}

/// How a program that is started for one request is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessManner {
    /// Run in place of the file itself, with the file as its argument; `None`: the file is
    /// executable.
    pub interpreter: Option<PathBuf>,
    /// Whom it runs as; `None`: the server's own user.
    pub user: Option<ProgramUser>,
    /// Seconds of processor time, processes, bytes of memory; soft and hard.
    pub cpu_s: Option<(u64, u64)>,
    pub processes: Option<(u64, u64)>,
    pub memory_bytes: Option<(u64, u64)>,
    /// What goes wrong is told there in full.
    pub script_log: Option<Arc<ScriptLog>>,
}
