//! The gateway: carries out upstream requests.
//!
//! Called by: the content phase, for upstream requests of rules and handlers alike.
//! Caveat: the places that a request holds at its upstream are given back when its response has
//! ended, not when it has begun.
//! Out of scope: choosing upstreams, except for native proxy routes ([`ProxyRoutes`]).

use crate::{
    accel_redirect::{self, Order, Steering},
    answer,
    balancer::Group,
    bodies::{OfUnknownLength, Unsent, WithPlace},
    cgi,
    codecs::Codec,
    connection_exchange::{ConnectionExchange, Terms},
    exchange_context::{ExchangeContext, READ_BYTES_MAX, UpstreamEvent},
    failure::Failure,
    field_names,
    groups::Groups,
    hints::Hints,
    mirror::{self, Mirrors},
    native, nginx_words,
    pool::{Connection, Pool},
    programs::Programs,
    public_urls,
    script_log_tee::{ScriptLogTee, Transcript},
    spool::{self, Bounds, Pump, ReadAhead, RelayedBody, Room},
    traces,
    transport::Transport,
    upstream_exchange::UpstreamExchange,
    upstream_fields, variables,
};
use saker_cgi::{Dialogue, PlainCgi, ProgramRequest, ResponseHead, Variables};
use saker_config::model::{Activity, Member, MemberState, Rate, Upstream};
use saker_files::BufferFiles;
use saker_http::{KnownField, Method, Status, Version};
use saker_ipset::ClientNetwork;
use saker_net::{
    Deadlines, clock,
    program::{ProgramPlan, Spawner},
};
use saker_pipeline::{
    Body, Chunk, ClientAbort, Exchange, Forwarder, Handled, InternalRedirect, LocalFuture,
    ProcessManner, Response, Script, UpstreamGate, UpstreamRequest, UpstreamTarget,
    script_log::ScriptLog, template,
};
use saker_telemetry::{Counters, error_log, message};
use std::{
    cell::RefCell,
    future::poll_fn,
    num::NonZeroU64,
    rc::{Rc, Weak},
    sync::Arc,
};

/// Content that is waited for no longer than it takes to look whether it is there, so that a short
/// response leaves in one piece.
const WHOLE_BYTES_MAX: usize = 256 << 10;
/// A program that is started for a request, where nothing else is said: Apache's `Timeout`.
const PROGRAM_TIMEOUT_MS: u64 = 60_000;
/// Limits on how far a response may run ahead of the client.
const PROGRAM_BOUNDS: Bounds = Bounds {
    memory_bytes: 256 << 10,
    disk_bytes: 1 << 30,
};
/// The same for responses that are not buffered.
const UNBUFFERED: Bounds = Bounds {
    memory_bytes: READ_BYTES_MAX,
    disk_bytes: 0,
};

/// One per worker.
pub struct Gateway {
    pub(crate) context: ExchangeContext,
    pub(crate) workers: usize,
    /// For responses and requests that are too long for memory.
    pub(crate) files: Arc<BufferFiles>,
    groups: Groups,
    pub(crate) variables: RefCell<Variables>,
    programs: Programs,
    known_scripts: native::KnownScripts,
    last_options: native::LastOptions,
    spare_scripts: native::SpareScripts,
    mirrors: Mirrors,
    counters: Arc<Counters>,
    /// For tasks that outlive a request.
    own: Weak<Gateway>,
}

impl Gateway {
    /// Returns the files in which responses are buffered for slow clients.
    pub fn buffer_files(&self) -> Arc<BufferFiles> {
        Arc::clone(&self.files)
    }

    /// `spawner`: of programs that run as other users than the server.
    pub fn new(
        deadlines: Rc<Deadlines>,
        workers: usize,
        files: Arc<BufferFiles>,
        spawner: Option<Arc<dyn Spawner>>,
    ) -> Gateway {
        Gateway {
            context: ExchangeContext::new(deadlines),
            workers,
            files,
            groups: Groups::new(workers),
            variables: RefCell::default(),
            programs: Programs::new(workers, spawner),
            known_scripts: native::KnownScripts::default(),
            last_options: native::LastOptions::default(),
            spare_scripts: native::SpareScripts::default(),
            mirrors: Mirrors::default(),
            counters: Arc::default(),
            own: Weak::new(),
        }
    }

    /// Shares the gateway with its own tasks. It counts in `counters`.
    pub fn shared(mut self, counters: Arc<Counters>) -> Rc<Gateway> {
        self.counters = counters;
        Rc::new_cyclic(|own| {
            self.own = Weak::clone(own);
            self
        })
    }

    /// Makes a copy of the request if its route wants one.
    fn mirror(&self, exchange: &mut Exchange, call: &UpstreamRequest) {
        let terms = call.manner.terms.as_ref();
        let Some(mirror) = terms.and_then(|terms| terms.mirror.as_ref()) else {
            return;
        };
        let Some(own) = self.own.upgrade() else {
            return;
        };
        let send: mirror::Send = Box::new(move |mut exchange, call, upstream| {
            Box::pin(async move {
                let group = own.group(&upstream);
                match own.ask(&mut exchange, &call, &group).await {
                    Ok(mut heard) => {
                        heard.upstream.drain().await;
                        true
                    }
                    Err(_) => false,
                }
            })
        });
        self.mirrors
            .begin(&self.counters, exchange, (call, mirror), send);
    }

    /// Waits for a place where places are counted, and holds it until the response has ended.
    async fn pass_gate(
        &self,
        exchange: &mut Exchange,
        call: Box<UpstreamRequest>,
        gate: Rc<dyn UpstreamGate>,
    ) -> Handled {
        let permit = match gate.enter(exchange).await {
            Ok(permit) => permit,
            Err(refusal) => return Handled::Answered(refusal),
        };
        match self.carry_out(exchange, call).await {
            Handled::Answered(mut response) if !permit.is_empty() => {
                response.body = match response.body {
                    Body::Stream(body) => Body::Stream(Box::new(WithPlace {
                        body,
                        _permit: permit,
                    })),
                    whole => whole,
                };
                Handled::Answered(response)
            }
            other => other,
        }
    }

    async fn carry_out(&self, exchange: &mut Exchange, mut call: Box<UpstreamRequest>) -> Handled {
        let trace = exchange.log.request_trace.clone();
        let begun_ns = trace.as_ref().map(|_| clock::realtime_precise_ns());
        let heard = match &call.to {
            UpstreamTarget::Upstream(upstream) => {
                self.mirror(exchange, &call);
                let alone = upstream.alone.as_ref();
                let alone = alone.filter(|_| leaves_content(exchange));
                let group = self.group(alone.unwrap_or(upstream));
                let heard = self.ask(exchange, &call, &group).await;
                let by_apache = call.manner.has_apaches_statuses && call.script.is_none();
                heard.map_err(|(failure, name)| {
                    let status = match by_apache {
                        true => failure.status_by_apache(),
                        false => failure.status(),
                    };
                    refusal(exchange, &failure, status, &format!("{name}: {failure}"))
                })
            }
            UpstreamTarget::Process(manner) => Box::pin(self.run(exchange, &call, manner)).await,
        };
        if let (Some(trace), Some(begun_ns)) = (&trace, begun_ns) {
            let (status, name) = match &heard {
                Ok(heard) => (heard.head.status, Some(&*heard.name)),
                Err(refusal) => (refusal.status, None),
            };
            traces::upstream(trace, begun_ns, status, name);
        }
        let handled = match heard {
            Ok(heard) => self.answer(exchange, &call, heard).await,
            Err(refusal) => Handled::Answered(refusal),
        };
        match &exchange.cache.decision {
            Some(decision) => decision.keep_request(call),
            // Only native routes take them again.
            None if call.manner.terms.is_some() => self.spare_scripts.keep(call.script.take()),
            None => {}
        }
        handled
    }

    /// Starts a program and hears the head of its response.
    async fn run(
        &self,
        exchange: &mut Exchange,
        call: &UpstreamRequest,
        manner: &ProcessManner,
    ) -> Result<UpstreamResponse, Response> {
        let Some(script) = call.script.as_deref() else {
            return Err(Response::new(Status::INTERNAL_SERVER_ERROR));
        };
        let transcript = manner
            .script_log
            .as_deref()
            .map(|log| (log, Rc::<RefCell<Transcript>>::default()));
        let heard = self
            .try_run(
                exchange,
                call,
                script,
                manner,
                transcript
                    .as_ref()
                    .map(|(log, transcript)| (*log, transcript)),
            )
            .await;
        heard.map_err(|failure| {
            let status = failure.status_of_program();
            if let Some((log, transcript)) = &transcript {
                log.failed(
                    &exchange.failed_script(status, &script.filename),
                    &transcript.borrow().overheard(&failure),
                );
            }
            refusal(
                exchange,
                &failure,
                status,
                &cgi::complaint(&failure, script),
            )
        })
    }

    async fn try_run(
        &self,
        exchange: &mut Exchange,
        call: &UpstreamRequest,
        script: &Script,
        manner: &ProcessManner,
        transcript: Option<(&ScriptLog, &Rc<RefCell<Transcript>>)>,
    ) -> Result<UpstreamResponse, Failure> {
        let content = exchange.take_upstream_content();
        let content_length = content.length();
        let timeout_ms = call
            .manner
            .timeout
            .map_or(PROGRAM_TIMEOUT_MS, |timeout| timeout.as_millis() as u64);
        let whose = cgi::whose(exchange, script, timeout_ms);
        let name = Rc::from(&*whose.name);
        let plan = self.plan(exchange, call, script, manner, content_length);
        let connection =
            Connection::alone(Transport::Process(self.programs.run(plan, whose).await?));
        // All that it is told besides the content stands in its environment.
        let nothing = Variables::new();
        let request = ProgramRequest {
            variables: &nothing,
            content_length,
            head: exchange.head.view(),
            path: &[],
            settings: &[],
        };
        let terms = Terms::once(timeout_ms, exchange.log_context());
        let plain = PlainCgi::new(!cgi::says_whole_head(script));
        let dialogue: Box<dyn Dialogue> = match transcript {
            Some((log, transcript)) => {
                Box::new(ScriptLogTee::new(plain, log, Rc::clone(transcript)))
            }
            None => Box::new(plain),
        };
        let begun = ConnectionExchange::begin(
            connection,
            terms,
            (Codec::Other(dialogue), self.context.out_buffer()),
            &request,
            content,
            &self.context,
        );
        let mut upstream = UpstreamExchange::Connection(begun.map_err(|(failure, _)| failure)?);
        upstream.pass_hints(Hints::of(exchange));
        match poll_fn(|cx| upstream.poll_event(cx)).await {
            Ok(UpstreamEvent::Head(head)) => Ok(UpstreamResponse {
                head,
                upstream,
                name,
                bounds: PROGRAM_BOUNDS,
                busy: None,
            }),
            Ok(_) => Err(Failure::Broken(saker_cgi::Fault::Premature.into())),
            Err(failure) => {
                if transcript.is_some() && matches!(failure, Failure::Broken(_)) {
                    upstream.drain().await;
                }
                Err(failure)
            }
        }
    }

    fn plan(
        &self,
        exchange: &Exchange,
        call: &UpstreamRequest,
        script: &Script,
        manner: &ProcessManner,
        content_length: Option<u64>,
    ) -> ProgramPlan {
        let told = field_names::told(exchange, call, None);
        let head = told.as_ref().unwrap_or(exchange.upstream_head()).view();
        let mut variables = self.variables.borrow_mut();
        variables::fill(
            exchange,
            (head, true),
            script,
            content_length,
            &mut variables,
        );
        let has_content = content_length != Some(0);
        cgi::plan(exchange, script, manner, &variables, has_content)
    }

    pub(crate) async fn answer(
        &self,
        exchange: &mut Exchange,
        call: &UpstreamRequest,
        heard: UpstreamResponse,
    ) -> Handled {
        let UpstreamResponse {
            mut head,
            mut upstream,
            name,
            bounds,
            busy,
        } = heard;
        if head.is_local_redirect
            && call.manner.follows_locations
            && let Some(location) = head.fields.first("Location").map(<[u8]>::to_vec)
        {
            upstream.drain().await;
            return self.follow(exchange, call, &location);
        }
        keep_fields(exchange, call, &head);
        let Steering {
            order,
            is_unbuffered,
            rate,
        } = steering(&mut head, call);
        public_urls::rewrite(&mut head.fields, exchange, call);
        if let Some(order) = order {
            upstream.drain().await;
            return self.hand_over(exchange, call, head, order, rate);
        }
        if call.script.is_some() && !call.manner.keeps_dates {
            answer::mend_modified(&mut head.fields, exchange.now);
        }
        if let Some(status) = answer::unwanted(&head, exchange, call) {
            upstream.drain().await;
            return Handled::Answered(answer::unsent(head, status, call));
        }
        let (status, length) = (head.status, head.length);
        if status == Status::SWITCHING_PROTOCOLS {
            let is_connect = exchange.head.view().method() == Method::Connect;
            let tunnel = upstream.into_tunnel(Box::new(busy));
            return Handled::Answered(answer::switched(head, tunnel, is_connect));
        }
        if answer::is_overridden(status, &call.manner) {
            exchange.upstream.is_replaced = true;
            return Handled::Answered(answer::overriding(head, call));
        }
        exchange.upstream.is_answered_by_program = true;
        let mut response = answer::response(head, call);
        let is_head = exchange.head.view().method() == Method::Head;
        // The upstream was asked by HEAD for what the client wants by another method.
        let is_bare = exchange.upstream_head().view().method() == Method::Head;
        let has_content = !is_head && !is_bare && !status.forbids_content();
        limit_rate(rate, exchange, &mut response);
        let is_unbuffered = is_unbuffered.unwrap_or(call.manner.is_unbuffered);
        let relay = Relay {
            call,
            is_prompt: is_unbuffered || length.is_none() && is_event_stream(&response),
            bounds: if is_unbuffered { UNBUFFERED } else { bounds },
            name,
            length: length.filter(|_| is_head || !is_bare),
            has_content,
            read_rate: call.manner.read_rate,
            drops_trailers: call.manner.drops_trailers,
            keeps_unknown_length: call.manner.is_like_nginx && length.is_none(),
        };
        response.body = self.body(exchange, upstream, relay, busy).await;
        Handled::Answered(response)
    }

    /// The content of a response: in memory if it is here already, else as it comes.
    async fn body(
        &self,
        exchange: &Exchange,
        mut upstream: UpstreamExchange,
        relay: Relay<'_>,
        busy: Option<Busy>,
    ) -> Body {
        let (length, has_content) = (relay.length, relay.has_content);
        let read = match relay.read_rate.filter(|_| has_content) {
            None => ahead(&mut upstream, length.filter(|_| has_content)),
            Some(_) => Err(Box::default()),
        };
        match read {
            Ok(whole) if has_content && relay.keeps_unknown_length => {
                Body::Stream(Box::new(OfUnknownLength(Some(whole))))
            }
            Ok(whole) if has_content => Body::Memory(whole),
            Ok(_) => Body::Stream(Box::new(Unsent(length))),
            Err(ahead) => {
                let (client, name) = match error_log::speaks_nginx() {
                    true => (
                        exchange.request_log_context(),
                        nginx_words::asked(&relay.name, relay.call).into(),
                    ),
                    false => (exchange.log_context(), relay.name),
                };
                let room = self.room(exchange);
                let mut pump = Pump::new(upstream, relay.bounds, room, client, name);
                pump.limit_rate(relay.read_rate);
                pump.drop_trailers(relay.drops_trailers);
                let mut body = RelayedBody::new(pump, *ahead, length, Box::new(busy));
                if relay.is_prompt {
                    body.make_prompt();
                }
                Box::pin(relayed(exchange, relay.call, body)).await
            }
        }
    }

    /// Returns the account for files buffered for this exchange's client.
    pub(crate) fn room(&self, exchange: &Exchange) -> Room {
        Room {
            files: Arc::clone(&self.files),
            client: ClientNetwork::of(exchange.client.ip()).bytes(),
        }
    }

    /// A path or a file of ours takes the place of what the program said.
    fn hand_over(
        &self,
        exchange: &mut Exchange,
        call: &UpstreamRequest,
        head: ResponseHead,
        order: Order,
        rate: Option<Rate>,
    ) -> Handled {
        let handed = accel_redirect::handed(head, call, &order, rate);
        match order {
            Order::File(name, files) => {
                accel_redirect::send_file(exchange, call, &name, &files, handed)
            }
            Order::Accel(path) | Order::LiteSpeed(path)
                if !answer::leads_upwards(&path) && answer::follow(&path, exchange) =>
            {
                exchange.upstream.leads_elsewhere = call.manner.is_like_nginx;
                exchange.upstream.internal_redirect = Some(Box::new(handed));
                Handled::Restart
            }
            Order::Accel(path) if call.manner.is_like_nginx => {
                exchange.upstream.internal_redirect = Some(Box::new(handed));
                exchange.upstream.refused_redirect = Some(path.into());
                Handled::Answered(Response::new(Status::NOT_FOUND))
            }
            Order::Accel(path) | Order::LiteSpeed(path) => {
                let path = String::from_utf8_lossy(&path);
                error_log::log_about(
                    &message::PROGRAM_FILE,
                    exchange,
                    format_args!("{path}: not a path"),
                );
                Handled::Answered(Response::new(Status::BAD_GATEWAY))
            }
        }
    }

    /// Another path of ours answers; what was told of this request is told of that one, too, as
    /// that of the one before (RFC 3875 section 6.2.2).
    fn follow(&self, exchange: &mut Exchange, call: &UpstreamRequest, location: &[u8]) -> Handled {
        if let Some(script) = &call.script {
            let told = field_names::told(exchange, call, None);
            let head = told.as_ref().unwrap_or(exchange.upstream_head()).view();
            let mut variables = self.variables.borrow_mut();
            let said = exchange
                .head
                .view()
                .known(KnownField::ContentLength)
                .and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
            variables::fill(exchange, (head, true), script, said, &mut variables);
            variables
                .iter()
                .for_each(|(name, value)| exchange.environment.set(name, value));
        }
        match answer::follow(location, exchange) {
            true => Handled::Restart,
            false => Handled::Answered(Response::new(Status::BAD_GATEWAY)),
        }
    }

    pub(crate) fn group(&self, upstream: &Arc<Upstream>) -> Rc<Group> {
        self.groups.group(upstream)
    }
}

impl Forwarder for Gateway {
    fn name(&self) -> &'static str {
        "gateway"
    }

    fn route(&self, exchange: &mut Exchange) -> Option<Box<UpstreamRequest>> {
        native::call_again(exchange).or_else(|| {
            native::call(exchange, &self.last_options, &self.spare_scripts).map(Box::new)
        })
    }

    fn forward<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        call: Box<UpstreamRequest>,
    ) -> LocalFuture<'a, Handled> {
        exchange.depends_on_request();
        exchange.upstream.is_replaced = false;
        if call.names.leads_out {
            exchange.trace("content", None, || {
                "dot segments behind the prefix that is replaced: not forwarded".into()
            });
            return Box::pin(std::future::ready(Handled::Answered(Response::new(
                Status::NOT_FOUND,
            ))));
        }
        if exchange.log.trace.is_some() {
            explain(exchange, &call);
            return Box::pin(std::future::ready(Handled::Answered(Response::new(
                Status::OK,
            ))));
        }
        if native::is_missing(exchange, &call, &self.known_scripts) {
            return Box::pin(std::future::ready(Handled::Answered(Response::new(
                Status::NOT_FOUND,
            ))));
        }
        if let Some(name) = exchange.routing.settings.request_id.clone() {
            template::identify(exchange, &name);
        }
        if let Err(error) = upstream_fields::check(exchange) {
            error_log::log_about(
                &message::REQUEST_GIVEN_UP,
                &*exchange,
                format_args!("fields for the upstream: {error}"),
            );
            let response = Response::new(Status::INTERNAL_SERVER_ERROR);
            return Box::pin(std::future::ready(Handled::Answered(response)));
        }
        note_client_abort(exchange, &call);
        match exchange.upstream_gate() {
            Some(gate) => Box::pin(self.pass_gate(exchange, call, gate)),
            None => Box::pin(self.carry_out(exchange, call)),
        }
    }

    fn tick(&self, now_ms: u64) {
        self.groups.sweep(now_ms);
    }
}

/// Keeps the fields of a head for rules that ask for them when they are gone.
fn keep_fields(exchange: &mut Exchange, call: &UpstreamRequest, head: &ResponseHead) {
    let is_gone = || {
        head.fields.may_have(accel_redirect::STEERING)
            || answer::is_overridden(head.status, &call.manner)
    };
    let fields = (call.manner.is_like_nginx && is_gone()).then(|| Box::new(head.fields.clone()));
    exchange.upstream.left_fields = fields;
}

/// Takes from a head what is meant for this server; what is included in a page steers nothing.
fn steering(head: &mut ResponseHead, call: &UpstreamRequest) -> Steering {
    match &call.script {
        Some(script) if script.is_included => Steering::default(),
        _ => accel_redirect::steer(head, &call.manner.trust, call.manner.is_like_nginx),
    }
}

/// The rate of the transfer, where the upstream has said one.
fn limit_rate(rate: Option<Rate>, exchange: &mut Exchange, response: &mut Response) {
    if rate.is_none() {
        return;
    }
    let handed = InternalRedirect {
        rate,
        ..InternalRedirect::default()
    };
    handed.lay(&mut exchange.routing.settings, response);
}

/// Content that is here already, all of it or the beginning; none of what is known to be too long
/// for waiting until it is whole.
fn ahead(upstream: &mut UpstreamExchange, length: Option<u64>) -> Result<Chunk, Box<ReadAhead>> {
    match length {
        Some(length) if length > WHOLE_BYTES_MAX as u64 => Err(Box::default()),
        _ => spool::whole(upstream, WHOLE_BYTES_MAX),
    }
}

/// Content that comes while it is sent.
async fn relayed(exchange: &Exchange, call: &UpstreamRequest, mut body: RelayedBody) -> Body {
    // Many clients of HTTP/1 read nothing before they have sent everything, and one that has been
    // answered early loses its connection: its content is heard out first, as far as the response
    // has room here. Clients of HTTP/2 read at any time.
    if exchange.head.view().version() < Version::Http2 && !body.has_told_all() {
        Box::pin(body.tell_all()).await;
    }
    let outlives_client = outlives_client(exchange, call);
    // A stream whose window is closed is not polled at all: without a task of its own, its client
    // would hold the program.
    if outlives_client || exchange.head.view().version() >= Version::Http2 {
        body.detach(outlives_client);
    }
    Body::Stream(Box::new(body))
}

/// True for content whose receiver wants each part of it at once.
fn is_event_stream(response: &Response) -> bool {
    const NAME: &[u8] = b"text/event-stream";
    let content_type = response.fields().first("Content-Type");
    let start = content_type.and_then(|kind| kind.trim_ascii_start().get(..NAME.len()));
    start.is_some_and(|start| start.eq_ignore_ascii_case(NAME))
}

/// Notes for the driver what ends the request. What a cache has asked for is not taken back.
fn note_client_abort(exchange: &Exchange, call: &UpstreamRequest) {
    let abort = &exchange.upstream.client_abort;
    if outlives_client(exchange, call) {
        abort.set(ClientAbort::Ignored);
    } else if call.manner.is_like_nginx && abort.get() == ClientAbort::Hangup {
        abort.set(ClientAbort::EndOfStream);
    }
}

fn outlives_client(exchange: &Exchange, call: &UpstreamRequest) -> bool {
    call.manner.outlives_client || is_asked_to_end(exchange)
}

/// Terms for the content of a response.
struct Relay<'a> {
    call: &'a UpstreamRequest,
    /// Content is not waited for.
    is_prompt: bool,
    bounds: Bounds,
    name: Rc<str>,
    length: Option<u64>,
    has_content: bool,
    read_rate: Option<NonZeroU64>,
    drops_trailers: bool,
    /// No length is told by content that is here already.
    keeps_unknown_length: bool,
}

/// A head that was heard, and the exchange that goes on behind it.
pub struct UpstreamResponse {
    pub head: ResponseHead,
    pub upstream: UpstreamExchange,
    /// For the log.
    pub name: Rc<str>,
    pub bounds: Bounds,
    pub busy: Option<Busy>,
}

/// Counts a request as under way.
pub struct Busy(Rc<Pool>, MemberState, Option<Activity>);

impl Busy {
    pub fn new(pool: &Rc<Pool>, member: &Member) -> Busy {
        pool.busy.set(pool.busy.get() + 1);
        member.state.begin_request();
        if let Some(activity) = &member.tuning.activity {
            activity.begin(clock::monotonic_ms());
        }
        Busy(
            Rc::clone(pool),
            member.state.clone(),
            member.tuning.activity.clone(),
        )
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
        self.1.end_request();
        if let Some(activity) = &self.2 {
            activity.end(clock::monotonic_ms());
        }
    }
}

/// `noabort=1`, by which rules let jobs in the background go on (LSCache protocol 3.2), before an
/// internal redirect or behind it.
fn is_asked_to_end(exchange: &Exchange) -> bool {
    let name = |mut name: &[u8]| -> bool {
        while let Some(inner) = name.strip_prefix(b"REDIRECT_") {
            name = inner;
        }
        name.eq_ignore_ascii_case(b"noabort")
    };
    exchange
        .environment
        .iter()
        .any(|(variable, value)| value == b"1" && name(variable))
}

/// Returns true if a program of LSAPI may leave content of this request unread.
fn leaves_content(exchange: &Exchange) -> bool {
    let own = exchange.upstream.own_content.as_ref();
    let length = own.map_or_else(|| exchange.body.length(), |own| Some(own.len() as u64));
    saker_cgi::may_leave_content(exchange.upstream_head().view(), length)
}

/// Traces the upstream. Programs are not run for `explain`.
fn explain(exchange: &mut Exchange, call: &UpstreamRequest) {
    let whom = match &call.to {
        UpstreamTarget::Upstream(upstream) => {
            let members = upstream
                .members
                .iter()
                .map(|member| member.backend.to_string())
                .collect::<Vec<_>>()
                .join(", ");
            format!("`{}` ({members})", upstream.name)
        }
        UpstreamTarget::Process(_) => "a program that is started for it".to_owned(),
    };
    let file = call
        .script
        .as_ref()
        .map(|script| format!(", for {}", String::from_utf8_lossy(&script.filename)))
        .unwrap_or_default();
    exchange.trace("content", None, || {
        format!("would be asked: {whom}{file}; what it answers is not known here")
    });
}

fn refusal(exchange: &Exchange, failure: &Failure, status: Status, complaint: &str) -> Response {
    // In nginx's words it was said when it happened.
    if !error_log::speaks_nginx() {
        error_log::log_about(
            &message::PROGRAM_FAILED,
            exchange,
            format_args!("{complaint}"),
        );
    }
    let mut response = Response::new(status);
    if let Some(seconds) = failure.retry_after_s() {
        response
            .fields_mut()
            .set("Retry-After", seconds.to_string().into_bytes());
    }
    response
}
