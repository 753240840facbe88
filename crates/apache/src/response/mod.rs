//! What the rules do to responses: lifetimes (mod_expires), edits of fields (mod_headers), and what
//! describes a file besides its type.
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
pub mod request;

use crate::{
    facts::Seen,
    host::{Apache, Host},
    local::Local,
    modules::{headers::Edit, log_debug, setenvif},
    state::{State, peek, state},
};
use edits::{Received, World, apply_all};
use facts::Answered;
use kept::{Kept, Later};
use saker_ap_expr::{Evaluation, Expression, Facts, Work};
use saker_files::{Kind, Watcher};
use saker_http::{Fields, Status, date::parse_date};
use saker_pipeline::{Exchange, Filter, HeadFacts, LocalFuture, Response, respond::built_in_page};
use std::{rc::Rc, sync::Arc};

/// Fields that are the driver's, whatever the rules say (RFC 9110 section 7.6.1, RFC 9112 section
/// 6); Apache keeps Date and Server to itself.
const DRIVERS: [&str; 7] = [
    "Content-Length",
    "Transfer-Encoding",
    "Connection",
    "Keep-Alive",
    "Upgrade",
    "Date",
    "Server",
];

/// What is laid over one response.
pub struct Layers<'l> {
    pub local: &'l Local,
    /// Of the host: edits before everything else are its alone.
    pub defaults: &'l Local,
    /// Lines that survive errors.
    pub always: &'l [(Box<str>, Box<[u8]>)],
    /// Lines about the content.
    pub content: &'l [(Box<str>, Box<[u8]>)],
    pub vary: &'l [String],
}

/// How Apache would have come to a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A handler has answered; the page for an error counts.
    Content,
    /// A phase before has refused, failed or redirected.
    Refusal,
}

impl Layers<'_> {
    pub fn lay(&self, way: Way, head: &HeadFacts, world: &World<'_>, fields: &mut Fields) {
        let mut always = Fields::new();
        let drivers: Vec<(String, Vec<u8>)> = DRIVERS
            .iter()
            .filter_map(|name| taken(fields, name))
            .collect();
        self.early(way, world, &mut always, fields);
        self.always
            .iter()
            .for_each(|(name, value)| always.append(name.to_string(), value.to_vec()));
        if way == Way::Content {
            let missing = self
                .content
                .iter()
                .filter(|(name, _)| !fields.has(name))
                .collect::<Vec<_>>();
            let varies = self
                .content
                .iter()
                .filter(|(name, _)| &**name == "Vary" && fields.has(name))
                .collect::<Vec<_>>();
            for name in varies
                .iter()
                .flat_map(|(_, value)| value.split(|byte| *byte == b','))
            {
                fields.add_token("Vary", &String::from_utf8_lossy(name));
            }
            missing
                .into_iter()
                .for_each(|(name, value)| fields.append(name.to_string(), value.to_vec()));
            self.vary
                .iter()
                .for_each(|name| fields.add_token("Vary", name));
        }
        if self.local.expires.is_active() {
            // The note that goes with a redirect is HTML.
            let is_note = way == Way::Refusal && !fields.has("Content-Type");
            if is_note {
                fields.append("Content-Type", &b"text/html"[..]);
            }
            self.local.expires.apply(head, fields);
            if is_note {
                fields.remove("Content-Type");
            }
        }
        self.edit(
            &self.local.headers.always,
            head,
            world,
            &mut always,
            fields,
            true,
        );
        if way == Way::Content {
            self.edit(
                &self.local.headers.success,
                head,
                world,
                &mut always,
                fields,
                false,
            );
        }
        finish(always, drivers, fields);
    }

    /// What was put into the tables before anything else happened, as far as nothing has replaced
    /// it.
    fn early(&self, way: Way, world: &World<'_>, always: &mut Fields, fields: &mut Fields) {
        let headers = &self.defaults.headers;
        apply_all(&headers.always, true, always, world);
        if way == Way::Content && headers.success.iter().any(|edit| edit.is_early()) {
            let mut early = Fields::new();
            apply_all(&headers.success, true, &mut early, world);
            for (name, value) in early.iter() {
                if !fields.has(name) {
                    fields.append(name.to_owned(), value.to_vec());
                }
            }
        }
    }

    fn edit(
        &self,
        all: &[Arc<Edit>],
        head: &HeadFacts,
        world: &World<'_>,
        always: &mut Fields,
        fields: &mut Fields,
        is_always: bool,
    ) {
        // Parts are made of the whole after everything else.
        let status = if head.status == Status::PARTIAL_CONTENT {
            Status::OK
        } else {
            head.status
        };
        for edit in all.iter().filter(|edit| !edit.is_early()) {
            if world.work.is_exhausted() {
                return;
            }
            // A type is no field of either table in Apache: what sets it sets it for good.
            let of_type = edit.name.eq_ignore_ascii_case("Content-Type");
            let echoed = {
                let (seen_fields, seen_always) = (fields.clone(), always.clone());
                let facts = Answered {
                    request: world.facts,
                    status,
                    fields: &seen_fields,
                    always: &seen_always,
                };
                if !edits::holds(edit, &facts) {
                    continue;
                }
                let world = World {
                    facts: &facts,
                    ..*world
                };
                let table = if is_always && !of_type {
                    &mut *always
                } else {
                    &mut *fields
                };
                edits::apply(edit, table, &world)
            };
            echoed
                .into_iter()
                .for_each(|(name, value)| fields.append(name, value));
        }
    }
}

fn taken(fields: &mut Fields, name: &str) -> Option<(String, Vec<u8>)> {
    let value = fields.first(name)?.to_vec();
    fields.remove(name);
    Some((name.to_owned(), value))
}

/// One table before the other; what is the driver's stays as it was.
fn finish(always: Fields, drivers: Vec<(String, Vec<u8>)>, fields: &mut Fields) {
    let own = std::mem::take(fields);
    for (name, value) in always.iter().chain(own.iter()) {
        if !DRIVERS
            .iter()
            .any(|driver| driver.eq_ignore_ascii_case(name))
        {
            fields.append(name.to_owned(), value.to_vec());
        }
    }
    drivers
        .into_iter()
        .for_each(|(name, value)| fields.append(name, value));
}

/// Decides, once everything about the content is known, which way its head gets what the rules say.
pub fn prepare(exchange: &mut Exchange, host: &Arc<Host>, watcher: &Watcher, local: &Arc<Local>) {
    if exchange.trace.is_some() {
        explain_edits(exchange, local);
    }
    let headers = [&local.headers, &host.defaults.headers];
    let asks_variable = |edit: &Edit| {
        edit.variables
            .iter()
            .any(|name| setenvif::may_vary(host, local, name.as_deref()))
    };
    let asks_edit = |edit: &Edit| edit.asks_request || asks_variable(edit);
    // A head that may grow without end is edited where that can still be answered with 500.
    let may_grow = headers.iter().any(|headers| headers.may_grow());
    let asks = may_grow
        || headers.iter().any(|headers| {
            headers
                .success
                .iter()
                .chain(&headers.always)
                .any(|edit| asks_edit(edit))
        });
    if host
        .logged_variables
        .iter()
        .any(|name| setenvif::may_vary(host, local, Some(name.as_bytes())))
    {
        exchange.depends_on_request();
    }
    let own = peek(exchange).cloned().unwrap_or_default();
    if asks
        || own.changes_content
        || !host.log_conditions.is_empty()
        || !local.log_debug.is_empty()
        || own.authentication_info.is_some()
        || !own.cookies.is_empty()
        || !own.vary.is_empty()
    {
        exchange.depends_on_request();
        exchange.head_edits = Some(Rc::new(Later));
        state(exchange).edits_ready_heads = true;
        return;
    }
    exchange.head_edits = Some(Rc::new(Kept::new(exchange, own, host, watcher, local)));
}

fn explain_edits(exchange: &mut Exchange, local: &Local) {
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

/// Lines about a file's content that its type does not say.
pub fn content_lines(own: &State) -> Vec<(Box<str>, Box<[u8]>)> {
    if own.kind != Some(Kind::File) {
        return Vec::new();
    }
    let is_replaced = |name: &str| own.negotiated.iter().any(|(other, _)| &**other == name);
    own.content_lines
        .iter()
        .filter(|(name, _)| !is_replaced(name))
        .chain(&own.negotiated)
        .cloned()
        .collect()
}

/// Lays the rules over responses that are on their way up (filter, the last).
pub struct ResponseRules {
    apache: Arc<Apache>,
    watcher: Watcher,
}

impl ResponseRules {
    pub fn new(apache: Arc<Apache>, watcher: Watcher) -> ResponseRules {
        ResponseRules { apache, watcher }
    }

    /// False: there was too much to do, and what is left of the head is no answer.
    fn lay(&self, exchange: &Exchange, response: &mut Response) -> bool {
        let Some(host) = self.apache.hosts.get(exchange.site_index) else {
            return true;
        };
        let own = peek(exchange).cloned().unwrap_or_default();
        // Before the walk, what is in force for the whole host is in force.
        let local = own
            .local
            .clone()
            .unwrap_or_else(|| Arc::clone(&host.defaults));
        let way = way(exchange, response.status, &own);
        let seen = Seen::new(exchange, &own, host, &self.watcher);
        let request: Vec<(&[u8], &[u8])> = exchange.head.view().fields().collect();
        let received = own.received.unwrap_or_else(Received::now);
        let headers = [&local.headers, &host.defaults.headers];
        let unused = Work::default();
        // A request that nothing edits needs no budget.
        let edits = headers.iter().any(|headers| headers.edits_response());
        let work = if edits {
            exchange.budget().work()
        } else {
            &unused
        };
        let world = World {
            facts: &seen as &dyn Facts,
            received,
            request: &request,
            work,
        };
        let always: Vec<(Box<str>, Box<[u8]>)> = own
            .cookies
            .iter()
            .map(|(_, value)| ("Set-Cookie".into(), value.as_slice().into()))
            .collect();
        let mut content = if response.status.is_error() {
            Vec::new()
        } else {
            content_lines(&own)
        };
        if let Some(info) = own
            .authentication_info
            .as_deref()
            .filter(|_| !response.status.is_error())
        {
            content.push(("Authentication-Info".into(), info.into()));
        }
        let layers = Layers {
            local: &local,
            defaults: &host.defaults,
            always: &always,
            content: &content,
            vary: &own.vary,
        };
        let modified_s = response
            .fields()
            .first("Last-Modified")
            .and_then(|value| parse_date(value, exchange.now));
        let head = HeadFacts {
            status: response.status,
            now: exchange.now,
            modified_s,
        };
        let fields = response.fields_mut();
        // Apache takes what describes the content away after the edits, which may look at it.
        let media_type = exchange
            .settings
            .files
            .whole_type
            .as_deref()
            .filter(|_| head.status == Status::NOT_MODIFIED);
        media_type
            .into_iter()
            .for_each(|kind| fields.set("Content-Type", kind.as_bytes().to_vec()));
        layers.lay(way, &head, &world, fields);
        if head.status == Status::NOT_MODIFIED {
            ["Content-Type", "Content-Encoding", "Content-Language"]
                .iter()
                .for_each(|name| {
                    fields.remove(name);
                });
        }
        !work.is_exhausted()
    }
}

impl ResponseRules {
    /// What logs with an expression are to do (CustomLog `expr=`), and what others may tell.
    fn decide_logs(&self, exchange: &mut Exchange, response: &Response) {
        let Some(host) = self.apache.hosts.get(exchange.site_index) else {
            return;
        };
        let own = peek(exchange).cloned().unwrap_or_default();
        let local = own.local.as_ref().unwrap_or(&host.defaults);
        exchange.log_rules.hides_first_byte = local.logio.tracks_first_byte != Some(true);
        exchange.log_rules.is_canonical = local.core.canonical_name == Some(true);
        if host.log_conditions.is_empty() {
            return;
        }
        exchange.depends_on_request();
        // As Apache: what counts is the request before rules led it elsewhere, about which nothing
        // was known to be wrong.
        let first = exchange.first.take();
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
        exchange.first = first;
        if let Some((path, environment)) = last {
            (exchange.path, exchange.environment) = (path, environment);
        }
        exchange.log_rules.decisions = decisions;
    }

    fn decisions(
        &self,
        exchange: &Exchange,
        own: &State,
        host: &Host,
        status: Status,
        response: &Response,
    ) -> Vec<bool> {
        let seen = Seen::new(exchange, own, host, &self.watcher);
        let facts = Answered {
            request: &seen,
            status,
            fields: response.fields(),
            always: &Fields::new(),
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

/// Errors and redirects are refusals, unless a page of the site stands for the error.
pub fn way(exchange: &Exchange, status: Status, own: &State) -> Way {
    let went_well = status.0 < 300 || status == Status::NOT_MODIFIED;
    if went_well || own.is_error_page || exchange.is_answered_by_program {
        Way::Content
    } else {
        Way::Refusal
    }
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
        // Whatever led the request too far would edit the answer that says so, too.
        if exchange.is_over_budget() || !self.lay(exchange, response) {
            exchange.is_over_budget();
            *response = built_in_page(Response::new(Status::INTERNAL_SERVER_ERROR));
        }
        self.decide_logs(exchange, response);
        if let Some(host) = self.apache.hosts.get(exchange.site_index) {
            log_debug::answered(exchange, host, &self.watcher, response);
        }
        Box::pin(std::future::ready(()))
    }
}
