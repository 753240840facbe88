//! One request and what has been found out about it. Goes down through the phases and comes back
//! with the response.

use crate::{
    AuthState, Call, Extensions, Handed, HeadEdits, Inspection, RequestBody, RequestBudget,
    Reusable, UpstreamGate,
    budget::NESTING_MAX,
    logged::{First, LogRules, StandIn},
};
use saker_config::model::{Action, Address, Origin, Settings, Site};
use saker_files::Stamp;
use saker_http::{Fields, RequestHead};
use saker_rate_limits::{AddressState, Admission, Counted};
use saker_telemetry::error_log::LogId;
use saker_tls::SessionInfo;
use std::{
    cell::{Cell, OnceCell},
    net::{IpAddr, SocketAddr},
    os::unix::ffi::OsStrExt,
    path::Path,
    rc::Rc,
    sync::Arc,
};

/// Who asks, over what. One per connection.
#[derive(Clone, Debug)]
pub struct Client {
    /// The client's address, after a trusted PROXY preface. Unspecified (`0.0.0.0`) for a Unix
    /// socket.
    pub address: SocketAddr,
    /// The address that it connected to.
    pub local: SocketAddr,
    pub listener: Arc<Address>,
    /// TLS, or a trusted preface says so.
    pub secure: bool,
    /// TLS ends here, so that what a site demands of a handshake was demanded.
    pub tls: bool,
    /// What the handshake settled, where TLS ends here.
    pub session: Option<Arc<SessionInfo>>,
    /// What the address has used of its limits; `None` where no limit is set.
    pub account: Option<Arc<AddressState>>,
    /// The connection's own client, whatever rules find out about who asks over it.
    pub peer: SocketAddr,
    /// By which error log lines about the connection are told from others'.
    pub log_id: Rc<LogId>,
    /// Requests on the connection so far, this one among them.
    pub requests: Cell<u32>,
    /// What a name server calls it, where rules wanted that.
    name: OnceCell<Box<str>>,
    text: OnceCell<Box<str>>,
}

impl Client {
    pub fn new(
        address: SocketAddr,
        local: SocketAddr,
        listener: Arc<Address>,
        secure: bool,
    ) -> Client {
        let log_id = Rc::default();
        Client {
            address,
            local,
            listener,
            secure,
            tls: false,
            session: None,
            account: None,
            peer: address,
            log_id,
            requests: Cell::new(0),
            name: OnceCell::new(),
            text: OnceCell::new(),
        }
    }

    /// The client address as text, for logs; made when first asked for.
    pub fn text(&self) -> &str {
        self.text.get_or_init(|| self.ip().to_string().into())
    }

    /// Its name for logs and programs, where it was looked up and found.
    pub fn name(&self) -> Option<&str> {
        self.name.get().map(|name| &**name)
    }

    /// The first name that is found stays.
    pub fn call_it(&self, name: &str) {
        self.name.get_or_init(|| name.into());
    }

    pub fn ip(&self) -> IpAddr {
        self.address.ip().to_canonical()
    }
}

/// One line of `saker explain`.
#[derive(Clone, Debug)]
pub struct TraceStep {
    pub phase: &'static str,
    pub text: String,
    /// What decided it.
    pub origin: Option<Origin>,
}

/// Where a path leads in the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Absolute. Links above it are followed.
    pub root: Arc<Path>,
    /// Below it, without a slash at its beginning; with one at its end where the path had one.
    pub relative: Vec<u8>,
}

impl Mapped {
    /// As programs and logs know it.
    pub fn filename(&self) -> Vec<u8> {
        let root = self.root.as_os_str().as_bytes();
        let root = root.strip_suffix(b"/").unwrap_or(root);
        match self.relative.is_empty() {
            true => root.to_vec(),
            false => [root, b"/", &self.relative].concat(),
        }
    }
}

/// As Apache's LimitInternalRecursion.
const REDIRECTS_MAX: u8 = 10;

type Bytes = Box<[u8]>;

/// Sends fields ahead of the response, as 103 Early Hints (RFC 8297).
pub type TellHints = dyn Fn(Fields);

/// Variables of one request, in the order in which they were first set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(Vec<(Bytes, Bytes)>);

impl Environment {
    /// Names are compared as they are written.
    pub fn first(&self, name: &[u8]) -> Option<&[u8]> {
        self.0
            .iter()
            .find(|(known, _)| **known == *name)
            .map(|(_, value)| &**value)
    }

    /// As logs look for them: in any case, if need be.
    pub fn first_in_any_case(&self, name: &[u8]) -> Option<&[u8]> {
        let ignoring_case = || {
            self.0
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(name))
                .map(|(_, value)| &**value)
        };
        self.first(name).or_else(ignoring_case)
    }

    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        match self.0.iter_mut().find(|(known, _)| **known == *name) {
            Some((_, old)) => *old = value.into(),
            None => self.0.push((name.into(), value.into())),
        }
    }

    pub fn unset(&mut self, name: &[u8]) {
        self.0.retain(|(known, _)| **known != *name);
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

pub struct Exchange {
    pub client: Rc<Client>,
    pub head: RequestHead,
    pub body: Box<dyn RequestBody>,
    /// Host in canonical form, without port; empty where an HTTP/1.0 request had none.
    pub host: Vec<u8>,
    /// Path decoded and normalised; starts with `/`. Changed by internal redirects.
    pub path: Vec<u8>,
    /// The path holds `%2F` as it came, and [`Exchange::path`] nothing yet: the rules of its host
    /// read it.
    pub encoded_slash: bool,
    /// Query as sent, without the question mark.
    pub query: Option<Vec<u8>>,
    pub site: Arc<Site>,
    /// Index of the site in the generation, for its logs.
    pub site_index: usize,
    /// The site's, or the matching route's.
    pub settings: Arc<Settings>,
    /// Index into `site.routes`.
    pub route: Option<usize>,
    /// Seconds since the epoch when the head was complete.
    pub now: i64,
    /// What the outcome depends on besides listener, host and path; see
    /// [`Exchange::depends_on_request`].
    pub stamps: Vec<Stamp>,
    pub request_dependent: bool,
    /// Left by the handler, see [`Reusable`].
    pub reusable: Option<Rc<dyn Reusable>>,
    /// The file that rules have mapped the path to, where it is not simply below the site's
    /// document root.
    pub mapped: Option<Mapped>,
    /// What follows the mapped file in the path, with its slash.
    pub path_info: Vec<u8>,
    /// Variables that rules have set, for programs and logs; later ones of a name win.
    pub environment: Environment,
    /// Name of the handler that rules have chosen.
    pub handler: Option<Box<str>>,
    /// The upstream request that is to be carried out, chosen by rules or by a handler.
    pub call: Option<Box<Call>>,
    /// Set by whoever has begun what must come to its end: the answer is made though the client
    /// goes. Drivers hold it, too.
    pub outlives_client: Rc<Cell<bool>>,
    /// Where the client can take hints before the response.
    pub tell_hints: Option<Rc<TellHints>>,
    /// A program or server has answered: whatever its status, that is content, and no refusal of
    /// ours.
    pub is_answered_by_program: bool,
    /// What a program said that has left the response to us.
    pub handed: Option<Box<Handed>>,
    /// Who has said who he is, and was believed.
    pub user: Option<Box<str>>,
    /// What rules want of a head that is kept.
    pub head_edits: Option<Rc<dyn HeadEdits>>,
    /// What features keep for later phases, by type.
    pub extensions: Extensions,
    /// The inspection by ModSecurity's rules, once it has begun.
    pub inspection: Option<Rc<dyn Inspection>>,
    /// PHP and CGI scripts are found by the names of files. Rules that name handlers unset it.
    pub scripts_by_name: bool,
    /// It is a subrequest, whose main request has been inspected.
    pub is_inside: bool,
    /// What modules tell logs, by name.
    pub notes: Environment,
    /// How the request was before rules led it elsewhere.
    pub first: Option<Box<First>>,
    /// Where this is the request for an error document: the error.
    pub stands_in_for: Option<saker_http::Status>,
    /// The page that stood in for its answer, as logs tell it.
    pub stand_in: Option<Box<StandIn>>,
    /// What the rules want of logs.
    pub log_rules: LogRules,
    /// Present when each step is to be recorded.
    pub trace: Option<Vec<TraceStep>>,
    /// By which error log lines about it, and all that is asked on its behalf, are told from
    /// others'.
    pub log_id: Rc<LogId>,
    /// The permission of an authorization server.
    pub auth_state: Option<Box<AuthState>>,
    /// Fields by the names of `authorize_fields` are those of its answer; else they are the
    /// client's, and programs aren't told them.
    pub has_authorized_fields: bool,
    /// What throttling said before the walk, or says in its access phase.
    pub admission: Option<Admission>,
    /// Its places among the requests that are being answered. Drivers hold them until the response
    /// has gone.
    pub counted: Vec<Counted>,
    /// Limits on upstream requests, where there are some.
    pub upstream_gate: Option<Rc<dyn UpstreamGate>>,
    /// Limits have been asked; what the request leads to inside of the server is not counted again.
    pub is_admitted: bool,
    /// No answer: drivers end the connection.
    pub drops_connection: bool,
    /// Internal redirects so far (index files, error pages); bounded.
    pub redirects: u8,
    /// More of them go in circles.
    pub redirects_max: u8,
    /// Requests that it is inside of.
    pub nesting: u8,
    /// Deeper ones go in circles.
    pub nesting_max: u8,
    /// Shared with everything that it leads to; see [`Exchange::budget`].
    pub(crate) budget: OnceCell<Rc<RequestBudget>>,
}

impl Exchange {
    /// An exchange before its first phase: everything that the phases find out is still empty.
    pub fn new(
        client: Rc<Client>,
        head: RequestHead,
        body: Box<dyn RequestBody>,
        site: Arc<Site>,
        now: i64,
    ) -> Exchange {
        Exchange {
            client,
            head,
            body,
            host: Vec::new(),
            path: Vec::new(),
            encoded_slash: false,
            query: None,
            settings: Arc::clone(&site.settings),
            site,
            site_index: 0,
            route: None,
            now,
            stamps: Vec::new(),
            request_dependent: false,
            reusable: None,
            mapped: None,
            path_info: Vec::new(),
            environment: Environment::default(),
            handler: None,
            call: None,
            outlives_client: Rc::default(),
            tell_hints: None,
            is_answered_by_program: false,
            handed: None,
            user: None,
            notes: Environment::default(),
            first: None,
            stands_in_for: None,
            stand_in: None,
            log_rules: LogRules::default(),
            head_edits: None,
            extensions: Extensions::default(),
            inspection: None,
            scripts_by_name: true,
            is_inside: false,
            trace: None,
            log_id: Rc::default(),
            auth_state: None,
            has_authorized_fields: false,
            admission: None,
            counted: Vec::new(),
            upstream_gate: None,
            is_admitted: false,
            drops_connection: false,
            redirects: 0,
            redirects_max: REDIRECTS_MAX,
            nesting: 0,
            nesting_max: NESTING_MAX,
            budget: OnceCell::new(),
        }
    }

    /// What the matching route does; files where there is none.
    pub fn action(&self) -> &Action {
        self.route
            .and_then(|at| self.site.routes.get(at))
            .map_or(&Action::Files, |route| &route.action)
    }

    /// To be called by whatever looks at anything but listener, host and path (a field, the query,
    /// the client's address, the time) and lets the outcome depend on it: such an outcome is not
    /// kept.
    pub fn depends_on_request(&mut self) {
        self.request_dependent = true;
    }

    /// Records a step; `text` is only made when someone looks.
    pub fn trace(
        &mut self,
        phase: &'static str,
        origin: Option<&Origin>,
        text: impl FnOnce() -> String,
    ) {
        if let Some(steps) = &mut self.trace {
            steps.push(TraceStep {
                phase,
                text: text(),
                origin: origin.cloned(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filenames() {
        let name = |root: &str, relative: &str| {
            let mapped = Mapped {
                root: Path::new(root).into(),
                relative: relative.into(),
            };
            String::from_utf8(mapped.filename()).unwrap()
        };
        assert_eq!(name("/", "a/b"), "/a/b");
        assert_eq!(name("/srv/", "a/"), "/srv/a/");
        assert_eq!(name("/srv/a.txt", ""), "/srv/a.txt");
    }

    #[test]
    fn variables() {
        let mut all = Environment::default();
        all.set(b"a", b"1");
        all.set(b"b", b"2");
        all.set(b"a", b"3");
        assert_eq!((all.first(b"a"), all.first(b"A")), (Some(&b"3"[..]), None));
        all.unset(b"a");
        assert_eq!(all.iter().collect::<Vec<_>>(), [(&b"b"[..], &b"2"[..])]);
    }
}
