//! State of the rules about a request between two phases; kept in the exchange.

use crate::{
    authorizers::Questions,
    dbd::Asked,
    form_state::{FormHandler, LoadedSession, ReadForm},
    includes::shared::Shared,
    listing::work::Work,
    proxy::proxied::Proxied,
    response::edits::Received,
};
use saker_ap_expr::Dependencies;
use saker_apache_model::{dir_config::DirConfig, host::Host};
use saker_config::model::Settings;
use saker_files::Kind;
use saker_pipeline::{Exchange, Extensions};
use std::{cell::RefCell, rc::Rc, sync::Arc};

/// Makes room for database queries, whose results belong to the request.
pub fn may_ask(exchange: &mut Exchange, host: &Host) {
    if host.dbd.is_some() {
        state(exchange).asked.get_or_insert_default();
    }
}

#[derive(Clone, Default)]
pub struct State {
    /// In force at the file; `None` before the walk.
    pub local: Option<Arc<DirConfig>>,
    /// In force before the walk: those of the host and of the URL. Errors and redirects of rules for
    /// the whole host are answered with them.
    pub url_local: Option<Arc<DirConfig>>,
    /// The settings of a native site or its route, which lie below `local`; `None` for Apache's.
    pub base: Option<Arc<Settings>>,
    /// The file, or as much of it as is there (Apache's `r->filename`).
    pub filename: Vec<u8>,
    /// `None`: not there.
    pub kind: Option<Kind>,
    /// The path that was walked; an internal redirect changes the exchange's before it begins anew,
    /// and renames variables if this is there.
    pub path: Vec<u8>,
    /// The query that came with it.
    pub query: Option<Vec<u8>>,
    /// Path and query of the request that led to this one.
    pub led_from: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// The part of the path that an alias stands for, and its folder.
    pub context: Option<(Vec<u8>, Vec<u8>)>,
    /// Whose folder it is in (`/~name/`), where programs run as their owners.
    pub home_of: Option<Box<str>>,
    /// The alias makes a script of the file.
    pub is_script_alias: bool,
    /// Found by rewriting in server context: taken as a file at once.
    pub translated: Option<Translated>,
    /// Set if another server answers.
    pub proxied: Option<Box<Proxied>>,
    /// It is for another server, and this one a forward proxy.
    pub is_forwarded: bool,
    /// The file and its handler are those of an earlier request's decision.
    pub is_decided: bool,
    /// A rule with `[END]` has matched.
    pub rewrite_ended: bool,
    /// Set by `[H=]` and `[T=]`.
    pub forced_handler: Option<Box<str>>,
    pub forced_type: Option<Box<str>>,
    /// Fields for the response whatever becomes of it (cookies of rewrite rules).
    pub cookies: Vec<(Vec<u8>, Vec<u8>)>,
    /// Names for the Vary field.
    pub vary: Vec<String>,
    /// The settings that access was last decided by, and the folder: with both the same it is not
    /// decided again.
    pub decided_by: Option<(Arc<DirConfig>, Box<[u8]>)>,
    /// The value of Authentication-Info.
    pub authentication_info: Option<Vec<u8>>,
    /// The time at which the request came, where something wants to know.
    pub received: Option<Received>,
    /// Heads that are ready get their edits on the way up, because these depend on the request.
    pub edits_ready_heads: bool,
    /// Fields that describe the file's content besides its type: language and coding.
    pub content_lines: Vec<(Box<str>, Box<[u8]>)>,
    /// Filters that the file's extensions name.
    pub output_filters: Vec<Box<str>>,
    /// Filters make other content of the file.
    pub changes_content: bool,
    /// Fields that tell how the file was chosen among several.
    pub negotiated: Vec<(Box<str>, Box<[u8]>)>,
    /// Its answer stands for an error.
    pub is_error_page: bool,
    /// Path and query of the page that stands for an error, once the request has its answer.
    pub answered_as: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// A rule has ended the request with a status of success (`[R=204]`), which Apache treats as a
    /// refusal: fields set on success are not sent.
    pub is_ended_by_rule: bool,
    /// Rules of a folder have led to another path, and what was at the old one.
    pub is_rewritten: bool,
    pub rewritten_as: Option<Kind>,
    /// The path whose rules look at this one.
    pub looked_at_from: Option<Box<[u8]>>,
    /// Inside a look-ahead, or at an index file that is tried.
    pub is_subrequest: bool,
    /// An index file or a variant that is tried, to take the place of the request.
    pub is_candidate: bool,
    /// A request of a page's, which goes as far as its content.
    pub is_answered: bool,
    /// State that the including page shares with it; not with what rules make of it, as in Apache.
    pub page: Option<Rc<Shared>>,
    /// It is asked for by its name in the file system, not by a path.
    pub looked_up_file: Option<Vec<u8>>,
    /// Database queries of the request, where there is a database.
    pub asked: Option<Rc<Asked>>,
    /// Shared by all copies, so that an answer is there however often a phase begins again.
    pub questions: Rc<Questions>,
    /// The listing of the folder, while it is made.
    pub listing: Option<Rc<Work>>,
    /// A page runs it as a program, whatever it is.
    pub is_program: bool,
    /// Content of the request that the parts of its page get, too (KeptBodySize).
    pub kept_content: Option<Rc<[u8]>>,
    /// The same, while it is read.
    pub keeps_content: Option<Rc<RefCell<ReadForm>>>,
    /// The client's session, which requests inside of this one share.
    pub session: Option<LoadedSession>,
    /// The form of a log-in.
    pub form: Option<Rc<RefCell<ReadForm>>>,
    /// A handler of forms that waits.
    pub form_handler: Option<FormHandler>,
    /// The response must not be stored by clients.
    pub forbids_storing: bool,
    /// Hints of the configuration have been sent (H2EarlyHints).
    pub has_hinted: bool,
}

impl State {
    /// A new state of the request that has asked `questions`.
    pub fn new(questions: Rc<Questions>) -> State {
        State {
            local: None,
            url_local: None,
            base: None,
            filename: Vec::new(),
            kind: None,
            path: Vec::new(),
            query: None,
            led_from: None,
            context: None,
            home_of: None,
            is_script_alias: false,
            translated: None,
            proxied: None,
            is_forwarded: false,
            is_decided: false,
            rewrite_ended: false,
            forced_handler: None,
            forced_type: None,
            cookies: Vec::new(),
            vary: Vec::new(),
            decided_by: None,
            authentication_info: None,
            received: None,
            edits_ready_heads: false,
            content_lines: Vec::new(),
            output_filters: Vec::new(),
            changes_content: false,
            negotiated: Vec::new(),
            is_error_page: false,
            answered_as: None,
            is_ended_by_rule: false,
            is_rewritten: false,
            rewritten_as: None,
            looked_at_from: None,
            is_subrequest: false,
            is_candidate: false,
            is_answered: false,
            page: None,
            looked_up_file: None,
            asked: None,
            questions,
            listing: None,
            is_program: false,
            kept_content: None,
            keeps_content: None,
            session: None,
            form: None,
            form_handler: None,
            forbids_storing: false,
            has_hinted: false,
        }
    }

    /// The settings that a response is edited with.
    pub fn local_or_url(&self) -> Option<&Arc<DirConfig>> {
        self.local.as_ref().or(self.url_local.as_ref())
    }

    /// The part that is still true when everything begins again with another path.
    pub fn for_another_round(self) -> State {
        State {
            rewrite_ended: self.rewrite_ended,
            cookies: self.cookies,
            vary: self.vary,
            decided_by: self.decided_by,
            is_subrequest: self.is_subrequest,
            is_candidate: self.is_candidate,
            received: self.received,
            is_error_page: self.is_error_page,
            looked_at_from: self.looked_at_from,
            negotiated: self.negotiated,
            is_answered: self.is_answered,
            page: self.page.filter(|_| self.path.is_empty()),
            looked_up_file: self.looked_up_file,
            is_program: self.is_program,
            led_from: self.led_from,
            asked: self.asked,
            session: self.session,
            form: self.form,
            kept_content: self.kept_content,
            has_hinted: self.has_hinted,
            ..State::new(self.questions)
        }
    }
}

/// The result of rewriting a path in server context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Translated {
    /// A file.
    File(Vec<u8>),
    /// Below the document root, whatever aliases there are.
    BelowRoot(Vec<u8>),
}

/// An exchange has a share of its state: a snapshot costs nothing unless something is changed while
/// it is there.
type OwnShare = Rc<State>;

/// The state of an exchange, made where there is none.
pub fn state(exchange: &mut Exchange) -> &mut State {
    Rc::make_mut(exchange.extensions.get_or_default::<OwnShare>())
}

/// The state, if there is one.
pub fn peek(exchange: &Exchange) -> Option<&State> {
    exchange.extensions.get::<OwnShare>().map(|state| &**state)
}

/// The state as it is now, whatever becomes of the exchange's.
pub fn snapshot(exchange: &Exchange) -> Rc<State> {
    exchange
        .extensions
        .get::<OwnShare>()
        .cloned()
        .unwrap_or_default()
}

/// Adds the fields that rules have asked for to those that the response varies by.
pub fn vary_by(exchange: &mut Exchange, dependencies: &Dependencies) {
    let mut names = dependencies.vary().peekable();
    if names.peek().is_some() {
        state(exchange).vary.extend(names.map(str::to_owned));
    }
}

/// Takes the state of `inner` over, if it has one.
pub fn adopt(exchange: &mut Exchange, inner: &mut Exchange) {
    if let Some(state) = inner.extensions.remove::<OwnShare>() {
        exchange.extensions.insert(state);
    }
}

/// Attaches a state.
pub fn attach(extensions: &mut Extensions, state: State) {
    extensions.insert(Rc::new(state));
}
