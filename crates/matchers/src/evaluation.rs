//! The facts about a request that matchers and variables read, and the state of one evaluation.
//!
//! Called by: matchers, templates, and maps; the facts are implemented by the pipeline over an
//! exchange, and by tests over tables.
//! Caveat: every read of something other than listener, host, path, and files leaves a dependency:
//! a test if its result is all that counts, a kind otherwise.
//! Out of scope: turning dependencies into conditions of cached routes (the pipeline).

use saker_ap_expr::{
    Dependencies, Dependency, Facts, LimitReached, Pattern, Predicate, RequestPart, RequestTest,
};
use saker_http::Version;
use std::{borrow::Cow, cell::Cell, fmt};

/// Facts about one request, in the forms that trust decisions use: the effective host, the decoded
/// path, the client address after trusted proxies.
pub trait RequestFacts: Facts {
    /// Host in canonical form, without port.
    fn host(&self) -> &[u8];

    /// Current path, decoded and normalized.
    fn path(&self) -> &[u8];

    /// Request target as sent.
    fn target(&self) -> &[u8];

    /// Current query as sent, without the question mark.
    fn query(&self) -> Option<&[u8]>;

    /// The first field of a name, or the last one.
    fn one_request_field(&self, name: &[u8], _: Repeated) -> Option<Cow<'_, [u8]>> {
        self.request_field(name)
    }

    fn is_secure(&self) -> bool;

    /// The id of the request; empty if it has none.
    fn request_id(&self) -> Cow<'_, [u8]>;

    /// A claim or an attribute of the authenticated user; empty if there is none.
    fn claim(&self, name: &str) -> Cow<'_, [u8]>;

    /// The value of `X-Forwarded-For` for an upstream.
    fn forwarded_for(&self) -> Cow<'_, [u8]>;

    fn version(&self) -> Version;

    /// Seconds since the epoch.
    fn now_s(&self) -> i64;

    /// Kind of the file at a normalized path below the document root. Leaves change tokens.
    fn file_kind(&self, path: &[u8]) -> Option<FileKind>;
}

/// The value of a parameter, a cookie, or a field that a request has more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repeated {
    /// The first parameter or cookie, and all fields, joined.
    #[default]
    AsUsual,
    /// As usual, and the evaluation tells whether others would do as well
    /// ([`Evaluation::has_repeated`]).
    Watched,
    First,
    Last,
}

/// Kind of an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    Regular,
    Directory,
    /// A device, socket, or pipe.
    Other,
}

/// Texts of the groups of a match; the first one is `$1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captures(pub Vec<Vec<u8>>);

impl Captures {
    /// Returns the text of a group (from 1); empty if there is none.
    pub fn get(&self, group: usize) -> &[u8] {
        group
            .checked_sub(1)
            .and_then(|at| self.0.get(at))
            .map_or(&[], |text| text)
    }
}

/// Reason why a matcher has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchError {
    pub message: String,
}

impl fmt::Display for MatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<LimitReached> for MatchError {
    fn from(limit: LimitReached) -> MatchError {
        MatchError {
            message: limit.to_string(),
        }
    }
}

/// State of the evaluation of matchers and templates for one request.
pub struct Evaluation<'f> {
    pub facts: &'f dyn RequestFacts,
    /// Captures of the route's path pattern.
    pub captures: Cow<'f, Captures>,
    /// Everything read so far, other than what cached routes are kept by.
    pub dependencies: Dependencies,
    /// Time (seconds since the epoch) until which results about the time hold.
    pub holds_until_s: Option<i64>,
    pub(crate) repeated: Repeated,
    /// See [`Evaluation::has_repeated`].
    pub(crate) has_repeated: Cell<bool>,
    /// Depth of templates inside of templates.
    pub(crate) depth: u8,
}

impl<'f> Evaluation<'f> {
    pub fn new(facts: &'f dyn RequestFacts) -> Evaluation<'f> {
        Evaluation {
            facts,
            captures: Cow::Owned(Captures::default()),
            dependencies: Dependencies::new(),
            holds_until_s: None,
            repeated: Repeated::AsUsual,
            has_repeated: Cell::new(false),
            depth: 0,
        }
    }

    #[must_use]
    pub fn with_captures(mut self, captures: &'f Captures) -> Evaluation<'f> {
        self.captures = Cow::Borrowed(captures);
        self
    }

    /// Takes other values of what the request has twice.
    #[must_use]
    pub fn with_repeated(mut self, repeated: Repeated) -> Evaluation<'f> {
        self.repeated = repeated;
        self
    }

    /// False if a [`Repeated::Watched`] evaluation has read nothing that the request has twice, so
    /// that one by the first or the last value would come to the same.
    pub fn has_repeated(&self) -> bool {
        self.has_repeated.get()
    }

    /// Runs a pattern at the request's expense.
    pub(crate) fn is_match(&self, pattern: &Pattern, text: &[u8]) -> Result<bool, MatchError> {
        Ok(match self.facts.work() {
            Some(work) => work.is_match(pattern, text)?,
            None => pattern.is_match(text)?,
        })
    }

    /// Records a test of a part, or the part itself if it is no longer as received.
    pub(crate) fn record(&mut self, part: RequestPart, predicate: Predicate, result: bool) {
        match self.facts.is_as_received(&part) {
            true => self.dependencies.add_test(RequestTest {
                part,
                predicate,
                result,
            }),
            false => self.read(&part),
        }
    }

    /// Records that the outcome depends on the value of a part.
    pub(crate) fn read(&mut self, part: &RequestPart) {
        let dependency = match part {
            RequestPart::ClientAddress => Dependency::Client,
            RequestPart::Method => Dependency::Method,
            RequestPart::Query => Dependency::Query,
            RequestPart::RequestLine | RequestPart::Version => Dependency::RequestLine,
            RequestPart::TlsServerName => Dependency::Transport,
            RequestPart::Secure => Dependency::Scheme,
            RequestPart::LocalAddress => Dependency::Connection,
            RequestPart::Field(name) => {
                return self.dependencies.add_request_field(name.as_bytes(), false);
            }
        };
        self.dependencies.add(dependency);
    }

    /// Records the value of a part that may be absent. Requests without it have the same outcome.
    pub(crate) fn read_optional(&mut self, part: RequestPart, is_present: bool) {
        match is_present {
            true => self.read(&part),
            false => self.record(part, Predicate::Present, false),
        }
    }

    /// Records that results hold until this time only.
    pub(crate) fn hold_until(&mut self, unix_s: i64) {
        self.holds_until_s = Some(self.holds_until_s.map_or(unix_s, |until| until.min(unix_s)));
    }

    /// Charges a text to the request's budget.
    pub(crate) fn charge(&self, bytes: usize) {
        if let Some(work) = self.facts.work() {
            work.look_at(bytes);
            work.make(bytes);
        }
    }

    /// Returns true once the request's budget is used up.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.facts.work().is_some_and(|work| work.is_exhausted())
    }
}
