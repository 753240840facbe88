//! Rules about responses: lifetimes (mod_expires), edits of fields (mod_headers), and descriptions
//! of a file besides its type.
//!
//! Two ways to a head: what follows from the resource alone is laid over when a head is made that
//! is kept ([`prepare`] leaves it in the exchange); everything else is laid over on the way up
//! ([`ResponseRules`]). Difficulty: Apache's two tables of fields. What is set `always` stands in a
//! table of its own, which survives errors and goes out before the other one; an error drops the
//! other with everything in it.

pub mod edits;
pub mod encoding;
pub mod facts;
mod kept;
pub mod layers;
mod programs;
pub mod request;

use crate::{
    facts::RequestFacts,
    modules::{log_debug, setenvif},
    response::{
        edits::{EditContext, Received},
        facts::Answered,
        kept::{Kept, Later},
        layers::{Layers, Way, content_lines},
    },
    state::{State, peek, snapshot, state},
    worker::ApacheRules,
};
use saker_ap_expr::{Evaluation, Expression, Facts, Work};
use saker_apache_model::{
    dir_config::DirConfig,
    host::{Apache, Host},
    modules::headers::Edit,
};
use saker_content_filters::catalog;
use saker_files::{Kind, Watcher};
use saker_http::{Fields, Method, Status, date::parse_date};
use saker_net::blocking::Pause;
use saker_pipeline::{
    Exchange, Filter, HeadFacts, LocalFuture, Response, TraceStep, respond::built_in_page,
};
use std::{
    ffi::OsStr,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
    rc::Rc,
    sync::Arc,
};

/// Decides, once everything about the content is known, which way its head gets what the rules say.
pub fn prepare(
    exchange: &mut Exchange,
    host: &Arc<Host>,
    watcher: &Watcher,
    local: &Arc<DirConfig>,
) {
    if exchange.log.trace.is_some() {
        explain_edits(exchange, local);
    }
    let asks = ask_request(exchange, host, local);
    for name in &host.logged_variables {
        setenvif::depends_on_variable(exchange, host, local, Some(name.as_bytes()));
    }
    let own = snapshot(exchange);
    if asks
        || own.changes_content
        || !host.log_conditions.is_empty()
        || !local.log_debug.is_empty()
        || own.authentication_info.is_some()
        || own.session.is_some()
        || !own.cookies.is_empty()
    {
        exchange.depends_on_request();
        exchange.cache.head_edits = Some(Rc::new(Later));
        state(exchange).edits_ready_heads = true;
        return;
    }
    depend_on_variables(exchange, host, local);
    exchange.cache.head_edits = Some(Rc::new(Kept::new(exchange, own, host, watcher, local)));
}

fn edits<'e>(host: &'e Host, local: &'e DirConfig) -> impl Iterator<Item = &'e Edit> {
    [&local.headers, &host.defaults.headers]
        .into_iter()
        .flat_map(|headers| headers.success.iter().chain(&headers.always))
        .map(|edit| &**edit)
}

/// Returns whether edits depend on the request in a way that no test covers, and tells the
/// explanation which ones.
fn ask_request(exchange: &mut Exchange, host: &Host, local: &DirConfig) -> bool {
    let asks_variable = |edit: &Edit| {
        edit.variables
            .iter()
            .any(|name| setenvif::varies_untested(host, local, name.as_deref()))
    };
    let mut asks = false;
    for edit in edits(host, local) {
        if edit.asks_request || asks_variable(edit) {
            asks = true;
            exchange.trace(TraceStep::NOT_CACHED, Some(&edit.origin), || {
                format!(
                    "the edit of the field `{}` depends on the request",
                    edit.name
                )
            });
        }
    }
    // A head that may grow without end is edited where that can still be answered with 500.
    asks || local.headers.may_grow() || host.defaults.headers.may_grow()
}

fn depend_on_variables(exchange: &mut Exchange, host: &Host, local: &DirConfig) {
    for name in edits(host, local).flat_map(|edit| &edit.variables) {
        setenvif::depends_on_variable(exchange, host, local, name.as_deref());
    }
}

/// Records what the head of a rule's own answer depends on, which does not come by [`prepare`].
fn note_answer(exchange: &mut Exchange, host: &Host) {
    let own = snapshot(exchange);
    let local = own
        .local_or_url()
        .map_or_else(|| Arc::clone(&host.defaults), Arc::clone);
    for name in &host.logged_variables {
        setenvif::depends_on_variable(exchange, host, &local, Some(name.as_bytes()));
    }
    let is_of_request = ask_request(exchange, host, &local)
        || own.changes_content
        || !host.log_conditions.is_empty()
        || !local.log_debug.is_empty()
        || own.authentication_info.is_some()
        || !own.cookies.is_empty();
    if is_of_request {
        exchange.depends_on_request();
    } else {
        depend_on_variables(exchange, host, &local);
    }
}

fn explain_edits(exchange: &mut Exchange, local: &DirConfig) {
    for (edit, later) in local.headers.explained() {
        exchange.trace("fixups", Some(&edit.origin), || match later {
            Some(later) => format!(
                "`Header` edits the field `{}`; overridden by {}",
                edit.name, later.origin
            ),
            None => format!("`Header` edits the field `{}`", edit.name),
        });
    }
}

/// Facts about the head, as far as the response says them, or the file that it came to.
fn head_facts(
    exchange: &Exchange,
    response: &Response,
    own: &State,
    local: &DirConfig,
) -> HeadFacts {
    let modified = response.fields().first("Last-Modified");
    let modified_s = modified.and_then(|value| parse_date(value, exchange.now));
    let of_file = || {
        let is_wanted =
            local.expires.asks_modification() && own.kind.is_some() && own.proxied.is_none();
        let path = is_wanted.then(|| Path::new(OsStr::from_bytes(&own.filename)))?;
        path.metadata().ok().map(|metadata| metadata.mtime())
    };
    HeadFacts {
        status: response.status,
        now: exchange.now,
        modified_s: modified_s.or_else(of_file),
    }
}

/// Lines that go with every response: cookies, and with refusals what the choice among several files
/// depended on (mod_negotiation).
fn lines_of_all(own: &State, way: Way) -> Vec<(Box<str>, Box<[u8]>)> {
    let cookies = own.cookies.iter();
    let cookies = cookies.map(|(_, value)| ("Set-Cookie".into(), value.as_slice().into()));
    let negotiated = own.negotiated.iter().filter(|_| way == Way::Refusal);
    let varies = negotiated.filter(|(name, _)| &**name == "Vary");
    // Nothing was chosen in the end: only what the choice looked at counts.
    let looked_at = varies.filter_map(|(name, value)| {
        let names = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let names: Vec<&[u8]> = names.filter(|name| *name != b"negotiate").collect();
        (!names.is_empty()).then(|| (name.clone(), names.join(&b","[..]).into()))
    });
    cookies.chain(looked_at).collect()
}

/// Lines about the content of a response, if a handler has made it.
fn lines_of_content(own: &State, way: Way) -> Vec<(Box<str>, Box<[u8]>)> {
    if way == Way::Refusal {
        return Vec::new();
    }
    let mut lines = content_lines(own);
    let info = own.authentication_info.as_deref();
    lines.extend(info.map(|info| ("Authentication-Info".into(), info.into())));
    lines
}

/// Lays the rules over responses that are on their way up (filter, the last).
pub struct ResponseRules {
    rules: Rc<ApacheRules>,
}

impl ResponseRules {
    pub fn new(rules: Rc<ApacheRules>) -> ResponseRules {
        ResponseRules { rules }
    }

    /// Lays the rules over, and waits where one looks ahead to what is not known yet. False: there
    /// was too much to do, and what is left of the head is no answer.
    async fn lay_when_known(&self, exchange: &Exchange, response: &mut Response) -> bool {
        let untouched = self
            .looks_ahead(exchange)
            .then(|| response.fields_mut().clone());
        loop {
            match self.lay(exchange, response) {
                Ok(is_laid) => return is_laid,
                Err(pause) => pause.await,
            }
            if exchange.budget().work().is_exhausted() {
                return false;
            }
            if let Some(untouched) = &untouched {
                response.fields_mut().clone_from(untouched);
            }
        }
    }

    fn looks_ahead(&self, exchange: &Exchange) -> bool {
        let local = peek(exchange).and_then(|own| own.local_or_url());
        let defaults = host_of(&self.rules.apache, exchange).map(|host| &host.defaults);
        local
            .into_iter()
            .chain(defaults)
            .any(|local| local.headers.looks_ahead())
    }

    /// # Errors
    /// A look-ahead of an edit has to wait.
    fn lay(&self, exchange: &Exchange, response: &mut Response) -> Result<bool, Pause> {
        let Some(host) = host_of(&self.rules.apache, exchange) else {
            return Ok(true);
        };
        let own = snapshot(exchange);
        // Before the walk, what is in force for the host and the URL is in force.
        let local = own
            .local_or_url()
            .map_or_else(|| Arc::clone(&host.defaults), Arc::clone);
        let way = way(exchange, response.status, &own);
        if is_unparsed(exchange, &own) {
            return Ok(true);
        }
        if is_untouched(&own, &local, host, response) {
            layers::without_repetitions(response.fields_mut());
            layers::add_charset(&local, response.fields_mut());
            return Ok(true);
        }
        let is_page = has_filter(&own, &local, catalog::INCLUDES.name);
        let seen = RequestFacts {
            rules: Some((&self.rules, host)),
            ..RequestFacts::new(exchange, &own, host, self.rules.watcher())
        };
        let request: Vec<(&[u8], &[u8])> = exchange.head.view().fields().collect();
        let received = own.received.unwrap_or_else(Received::now);
        let headers = [&local.headers, &host.defaults.headers];
        let unused = Work::default();
        // A request that nothing edits needs no budget.
        let work = match headers.iter().any(|headers| headers.edits_response()) {
            true => exchange.budget().work(),
            false => &unused,
        };
        let context = EditContext {
            facts: &seen as &dyn Facts,
            received,
            request: &request,
            work,
        };
        let (always, content) = (lines_of_all(&own, way), lines_of_content(&own, way));
        let layers = Layers {
            is_of_program: exchange.upstream.is_answered_by_program
                && exchange.log.error_document.is_none()
                && programs::asks_program(exchange, &own, host),
            local: &local,
            defaults: &host.defaults,
            always: &always,
            content: &content,
            vary: &own.vary,
        };
        let head = head_facts(exchange, response, &own, &local);
        let fields = response.fields_mut();
        if let Some(media_type) = unsent_type(exchange, head.status, &own) {
            fields.set("Content-Type", media_type.as_bytes().to_vec());
        }
        if is_answered_early(exchange, head.status) {
            layers.lay_early(&context, fields);
            return Ok(true);
        }
        layers.lay(way, &head, &context, fields);
        if head.status == Status::NOT_MODIFIED {
            strip_not_modified(fields, is_page && local.include.entity_tag != Some(true));
        }
        match seen.pause.take() {
            Some(pause) => Err(pause),
            None => Ok(!work.is_exhausted()),
        }
    }
}

impl ResponseRules {
    /// Decides for logs with an expression (CustomLog `expr=`) whether they write, and notes what
    /// others tell.
    fn decide_logs(&self, exchange: &mut Exchange, response: &Response) {
        let Some(host) = host_of(&self.rules.apache, exchange) else {
            return;
        };
        let own = snapshot(exchange);
        let local = own.local_or_url().unwrap_or(&host.defaults);
        exchange.log.rules.hides_first_byte = local.logio.tracks_first_byte != Some(true);
        exchange.log.rules.gets_page = exchange.log.error_document.is_some();
        exchange.log.rules.is_canonical = local.core.canonical_name == Some(true);
        if host.log_conditions.is_empty() {
            return;
        }
        exchange.depends_on_request();
        // As Apache: what counts is the request before rules led it elsewhere, about which nothing
        // was known to be wrong.
        let first = exchange.log.original.take();
        let status = if first.is_some() {
            Status::OK
        } else {
            response.status
        };
        let last = first.as_ref().map(|first| {
            let path = std::mem::replace(&mut exchange.path, first.path.to_vec());
            (
                path,
                std::mem::replace(&mut exchange.environment, first.environment.clone()),
            )
        });
        let decisions = self.decisions(exchange, &own, host, status, response);
        exchange.log.original = first;
        if let Some((path, environment)) = last {
            (exchange.path, exchange.environment) = (path, environment);
        }
        exchange.log.rules.decisions = decisions;
    }

    fn decisions(
        &self,
        exchange: &Exchange,
        own: &State,
        host: &Host,
        status: Status,
        response: &Response,
    ) -> Vec<bool> {
        let seen = RequestFacts {
            is_for_logs: true,
            ..RequestFacts::new(exchange, own, host, self.rules.watcher())
        };
        let facts = Answered {
            request: &seen,
            status,
            fields: response.fields(),
            always: &Fields::new(),
            is_content: false,
        };
        // As Apache: what can't be evaluated is logged.
        let holds = |expression: &Arc<Expression>| {
            expression
                .evaluate(&mut Evaluation::new(&facts))
                .unwrap_or(true)
        };
        host.log_conditions.iter().map(holds).collect()
    }
}

/// True if no rule has anything to say about the head of a response.
fn is_untouched(own: &State, local: &DirConfig, host: &Host, response: &Response) -> bool {
    let is_whole = !matches!(
        response.status,
        Status::NOT_MODIFIED | Status::PRECONDITION_FAILED
    );
    is_whole
        && own.cookies.is_empty()
        && own.negotiated.is_empty()
        && own.content_lines.is_empty()
        && own.authentication_info.is_none()
        && own.vary.is_empty()
        && !local.expires.is_active()
        && !local.headers.edits_response()
        && !host.defaults.headers.edits_response()
}

/// The host whose rules are laid over the response to a request. A native site's requests have one
/// where `.htaccess` rules have been through them.
pub fn host_of<'a>(apache: &'a Apache, exchange: &Exchange) -> Option<&'a Arc<Host>> {
    apache.host_of(exchange.routing.site_index, peek(exchange).is_some())
}

/// Removes what describes content from a 304. It has the entity tag that a 200 has (RFC 9110 section
/// 15.4.5), so that of a file whose content is made anew goes, too.
fn strip_not_modified(fields: &mut Fields, is_untagged: bool) {
    for name in ["Content-Type", "Content-Encoding", "Content-Language"] {
        fields.remove(name);
    }
    if is_untagged {
        fields.remove("ETag");
    }
}

/// True if a filter of that name is applied without a condition.
fn has_filter(own: &State, local: &DirConfig, name: &str) -> bool {
    let set = local.filters.set.iter().flatten();
    own.output_filters
        .iter()
        .chain(set)
        .any(|one| one.eq_ignore_ascii_case(name))
}

/// Errors and redirects are refusals, unless a page of the site stands for the error.
pub fn way(exchange: &Exchange, status: Status, own: &State) -> Way {
    let is_success = status.0 < 300 || status == Status::NOT_MODIFIED;
    let went_well = is_success && !own.is_ended_by_rule;
    if went_well
        || own.is_error_page
        || is_unmet(exchange, status, own)
        || exchange.upstream.is_answered_by_program
    {
        Way::Content
    } else {
        Way::Refusal
    }
}

/// The type of content that is not sent, which edits may look at: Apache takes it away after them.
fn unsent_type<'e>(exchange: &'e Exchange, status: Status, own: &State) -> Option<&'e str> {
    let media_type = exchange.routing.settings.files.whole_type.as_deref();
    let is_unsent = status == Status::NOT_MODIFIED || is_unmet(exchange, status, own);
    media_type.filter(|_| is_unsent)
}

/// True for TRACE and `OPTIONS *`: as in Apache, they are answered before anything else has a say.
fn is_answered_early(exchange: &Exchange, status: Status) -> bool {
    let view = exchange.head.view();
    status == Status::OK
        && match view.method() {
            Method::Trace => true,
            Method::Options => view.target() == b"*",
            _ => false,
        }
}

/// True if a program has said its whole head itself (`nph-` in front of its name): as in Apache, that
/// is left as it is.
fn is_unparsed(exchange: &Exchange, own: &State) -> bool {
    let is_named_so = || {
        let name = own.filename.rsplit(|byte| *byte == b'/').next();
        name.is_some_and(|name| name.starts_with(b"nph-"))
    };
    exchange.upstream.is_answered_by_program
        && exchange.routing.handler.as_deref() == Some("cgi-script")
        && own.proxied.is_none()
        && is_named_so()
}

/// Returns whether a file's own conditions were not met (412): Apache sends the head that the file
/// would have, and no page.
pub fn is_unmet(exchange: &Exchange, status: Status, own: &State) -> bool {
    let method = exchange.head.view().method();
    status == Status::PRECONDITION_FAILED
        && matches!(method, Method::Get | Method::Head | Method::Post)
        && own.kind == Some(Kind::File)
        && exchange.routing.handler.is_none()
        && own.proxied.is_none()
}

impl Filter for ResponseRules {
    fn name(&self) -> &'static str {
        "rules"
    }

    fn takes_ready(&self, exchange: &Exchange) -> bool {
        peek(exchange).is_some_and(|state| state.edits_ready_heads)
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        if exchange.cache.keeps_answer
            && let Some(host) = self.rules.apache.hosts.get(exchange.routing.site_index)
        {
            note_answer(exchange, host);
        }
        Box::pin(async move {
            // Whatever led the request too far would edit the answer that says so, too.
            if exchange.is_over_budget() || !self.lay_when_known(exchange, response).await {
                exchange.is_over_budget();
                *response = built_in_page(Response::new(Status::INTERNAL_SERVER_ERROR));
            }
            self.decide_logs(exchange, response);
            if let Some(host) = host_of(&self.rules.apache, exchange) {
                log_debug::answered(exchange, host, self.rules.watcher(), response);
            }
        })
    }
}
