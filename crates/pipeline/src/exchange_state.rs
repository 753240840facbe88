//! State of an exchange, by subject.
//!
//! Called by: phases, handlers, and filters, through the fields of `Exchange`.
//! Caveat: state of a single feature belongs in the extensions of the exchange, not here.
//! Out of scope: the request itself (client, head, content, path), which `Exchange` has.

use crate::{
    AttemptValue, AuthState, CachedRoute, Chunk, Decision, Environment, ErrorDocument, HeadEdits,
    Inspection, InternalRedirect, KeptDecision, LogRules, NameValues, OriginalRequest, OutcomeLine,
    UpstreamAttempts, UpstreamRequest, budget::NESTING_MAX, mapped::Mapped,
};
use saker_ap_expr::RequestTest;
use saker_config::model::{LimitName, Origin, Settings, Site};
use saker_files::ChangeToken;
use saker_http::{Fields, RequestHead, Status};
use saker_matchers::Captures;
use saker_rate_limits::{Admission, Counted};
use saker_telemetry::{
    error_log::{LogId, SiteLog},
    trace::RequestTrace,
};
use std::{
    cell::OnceCell,
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

/// Sends interim responses of upstreams to the client (RFC 9110 section 15.2), such as 103 Early
/// Hints (RFC 8297).
pub trait InterimSink {
    fn send_interim(&self, status: Status, fields: &Fields);
}

/// An [`InterimSink`] that several owners share.
pub trait InterimWriter {
    fn send_interim(&mut self, status: Status, fields: &Fields);
}

impl<W: InterimWriter> InterimSink for RefCell<W> {
    fn send_interim(&self, status: Status, fields: &Fields) {
        self.borrow_mut().send_interim(status, fields);
    }
}

/// Default limit of internal redirects; as Apache's LimitInternalRecursion.
const REDIRECTS_MAX: u8 = 10;

/// A line of `saker explain`.
#[derive(Clone, Debug)]
pub struct TraceStep {
    pub phase: &'static str,
    pub text: String,
    /// The configuration that determined the step.
    pub origin: Option<Origin>,
}

impl TraceStep {
    /// The phase of steps that name a condition of the cached outcome.
    pub const CONDITION: &str = "condition";
    /// The phase of steps that name what keeps the outcome off the route cache.
    pub const NOT_CACHED: &str = "not_cached";
}

/// The site, and the mapping of the path to content.
pub struct RoutingState {
    pub site: Arc<Site>,
    /// Index of the site in the generation, for its logs.
    pub site_index: usize,
    /// The site's settings, or the matching route's.
    pub settings: Arc<Settings>,
    /// Index into `site.routes`.
    pub route: Option<usize>,
    /// The route that route selection takes next, whatever the path; from `@name`.
    pub named_route: Option<usize>,
    /// The route whose `try_files` has found the current path.
    pub tried_files: Option<usize>,
    /// The route of a file that the path stands for without naming it ([`file_routes`]), which has
    /// been followed.
    ///
    /// [`file_routes`]: crate::file_routes
    pub file_route: Option<usize>,
    /// Texts of the groups of the route's path pattern, if the path has changed since.
    pub captures: Option<Rc<Captures>>,
    /// The path as sent contains `%2F`, which is a slash in the decoded path; the rules of the site
    /// refuse the request or read the path again.
    pub encoded_slash: bool,
    /// The file that rules have mapped the path to, unless it is simply below the document root of
    /// the site.
    pub mapped: Option<Mapped>,
    /// The part of the path after the mapped file, with its slash.
    pub path_info: Vec<u8>,
    /// Name of the handler that rules have chosen.
    pub handler: Option<Box<str>>,
    /// PHP and CGI scripts are detected by file name. Cleared by rules that set handlers.
    pub scripts_by_name: bool,
    /// A subrequest, whose main request has been inspected.
    pub is_inside: bool,
    /// Rules have written the query, or dropped it; else it is the client's.
    pub has_written_query: bool,
    /// Internal redirects so far (index files, error pages).
    pub redirects: u8,
    /// Those of `redirects` that have kept path and query.
    pub redirects_in_place: u8,
    /// Limit of internal redirects; more of them are treated as a loop.
    pub redirects_max: u8,
    /// Number of requests that this one is nested in.
    pub nesting: u8,
    /// Limit of nesting; deeper nesting is treated as a loop.
    pub nesting_max: u8,
}

impl RoutingState {
    pub fn new(site: Arc<Site>) -> RoutingState {
        RoutingState {
            settings: Arc::clone(&site.settings),
            site,
            site_index: 0,
            route: None,
            named_route: None,
            tried_files: None,
            file_route: None,
            captures: None,
            encoded_slash: false,
            mapped: None,
            path_info: Vec::new(),
            handler: None,
            scripts_by_name: true,
            is_inside: false,
            has_written_query: false,
            redirects: 0,
            redirects_in_place: 0,
            redirects_max: REDIRECTS_MAX,
            nesting: 0,
            nesting_max: NESTING_MAX,
        }
    }
}

/// An event at the client's end of the connection that ends its request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAbort {
    /// A connection closed in both directions: a client may end its side and wait for the response
    /// (RFC 9112 section 9.6).
    #[default]
    Hangup,
    /// The end of the client's stream as well, as in nginx while an upstream is asked.
    EndOfStream,
    /// The same, while the request is held back.
    EndOfStreamInDelay,
    /// None: a feature has started work that must not be interrupted, so that the response is
    /// completed without a client, too.
    Ignored,
}

impl ClientAbort {
    /// Returns true if the end of the client's stream is enough.
    pub fn takes_end_of_stream(self) -> bool {
        matches!(
            self,
            ClientAbort::EndOfStream | ClientAbort::EndOfStreamInDelay
        )
    }
}

/// The upstream request and its outcome.
pub struct UpstreamState {
    /// The upstream request to carry out, chosen by rules or by a handler.
    pub call: Option<Box<UpstreamRequest>>,
    /// The event that counts as an abort by the client. Shared with the driver.
    pub client_abort: Rc<Cell<ClientAbort>>,
    /// Receives interim responses; present if the client's protocol has them.
    pub interim: Option<Rc<dyn InterimSink>>,
    /// The response is from an upstream: its status is content, not an error of this server.
    pub is_answered_by_program: bool,
    /// An upstream has answered, and a page of this server is to take the place of its response
    /// ([`crate::ProxyOptions::overrides_errors`]).
    pub is_replaced: bool,
    /// A response that a program has delegated to this server.
    pub internal_redirect: Option<Box<InternalRedirect>>,
    /// A program has led the request to another path ([`UpstreamState::internal_redirect`]), which
    /// the rules have not counted yet.
    pub leads_elsewhere: bool,
    /// Content of the request went to an upstream, and is not there any more: no other one may be
    /// asked as if there had been none.
    pub has_lost_content: bool,
    /// An error of the upstream may lead the request to another one, with its content.
    pub may_go_elsewhere: bool,
    /// Target of a redirect by a program that is no path of ours.
    pub refused_redirect: Option<Box<[u8]>>,
    /// Fields of an upstream's response that another one has taken the place of, or that steer this
    /// server.
    pub left_fields: Option<Box<Fields>>,
    /// The key that chooses a member of the upstream, where it balances by one.
    pub balance_key: Option<Box<[u8]>>,
    /// The name of the member that the request's session belongs to, where rules tell.
    pub route: Option<Box<[u8]>>,
    /// The members that were asked.
    pub attempts: UpstreamAttempts,
    /// The head that upstreams get in place of the request's (`proxy_method`,
    /// `proxy_pass_request_headers off`).
    pub own_head: Option<Box<RequestHead>>,
    /// Fields that HTTP upstreams get in place of the client's of these names (`proxy_set_header`);
    /// one without a value is dropped.
    pub own_fields: NameValues,
    /// The content that upstreams get in place of the request's (`proxy_set_body`).
    pub own_content: Option<Chunk>,
    /// Upstreams are told that the connection ends with the response.
    pub closes: bool,
}

impl UpstreamState {
    pub(crate) fn new(client_abort: Rc<Cell<ClientAbort>>) -> UpstreamState {
        UpstreamState {
            call: None,
            client_abort,
            interim: None,
            is_answered_by_program: false,
            is_replaced: false,
            internal_redirect: None,
            leads_elsewhere: false,
            has_lost_content: false,
            may_go_elsewhere: false,
            refused_redirect: None,
            left_fields: None,
            balance_key: None,
            route: None,
            attempts: UpstreamAttempts::default(),
            own_head: None,
            own_fields: NameValues::default(),
            own_content: None,
            closes: false,
        }
    }
}

/// Details about an authenticated user.
pub trait UserClaims {
    /// A claim of the token or session, or an attribute of the directory, as text.
    fn text(&self, name: &str) -> Option<String>;
}

/// Authentication, authorization, and inspection.
#[derive(Default)]
pub struct AccessState {
    /// The authenticated user.
    pub user: Option<Box<str>>,
    /// Details about the user, if a token, a session, or a directory has them.
    pub claims: Option<Rc<dyn UserClaims>>,
    /// The permission granted by an authorization server.
    pub auth_state: Option<Box<AuthState>>,
    /// Request fields listed in `authorize_fields` come from the authorization server. If false,
    /// they are from the client and are not forwarded to upstreams.
    pub has_authorized_fields: bool,
    /// Request fields listed in `fields` of `[site.auth]` are the server's own. If false, they are
    /// from the client and are not forwarded to upstreams.
    pub has_identity_fields: bool,
    /// In the request for an error document: a file below the document root names the page, so it is
    /// for those clients alone who may ask for it themselves.
    pub is_named_by_file: bool,
    /// In the request for an error document: the route of the page gets the client's path and query,
    /// so all rules hold for it as for a request of the client.
    pub has_client_target: bool,
    /// The inspection by ModSecurity rules, once started.
    pub inspection: Option<Rc<dyn Inspection>>,
}

/// Limits that apply to the request.
#[derive(Default)]
pub struct LimitState {
    /// The decision of rate limits before dispatch, or in the phase `limits`.
    pub admission: Option<Admission>,
    /// Slots in the count of concurrent requests. Drivers hold them until the response is sent.
    pub counted: Vec<Counted>,
    /// Limits have been checked, at least those of the first route.
    pub is_admitted: bool,
    /// No limit counts it from here on: it belongs to a request that is counted, or was refused.
    pub is_counted: bool,
    /// Limits that have counted the request. Further routes charge only those that are new.
    pub charged: Vec<LimitName>,
    /// The request was refused with this status, and its head is a stand-in.
    pub refused: Option<Status>,
    /// The response is the page of the rules for this error.
    pub paged: Option<Status>,
    /// Drivers close the connection without a response.
    pub drops_connection: bool,
    /// The connection serves no further request. HTTP/1 only.
    pub closes_connection: bool,
    /// The keep-alive timeout of the connection from here on. HTTP/1 only.
    pub idle_timeout_ms: Option<u64>,
    /// The value of `Keep-Alive: timeout` in the response. HTTP/1 only.
    pub keep_alive_s: Option<u64>,
    /// Content without a length ends with the connection, instead of in chunks. HTTP/1 only.
    pub is_without_chunks: bool,
    /// The response is made of the request's content while it is sent, so drivers leave the content
    /// its limit.
    pub reflects_content: bool,
}

impl LimitState {
    /// Notes that a limit counts the request. `false`: it has done so.
    pub fn charge(&mut self, limit: LimitName) -> bool {
        let is_new = !self.charged.contains(&limit);
        if is_new {
            self.charged.push(limit);
        }
        is_new
    }
}

/// Facts for logs, and the trace of `saker explain`.
pub struct LogState {
    /// The request's id, once a text has used it (see `template::request_id`).
    pub request_id: OnceCell<Vec<u8>>,
    /// The trace that the request belongs to, where requests are traced.
    pub request_trace: Option<Rc<RequestTrace>>,
    /// Notes from modules for logs, by name.
    pub notes: Environment,
    /// Notes whose values are known when the response is over.
    pub late_notes: Vec<(Box<str>, AttemptValue)>,
    /// The request before the first internal redirect.
    pub original: Option<Box<OriginalRequest>>,
    /// In the request for an error document: the status of the error.
    pub stands_in_for: Option<Status>,
    /// The error document that replaced the response.
    pub error_document: Option<Box<ErrorDocument>>,
    /// The rules' decisions about logs.
    pub rules: LogRules,
    /// Recorded steps; present if tracing is enabled.
    pub trace: Option<Vec<TraceStep>>,
    /// The id of error log lines about this request and its internal requests.
    pub id: Rc<LogId>,
    /// Lines that belong to the outcome ([`crate::Exchange::log_outcome`]).
    pub outcome_lines: RefCell<Vec<OutcomeLine>>,
    /// The error log of the part of the site that answers, if it is not the site's.
    pub error_log: Option<Arc<SiteLog>>,
    /// The stream of a multiplexed connection that the client sent the request on.
    pub stream_id: Option<u64>,
    /// The path of a request inside of the client's, for the error log.
    pub subrequest: Option<Box<[u8]>>,
}

impl LogState {
    pub(crate) fn new(id: Rc<LogId>) -> LogState {
        LogState {
            request_id: OnceCell::new(),
            request_trace: None,
            notes: Environment::default(),
            late_notes: Vec::new(),
            original: None,
            stands_in_for: None,
            error_document: None,
            rules: LogRules::default(),
            trace: None,
            id,
            outcome_lines: RefCell::default(),
            error_log: None,
            stream_id: None,
            subrequest: None,
        }
    }
}

/// Dependencies of the outcome, and data for the route cache.
#[derive(Default)]
pub struct CacheState {
    /// Change tokens of the files that the outcome depends on.
    pub change_tokens: Vec<ChangeToken>,
    /// The outcome depends on the request in a way that no test covers; see
    /// [`Exchange::depends_on_request`](crate::Exchange::depends_on_request).
    pub request_dependent: bool,
    /// Tests of the request that the outcome depends on: requests with the same results have the
    /// same outcome.
    pub request_tests: Vec<RequestTest>,
    /// Tests that determined variables that have not been read yet.
    pub environment_tests: Vec<RequestTest>,
    /// The cached route, set by the handler.
    pub cached_route: Option<Rc<dyn CachedRoute>>,
    /// The decision that this request follows, from the route cache.
    pub decision: Option<Rc<Decision>>,
    /// The decision that the phases have come to, for later requests.
    pub kept_decision: Option<Box<KeptDecision>>,
    /// The answer is that of a rule, for all requests with the same outcome.
    pub keeps_answer: bool,
    /// The answer is a stored page that all clients may get.
    pub is_shared_page: bool,
    /// Rules edit a field of the request that pages are chosen by, so that what clients send in it
    /// must not choose one.
    pub edits_choice_of_page: bool,
    /// Edits by rules of a head that is cached.
    pub head_edits: Option<Rc<dyn HeadEdits>>,
}
