//! State of a request under the rules, kept in its exchange between phases.
//!
//! Called by: everything in this crate.
//! Caveat: an internal redirect keeps variables, and forgets the location.

use crate::stub_status::Count;
use saker_ap_expr::Spans;
use saker_http::{Fields, RequestHead};
use saker_nginx_model::{Location, Server, modules::resolver::Found};
use std::{cell::RefCell, collections::HashMap, fs, path::PathBuf, rc::Rc, sync::Arc};

/// Internal redirects and changes of the path by rewriting that a request may have.
pub const CHANGES_MAX: u8 = 10;

/// The words of an identifier of `userid`.
pub type UserIdWords = [u32; 4];

/// Variables of SSI, which a page shares with those that it includes.
pub type SharedVariables = Rc<RefCell<HashMap<Vec<u8>, Vec<u8>>>>;

/// The answer to the subrequest of `auth_request`.
#[derive(Clone, Debug)]
pub struct AuthAnswer {
    pub status: u16,
    /// The challenge of a 401.
    pub challenge: Option<Vec<u8>>,
}

/// A part of a response that an upstream is asked for (`slice`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    pub start: u64,
    pub bytes: u64,
    /// The request for the whole has asked for it.
    pub is_next: bool,
}

/// A file with content; removed when it is dropped, unless it is kept.
#[derive(Debug)]
pub struct BodyFile {
    pub path: PathBuf,
    pub is_kept: bool,
}

impl Drop for BodyFile {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The state of a request.
#[derive(Clone)]
pub struct State {
    pub server: Arc<Server>,
    pub location: Arc<Location>,
    /// A named location that comes next, instead of a search.
    pub named: Option<Arc<Location>>,
    /// The subject of the last regular expression that matched, and its groups.
    pub captures: Option<(Box<[u8]>, Spans)>,
    /// Values of variables of the configuration, by their numbers.
    pub values: Vec<Option<Box<[u8]>>>,
    /// The request was redirected internally.
    pub is_internal: bool,
    pub changes_left: u8,
    /// The path and query are those of the request line.
    pub is_unparsed: bool,
    /// The path is the one that the location was chosen by.
    pub is_location_valid: bool,
    /// `try_files` has found a name behind an alias that is otherwise the whole name of a file.
    pub adds_path_to_alias: bool,
    /// The status of the response, whatever answers (`error_page`).
    pub error_status: Option<u16>,
    /// The status of the last error that a page was chosen for.
    pub failed_status: Option<u16>,
    /// An error page has been chosen; errors of it have none.
    pub has_error_page: bool,
    /// Fields of the error that its page keeps.
    pub error_fields: Vec<(Box<str>, Box<[u8]>)>,
    /// There has been a page with SSI.
    pub ssi_variables: Option<SharedVariables>,
    /// `set $limit_rate`
    pub limit_rate: Option<Box<[u8]>>,
    /// Rates, or connections, have been charged.
    pub requests_limited: bool,
    pub connections_limited: bool,
    /// Status and fields of the response, once there is one.
    pub response: Option<(u16, Fields)>,
    /// A value was read that only the response has.
    pub wants_response: bool,
    /// The content of the request was read, which variables do not have.
    pub wants_content: bool,
    /// The content of the request, where variables have it.
    pub content: Option<Rc<[u8]>>,
    /// The file with the content of the request.
    pub body_file: Option<Rc<BodyFile>>,
    /// The answer to `auth_request`.
    pub auth_answer: Option<AuthAnswer>,
    /// The request asks for permission for another one.
    pub is_subrequest: bool,
    /// The head of the client's request, in a request inside of it.
    pub main: Option<Rc<RequestHead>>,
    /// An upstream was asked.
    pub is_forwarded: bool,
    /// An upstream has led the request elsewhere, and no other one was asked since.
    pub is_handed_over: bool,
    /// The name of the upstream.
    pub upstream: Option<Box<str>>,
    /// Addresses of the upstream's names.
    pub found: Option<Rc<Found>>,
    /// The response is not compressed with gzip, as it is for other requests.
    pub lacks_gzip: bool,
    /// The slice that the request is for.
    pub slice: Option<Slice>,
    /// A text could not be evaluated within its limits.
    pub has_failed: bool,
    /// Statuses for `$limit_req_status` and `$limit_conn_status`.
    pub limit_req_status: Option<&'static str>,
    pub limit_conn_status: Option<&'static str>,
    /// The connection ends behind the response, whatever its location says.
    pub is_last: bool,
    /// The identifiers of `userid`.
    pub user_id_got: Option<UserIdWords>,
    pub user_id_set: Option<UserIdWords>,
    /// The client's address is the one that a proxy names.
    pub is_client_settled: bool,
    /// The time of its head, by the monotonic clock.
    pub began_ns: u64,
    /// The numbers of connections, where a variable may ask for them.
    pub count: Option<Count>,
    /// Nesting of maps in evaluation.
    pub depth: u8,
}

impl State {
    pub fn new(server: Arc<Server>) -> State {
        State {
            location: Arc::clone(&server.outside),
            server,
            named: None,
            captures: None,
            values: Vec::new(),
            is_internal: false,
            changes_left: CHANGES_MAX,
            is_unparsed: true,
            is_location_valid: true,
            adds_path_to_alias: false,
            error_status: None,
            failed_status: None,
            has_error_page: false,
            error_fields: Vec::new(),
            ssi_variables: None,
            limit_rate: None,
            requests_limited: false,
            connections_limited: false,
            response: None,
            wants_response: false,
            wants_content: false,
            content: None,
            body_file: None,
            auth_answer: None,
            is_subrequest: false,
            main: None,
            is_forwarded: false,
            is_handed_over: false,
            upstream: None,
            found: None,
            lacks_gzip: false,
            slice: None,
            has_failed: false,
            limit_req_status: None,
            limit_conn_status: None,
            is_last: false,
            user_id_got: None,
            user_id_set: None,
            is_client_settled: false,
            began_ns: saker_net::clock::monotonic_ns(),
            count: None,
            depth: 0,
        }
    }

    /// Prepares an internal redirect. Returns false if there were too many.
    pub fn redirect(&mut self) -> bool {
        self.is_internal = true;
        self.is_unparsed = false;
        self.is_location_valid = false;
        self.adds_path_to_alias = false;
        self.is_forwarded = false;
        self.auth_answer = None;
        self.location = Arc::clone(&self.server.outside);
        self.change()
    }

    /// Counts a change of the path.
    pub fn change(&mut self) -> bool {
        match self.changes_left.checked_sub(1) {
            Some(left) => {
                self.changes_left = left;
                true
            }
            None => false,
        }
    }
}
