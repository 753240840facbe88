//! Records of finished requests for loggers, one per request, whatever happens.
//!
//! Called by: every driver.
//! Caveat: a request answered within its turn is logged from borrowed bytes; one whose body is
//! still to be sent keeps its head until then.
//! Out of scope: the loggers, which the registry lists.

use super::session::Session;
use saker_config::model::Site;
use saker_http::{Fields, HeadView, KnownField, RequestHead, Status, host};
use saker_pipeline::{
    Client, Environment, Exchange, FinishedRequest, LogFacts, LoggedSite, Loggers, Response,
};
use saker_telemetry::{
    Metric,
    access_log::{Computed, ConnectionStatus, Lookup, Record},
};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

/// Logged for a client that disconnected; the number is nginx's.
pub const CLIENT_CLOSED_REQUEST: Status = Status(499);

/// Facts about a response that dispatch, or the cached route, has established.
pub struct Facts<'a> {
    pub site: usize,
    pub status: Status,
    /// Decoded path.
    pub path: &'a [u8],
    pub fields: Option<&'a Fields>,
    /// Content-Length, if the head has it.
    pub length: Option<u64>,
    pub stays: bool,
    /// Set if a log of the site needs more.
    pub log_facts: Option<&'a Rc<LogFacts>>,
}

impl Facts<'_> {
    /// The fields of the response with the length, which is added when the head is encoded.
    fn sent_fields(&self) -> Fields {
        let mut fields = self.fields.cloned().unwrap_or_default();
        if let Some(length) = self.length.filter(|_| !fields.has("content-length")) {
            fields.append("Content-Length", length.to_string().into_bytes());
        }
        fields
    }
}

/// Content-Length of a response, if its head has it.
pub fn sent_length(response: &Response) -> Option<u64> {
    let has_length = !response.status.forbids_content() && response.tunnel.is_none();
    response.body.length().filter(|_| has_length)
}

/// Collects the facts of an exchange that the loggers of its site need.
pub fn log_facts(loggers: &Loggers, exchange: &Exchange) -> Option<Rc<LogFacts>> {
    let site = loggers.site(exchange.routing.site_index)?;
    site.needs
        .walk_facts()
        .then(|| Rc::new(LogFacts::of(exchange)))
}

/// Variables and notes as logs look for them.
struct InAnyCase<'a>(&'a Environment);

impl Lookup for InAnyCase<'_> {
    fn value(&self, name: &str) -> Option<&[u8]> {
        self.0.first(name.as_bytes())
    }
}

struct Trailers<'a>(&'a Fields);

impl Lookup for Trailers<'_> {
    fn value(&self, name: &str) -> Option<&[u8]> {
        self.0
            .iter()
            .find(|line| line.0.eq_ignore_ascii_case(name))
            .map(|line| line.1)
    }
}

/// Shows the request to the loggers of its site, with the facts of dispatch where one uses them.
fn finish(
    logged: &LoggedSite,
    (site, client): (usize, &Client),
    record: Record<'_>,
    log_facts: Option<&Rc<LogFacts>>,
) {
    let Some(log_facts) = log_facts else {
        return logged.finished(&FinishedRequest {
            site,
            record: &record,
            facts: None,
            client,
        });
    };
    let notes = log_facts.notes_at_end();
    let (environment, notes) = (InAnyCase(&log_facts.environment), InAnyCase(&notes));
    let record = Record {
        path: &log_facts.path,
        final_path: Some(&log_facts.final_path),
        final_method: log_facts.rules.gets_page.then_some(b"GET"),
        query: log_facts
            .first_query
            .as_ref()
            .map_or(record.query, Option::as_deref),
        final_query: log_facts.query.as_ref().map(Option::as_deref),
        file: log_facts.file.as_deref(),
        handler: &log_facts.handler,
        // Of a request that rules led elsewhere nothing was known to be wrong.
        original_status: match log_facts.is_redirected {
            true => 200,
            false => log_facts.error_status,
        },
        first_byte_us: record
            .first_byte_us
            .filter(|_| !log_facts.rules.hides_first_byte),
        host: if log_facts.rules.is_canonical {
            b""
        } else {
            record.host
        },
        log_id: log_facts.log_id.text().unwrap_or_default(),
        environment: Some(&environment),
        notes: Some(&notes),
        ..record
    };
    logged.finished(&FinishedRequest {
        site,
        record: &record,
        facts: Some(log_facts),
        client,
    });
}

/// Logs a response that has been handed over whole.
pub fn now(session: &Session, view: HeadView<'_>, facts: &Facts<'_>, body_bytes: u64, bytes: u64) {
    session
        .worker
        .counters
        .increment(Metric::for_status(facts.status.0));
    let services = session.worker.services.borrow();
    let Some(logged) = services.loggers.site(facts.site) else {
        return;
    };
    let needs = logged.needs;
    let (start_s, start_us) = start_time(needs.duration);
    let connection_status = if facts.stays {
        ConnectionStatus::KeepAlive
    } else {
        ConnectionStatus::Close
    };
    let fields = needs.response_fields.then(|| facts.sent_fields());
    let record = Record {
        site_name: &logged.name,
        body_bytes,
        bytes_out: bytes,
        start_s,
        start_us,
        duration_us: needs.duration.then_some(0),
        first_byte_us: needs.first_byte.then_some(0),
        connection_status,
        response_fields: fields.as_ref(),
        canonical_port: logged.port(session.client.secure),
        ..record(session, Some(view), facts.path, facts.status)
    };
    let record = match Rc::ptr_eq(&session.client, &session.connection) {
        true => record,
        false => of_client(record, &session.client),
    };
    finish(
        logged,
        (facts.site, &session.client),
        record,
        facts.log_facts,
    );
}

/// Logs a request that was refused before it was parsed, in the log of the listener's default
/// site.
pub fn refused(session: &Session, status: Status, bytes: &[u8], body_bytes: u64, bytes_out: u64) {
    session
        .worker
        .counters
        .increment(Metric::for_status(status.0));
    let services = session.worker.services();
    let Some((site, _)) =
        services
            .generation
            .hosts
            .select(&session.client.listener, session.client.local.ip(), b"")
    else {
        return;
    };
    let Some(logged) = services.loggers.site(site) else {
        return;
    };
    let (start_s, start_us) = start_time(true);
    let record = Record {
        site_name: &logged.name,
        request_line: request_line(bytes),
        body_bytes,
        // Nothing was sent: the connection is closed, or the client has closed it.
        connection_status: match bytes_out {
            0 => ConnectionStatus::Aborted,
            _ => ConnectionStatus::Close,
        },
        bytes_in: bytes.len() as u64,
        bytes_out,
        start_s,
        start_us,
        canonical_port: logged.port(session.client.secure),
        ..record(session, None, b"", status)
    };
    finish(logged, (site, &session.connection), record, None);
}

/// Logs a request whose client has left before there was a response, in the log of the site that it
/// names.
pub fn left(session: &Session, head: &RequestHead) {
    let (view, status) = (head.view(), CLIENT_CLOSED_REQUEST);
    session
        .worker
        .counters
        .increment(Metric::for_status(status.0));
    let services = session.worker.services();
    let host = view.known(KnownField::Host).and_then(host::parse_authority);
    let host = host.map(|authority| host::canonical_host(authority.host));
    let (listener, local) = (&session.client.listener, session.client.local.ip());
    let hosts = &services.generation.hosts;
    let Some((site, _)) = hosts.select(listener, local, &host.unwrap_or_default()) else {
        return;
    };
    let Some(logged) = services.loggers.site(site) else {
        return;
    };
    let (start_s, start_us) = start_time(true);
    let record = Record {
        site_name: &logged.name,
        connection_status: ConnectionStatus::Aborted,
        start_s,
        start_us,
        canonical_port: logged.port(session.client.secure),
        ..record(session, Some(view), b"", status)
    };
    finish(logged, (site, &session.connection), record, None);
}

/// The server that a request which is not understood belongs to.
pub fn default_site(session: &Session) -> Option<Arc<Site>> {
    let services = session.worker.services.borrow();
    let generation = &services.generation;
    let (listener, local) = (&session.client.listener, session.client.local.ip());
    let (index, _) = generation.hosts.select(listener, local, b"")?;
    generation.model.sites.get(index).cloned()
}

/// A line that waits for its response to be sent.
pub struct Pending {
    head: RequestHead,
    /// The loggers of the generation that `site` is an index into.
    loggers: Rc<Loggers>,
    site: usize,
    status: Status,
    path: Box<[u8]>,
    host: Box<[u8]>,
    fields: Option<Fields>,
    start_ns: u64,
    /// Time at which the head was complete, if it is needed.
    first_byte_ns: Option<u64>,
    /// Bytes of the request's body, without framing.
    body_bytes_in: Cell<u64>,
    /// Trailers of the request, and those of the response.
    trailers: RefCell<(Option<Fields>, Option<Fields>)>,
    user: Option<Box<str>>,
    /// Set if it is not the connection's: a trusted proxy or rules have named another.
    client: Option<Rc<Client>>,
    log_facts: Option<Rc<LogFacts>>,
}

impl Pending {
    /// `None`: no logger logs the site.
    pub fn new(session: &Session, view: HeadView<'_>, facts: &Facts<'_>) -> Option<Pending> {
        Pending::with_fields(session, session.worker.loggers(), view, facts, b"")
    }

    /// Uses the loggers of the generation that the site of `facts` belongs to.
    pub fn with_fields(
        session: &Session,
        loggers: Rc<Loggers>,
        view: HeadView<'_>,
        facts: &Facts<'_>,
        host: &[u8],
    ) -> Option<Pending> {
        session
            .worker
            .counters
            .increment(Metric::for_status(facts.status.0));
        let needs = loggers.site(facts.site)?.needs;
        let now_ns = saker_net::clock::realtime_precise_ns();
        Some(Pending {
            head: view.to_owned(),
            loggers,
            site: facts.site,
            status: facts.status,
            path: facts.path.into(),
            host: host.into(),
            fields: needs.response_fields.then(|| facts.sent_fields()),
            start_ns: now_ns,
            first_byte_ns: needs.first_byte.then_some(now_ns),
            body_bytes_in: Cell::new(0),
            trailers: RefCell::default(),
            user: None,
            client: client_apart(session, &session.client),
            log_facts: facts.log_facts.cloned(),
        })
    }

    /// The time that counts as the beginning, where it was before this line was made.
    pub fn began(mut self, start_ns: u64) -> Pending {
        self.start_ns = start_ns;
        self
    }

    /// The user and the client, as dispatch has established them.
    pub fn asked_by(mut self, session: &Session, exchange: &Exchange) -> Pending {
        self.user.clone_from(&exchange.access.user);
        self.client = client_apart(session, &exchange.client);
        self
    }

    /// Notes how many bytes of a body the request has brought.
    pub fn received(&self, body_bytes: u64) {
        self.body_bytes_in.set(body_bytes);
    }

    /// The client has left before anything was sent to it.
    pub fn client_closed_request(&mut self) {
        self.status = CLIENT_CLOSED_REQUEST;
    }

    pub fn request_trailers(&self, trailers: Option<Fields>) {
        self.trailers.borrow_mut().0 = trailers;
    }

    pub fn response_trailers(&self, trailers: Option<Fields>) {
        self.trailers.borrow_mut().1 = trailers;
    }

    /// `body_bytes` of content have gone, `bytes` with framing.
    pub fn write(
        &self,
        session: &Session,
        body_bytes: u64,
        bytes: u64,
        connection_status: ConnectionStatus,
    ) {
        let now_ns = saker_net::clock::realtime_precise_ns();
        let Some(logged) = self.loggers.site(self.site) else {
            return;
        };
        let trailers = self.trailers.borrow();
        let (asked, answered) = (
            trailers.0.as_ref().map(Trailers),
            trailers.1.as_ref().map(Trailers),
        );
        let record = Record {
            site_name: &logged.name,
            host: &self.host,
            request_trailers: asked.as_ref().map(|trailers| trailers as &dyn Lookup),
            response_trailers: answered.as_ref().map(|trailers| trailers as &dyn Lookup),
            body_bytes,
            bytes_in: self.head.view().byte_count() as u64 + self.body_bytes_in.get(),
            bytes_out: bytes,
            start_s: (self.start_ns / 1_000_000_000) as i64,
            start_us: (self.start_ns / 1000 % 1_000_000) as u32,
            duration_us: Some(now_ns.saturating_sub(self.start_ns) / 1000),
            first_byte_us: self
                .first_byte_ns
                .map(|at_ns| at_ns.saturating_sub(self.start_ns) / 1000),
            connection_status,
            response_fields: self.fields.as_ref(),
            user: self.user.as_deref(),
            canonical_port: logged.port(session.client.secure),
            ..record(session, Some(self.head.view()), &self.path, self.status)
        };
        let record = match &self.client {
            Some(client) => of_client(record, client),
            None => record,
        };
        let client = self.client.as_deref().unwrap_or(&session.connection);
        finish(logged, (self.site, client), record, self.log_facts.as_ref());
        if !Rc::ptr_eq(&self.loggers, &session.worker.services.borrow().loggers) {
            // The periodic flush covers only the loggers of the current generation.
            self.loggers.flush();
        }
    }
}

fn record<'a>(
    session: &'a Session,
    head: Option<HeadView<'a>>,
    path: &'a [u8],
    status: Status,
) -> Record<'a> {
    let client = &session.connection;
    Record {
        head,
        request_line: head.map_or(b"", HeadView::start_line),
        client_text: client.text().as_bytes(),
        client_name: name_of(client),
        client_port: client.address.port(),
        local: Some(client.local),
        host: head
            .and_then(|view| view.known(saker_http::KnownField::Host))
            .map_or(b"", without_port),
        path,
        bytes_in: head.map_or(0, |view| view.byte_count() as u64),
        query: head.and_then(|view| query_of(view.target())),
        status: status.0,
        handler: "",
        tls: client
            .session
            .as_deref()
            .map(|session| session as &dyn Computed),
        connection_log_id: client.log_id.text().unwrap_or_default(),
        keepalive_count: session.requests.saturating_sub(1),
        ..Record::default()
    }
}

/// The client, if it is not the connection's.
fn client_apart(session: &Session, client: &Rc<Client>) -> Option<Rc<Client>> {
    (!Rc::ptr_eq(client, &session.connection)).then(|| Rc::clone(client))
}

/// The record of a request whose client is not the connection's.
fn of_client<'a>(record: Record<'a>, client: &'a Client) -> Record<'a> {
    Record {
        client_text: client.text().as_bytes(),
        client_name: name_of(client),
        client_port: client.address.port(),
        peer_text: record.client_text,
        ..record
    }
}

fn name_of(client: &Client) -> &[u8] {
    client.name().unwrap_or_default().as_bytes()
}

fn query_of(target: &[u8]) -> Option<&[u8]> {
    target
        .iter()
        .position(|byte| *byte == b'?')
        .map(|at| &target[at + 1..])
}

/// The part of a valid Host before the port. An IPv6 address ends in its bracket.
fn without_port(host: &[u8]) -> &[u8] {
    match host.iter().rposition(|byte| matches!(byte, b':' | b']')) {
        Some(at) if host[at] == b':' => &host[..at],
        _ => host,
    }
}

/// Coarse unless a duration is wanted.
fn start_time(precise: bool) -> (i64, u32) {
    match precise {
        true => {
            let now_ns = saker_net::clock::realtime_precise_ns();
            (
                (now_ns / 1_000_000_000) as i64,
                (now_ns / 1000 % 1_000_000) as u32,
            )
        }
        false => (saker_net::clock::turn_s(), 0),
    }
}

pub fn request_line(bytes: &[u8]) -> &[u8] {
    let text = bytes.trim_ascii_start();
    &text[..text
        .iter()
        .position(|byte| matches!(byte, b'\r' | b'\n'))
        .unwrap_or(text.len())
        .min(8192)]
}
