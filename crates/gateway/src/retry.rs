//! Asks members of an upstream, one after the other, until one has said the head of a response.
//!
//! Caveat: retries. A request that no upstream has begun to process may go to any member; one that
//! hit the end of a kept connection goes to the same member on a new one, if its method allows
//! that; and there is no retry once content has been sent.

use crate::{
    accel_redirect, answer,
    balancer::{Choice, Group},
    balancer_variables, codecs,
    connection_exchange::{ConnectionExchange, Terms},
    exchange_context::UpstreamEvent,
    failure::Failure,
    field_names,
    gateway::{Busy, Gateway, UpstreamResponse},
    hints::Hints,
    http2::{self, StreamExchange},
    native, nginx_words,
    ping::ping,
    pool::{Connection, KeptLimits, Pool},
    replay::Replay,
    request_buffering::{RequestBuffering, buffer_request},
    spool::Bounds,
    upstream_exchange::UpstreamExchange,
    variables,
};
use saker_cgi::{
    Broken, Fault, ProgramRequest, ResponseHead, Variables,
    php::{drop_settings, push_settings},
};
use saker_config::model::{Member, Protocol, Resends};
use saker_http::{HeadView, KnownField, Status, host};
use saker_net::{clock, proxy_preface};
use saker_pipeline::{
    AttemptAddress, Exchange, NoBody, RequestBody, RequestLogContext, UpstreamRequest,
    UpstreamTarget,
};
use saker_telemetry::{error_log, message};
use std::{borrow::Cow, future::poll_fn, rc::Rc, sync::Arc};

impl Gateway {
    /// Asks members until one has said the head of a response.
    pub async fn ask(
        &self,
        exchange: &mut Exchange,
        call: &UpstreamRequest,
        group: &Rc<Group>,
    ) -> Result<UpstreamResponse, (Failure, String)> {
        let (had_content, is_own) = (
            !exchange.body.is_end(),
            exchange.upstream.own_content.is_some(),
        );
        let mut content = Content::new(exchange.take_upstream_content());
        let outcome = self.ask_members(exchange, call, group, &mut content).await;
        if had_content && call.manner.is_like_nginx {
            let goes_on = match &outcome {
                Err(_) => true,
                Ok(heard) => is_led_elsewhere(&heard.head, call),
            };
            let rest = content.rest().filter(|_| goes_on && !is_own);
            exchange.upstream.has_lost_content = rest.is_none();
            if let Some(rest) = rest {
                exchange.body = rest;
            }
        }
        outcome
    }

    /// The same; `asked` is left with the content that can be told again.
    async fn ask_members(
        &self,
        exchange: &mut Exchange,
        call: &UpstreamRequest,
        group: &Rc<Group>,
        asked: &mut Content,
    ) -> Result<UpstreamResponse, (Failure, String)> {
        let mut content = asked.rest().unwrap_or_else(|| Box::new(NoBody));
        if let Some(buffering) = request_buffering(exchange, call, group, content.length()) {
            // Its end is the client's business, and its time limits.
            let buffered = Box::pin(buffer_request(content, buffering, self.room(exchange))).await;
            content = buffered.map_err(|failure| (failure, group.upstream.name.to_string()))?;
        }
        asked.replay = replay_of(exchange, call, group, &mut content);
        asked.untold = Some(content);
        let (mut tried, mut again) = (Vec::new(), None);
        let begun_ms = clock::monotonic_ms();
        loop {
            let is_fresh = again.is_some();
            let at = match again.take() {
                Some(at) => at,
                None => match group.choose(&Choice::of(exchange, &group.upstream), &tried) {
                    Ok(at) => at,
                    Err(failure) => return Err(no_member(exchange, call, group, failure)),
                },
            };
            let (Some(member), Some(pool)) = (group.upstream.members.get(at), group.pools.get(at))
            else {
                return Err((Failure::NoMember, group.upstream.name.to_string()));
            };
            let busy = Busy::new(pool, member);
            begin_attempt(exchange, member);
            balancer_variables::set(exchange, &group.upstream, member);
            let attempt =
                self.ask_member(exchange, call, member, pool, is_fresh, &mut asked.untold);
            let (failure, is_unheard) = match attempt.await {
                Ok((head, mut upstream)) => {
                    let attempts = &exchange.upstream.attempts;
                    attempts.answer(head.status, clock::monotonic_precise_ns);
                    note(group, member, head.status);
                    let is_retried = is_retried(exchange, group, head.status)
                        && has_more(group, tried.len() + 1, begun_ms);
                    let mut kept = || upstream.take_content().or_else(|| asked.view());
                    if is_retried && let Some(kept) = kept() {
                        asked.untold = Some(kept);
                        tried.push(at);
                        log_next(exchange, pool, format_args!("status {}", head.status.0));
                        continue;
                    }
                    return Ok(UpstreamResponse::of((member, pool), busy, head, upstream));
                }
                Err(failed) => failed,
            };
            // It ended between two requests; that says nothing about how the backend is.
            if is_unheard && !is_fresh {
                exchange.upstream.attempts.forget();
                again = Some(at);
                continue;
            }
            fail_attempt(exchange, call, (group, member), &failure);
            tried.push(at);
            let may_resend = failure.is_before_request()
                || may_resend(exchange, group) && counts(&failure, group);
            asked.untold = asked.rest();
            if asked.untold.is_none() || !may_resend || !has_more(group, tried.len(), begun_ms) {
                return Err((failure, pool.backend.to_string()));
            }
            log_next(exchange, pool, format_args!("{failure}"));
        }
    }

    /// One attempt at one member. An error says whether the same may be tried on a fresh
    /// connection; `content` is there if it may be told again.
    async fn ask_member(
        &self,
        exchange: &Exchange,
        call: &UpstreamRequest,
        member: &Member,
        pool: &Rc<Pool>,
        is_fresh: bool,
        content: &mut Option<Box<dyn RequestBody>>,
    ) -> Result<(ResponseHead, UpstreamExchange), (Failure, bool)> {
        // A process may end with its last request, just when this one is told: what can't be told
        // again goes to one that has just begun to listen.
        let is_fresh = is_fresh
            || member.backend.protocol.takes_variables()
                && !exchange.upstream_head().view().is_idempotent();
        let begun = match member.backend.protocol {
            Protocol::Http2 => {
                Box::pin(self.begin_stream(exchange, call, member, pool, is_fresh, content)).await
            }
            _ => {
                let is_fresh = is_fresh || member.tuning.proxy_preface.is_some();
                let tls_name = tls_name(exchange, call, member);
                let kind = (is_fresh, tls_name.as_ref());
                let connection = match self.connection_now(member, pool, kind) {
                    Some(connection) => connection,
                    None => Box::pin(self.ready_connection(member, pool, kind)).await,
                };
                connection.and_then(|connection| {
                    self.begin_on_connection(exchange, call, member, connection, content)
                })
            }
        };
        let mut upstream = begun.map_err(|failure| (failure, false))?;
        let attempts = &exchange.upstream.attempts;
        attempts.connect(clock::monotonic_precise_ns);
        upstream.pass_hints(Hints::of(exchange));
        match poll_fn(|cx| upstream.poll_event(cx)).await {
            Ok(UpstreamEvent::Head(mut head) | UpstreamEvent::Switched(mut head)) => {
                if let Some(first) = head.first_status.take_if(|_| call.manner.is_like_nginx) {
                    (head.status, head.reason) = (first.status, first.reason);
                    head.is_local_redirect = false;
                }
                let is_refused = head.is_status_invalid && call.manner.is_like_nginx;
                let broken = match is_too_large(member, &head) {
                    true => Fault::HeadTooLarge.into(),
                    false if is_refused => Broken::at(Fault::Malformed, b"invalid status"),
                    false => return Ok((head, upstream)),
                };
                Err((Failure::Broken(broken), false))
            }
            Ok(_) => Err((Failure::Broken(Fault::Unswitchable.into()), false)),
            Err(failure) => {
                *content = upstream.take_content();
                let may_again = content.is_some()
                    && upstream
                        .may_tell_again(&failure, exchange.upstream_head().view().is_idempotent());
                Err((failure, may_again))
            }
        }
    }

    /// On a stream of a connection that others use, too.
    async fn begin_stream(
        &self,
        exchange: &Exchange,
        call: &UpstreamRequest,
        member: &Member,
        pool: &Rc<Pool>,
        is_fresh: bool,
        content: &mut Option<Box<dyn RequestBody>>,
    ) -> Result<UpstreamExchange, Failure> {
        let link =
            http2::acquire(pool, &member.tuning, self.workers, is_fresh, &self.context).await?;
        let given = content.take().unwrap_or_else(|| Box::new(NoBody));
        let (length, has_content) = (given.length(), !given.is_end());
        let target = target_at(member, call);
        let address = codecs::address(exchange, call, member, &target);
        let told = field_names::told(exchange, call, Some(member.backend.protocol));
        let (head, is_secure) = (
            told.as_ref().unwrap_or(exchange.upstream_head()).view(),
            member.backend.tls.is_some(),
        );
        match link.open(!has_content, |to| {
            http2::encode(head, &address, is_secure, length, to)
        }) {
            Ok(stream) => {
                let begun = StreamExchange::new(
                    stream,
                    given,
                    has_content,
                    timeout_ms(call, member),
                    (&self.context, exchange.upstream.attempts.counts()),
                );
                let begun = begun.with_trailers(codecs::passes_trailers(exchange, call));
                Ok(UpstreamExchange::Stream(Box::new(begun)))
            }
            Err(_) => {
                *content = Some(given);
                Err(Failure::Unprocessed)
            }
        }
    }

    fn begin_on_connection(
        &self,
        exchange: &Exchange,
        call: &UpstreamRequest,
        member: &Member,
        mut connection: Connection,
        content: &mut Option<Box<dyn RequestBody>>,
    ) -> Result<UpstreamExchange, Failure> {
        connection.count_for(member);
        let given = content.take().unwrap_or_else(|| Box::new(NoBody));
        match self.begin(exchange, call, member, connection, given) {
            Ok(exchange) => Ok(UpstreamExchange::Connection(exchange)),
            Err((failure, given)) => {
                *content = Some(given);
                Err(failure)
            }
        }
    }

    /// The same as [`Gateway::ready_connection`], where nothing has to be waited for.
    fn connection_now(
        &self,
        member: &Member,
        pool: &Rc<Pool>,
        (is_fresh, tls_name): (bool, Option<&Rc<str>>),
    ) -> Option<Result<Connection, Failure>> {
        let tuning = &member.tuning;
        let is_pinged = tuning.ping_ms.is_some() && member.backend.protocol == Protocol::Ajp;
        match is_pinged {
            true => None,
            false => pool.acquire_now(tuning, self.workers, is_fresh, tls_name),
        }
    }

    /// One that has answered a ping, where that is wanted before each request.
    async fn ready_connection(
        &self,
        member: &Member,
        pool: &Rc<Pool>,
        (is_fresh, tls_name): (bool, Option<&Rc<str>>),
    ) -> Result<Connection, Failure> {
        let (tuning, workers) = (&member.tuning, self.workers);
        let mut connection = pool.acquire(tuning, workers, is_fresh, tls_name).await?;
        let Some(ping_ms) = tuning
            .ping_ms
            .filter(|_| member.backend.protocol == Protocol::Ajp)
        else {
            return Ok(connection);
        };
        Box::pin(async move {
            match ping(&mut connection, ping_ms).await {
                Err(_) if connection.is_reused => {
                    drop(connection);
                    connection = pool.acquire(tuning, workers, true, tls_name).await?;
                    ping(&mut connection, ping_ms).await?;
                }
                outcome => outcome?,
            }
            Ok(connection)
        })
        .await
    }

    fn begin(
        &self,
        exchange: &Exchange,
        call: &UpstreamRequest,
        member: &Member,
        connection: Connection,
        content: Box<dyn RequestBody>,
    ) -> Result<Box<ConnectionExchange>, (Failure, Box<dyn RequestBody>)> {
        let backend = &member.backend;
        let told = field_names::told(exchange, call, Some(backend.protocol));
        let head = told.as_ref().unwrap_or(exchange.upstream_head()).view();
        let mut variables = self.variables.borrow_mut();
        let content_length = content.length();
        fill_variables(exchange, call, member, head, content_length, &mut variables);
        let settings = call
            .script
            .as_ref()
            .map(|script| variables::settings(&script.php))
            .unwrap_or_default();
        if backend.protocol != Protocol::Lsapi && push_settings(&settings, &mut variables) > 0 {
            error_log::log_about(
                &message::PROGRAM_SETTING,
                exchange,
                format_args!("{backend}"),
            );
        }
        let target = target_at(member, call);
        let path = target.split(|byte| *byte == b'?').next();
        let path = path.unwrap_or_default();
        let request = ProgramRequest {
            variables: &variables,
            content_length,
            head,
            path,
            settings: &settings,
        };
        let mut out = self.context.out_buffer();
        if let Some(version) = member.tuning.proxy_preface {
            let client = &exchange.client;
            let is_known = !client.address.ip().is_unspecified();
            let source = is_known.then_some((client.address, client.local));
            proxy_preface::encode(version, source, &mut out);
        }
        let asked = (&request, &*target);
        let dialogue = match codecs::dialogue(exchange, call, member, asked, &mut out) {
            Ok(dialogue) => dialogue,
            Err(failure) => return Err((failure, content)),
        };
        let ping_ms = member
            .tuning
            .ping_ms
            .filter(|_| codecs::asks_first(exchange, member, content_length != Some(0)));
        let terms = Terms {
            kept: KeptLimits::of(&member.tuning),
            timeout_ms: timeout_ms(call, member),
            ping_ms,
            client: log_context(exchange, call, member),
            caught_errors: Arc::clone(&member.tuning.caught_errors),
            counts: exchange.upstream.attempts.counts(),
        };
        ConnectionExchange::begin(
            connection,
            terms,
            (dialogue, out),
            &request,
            content,
            &self.context,
        )
    }
}

/// The content of a request on its way to members.
struct Content {
    /// No member has been told of it.
    untold: Option<Box<dyn RequestBody>>,
    replay: Option<Replay>,
}

impl Content {
    fn new(content: Box<dyn RequestBody>) -> Content {
        Content {
            untold: Some(content),
            replay: None,
        }
    }

    fn view(&self) -> Option<Box<dyn RequestBody>> {
        self.replay.as_ref()?.view()
    }

    /// Returns the content from its beginning; `None`: some of it is gone.
    fn rest(&mut self) -> Option<Box<dyn RequestBody>> {
        self.untold.take().or_else(|| self.view())
    }
}

/// Returns true if a page of the rules takes the place of the response, or the rules go on at a
/// place that the upstream names: another upstream may have to be told the content.
fn is_led_elsewhere(head: &ResponseHead, call: &UpstreamRequest) -> bool {
    let is_named = || {
        let target = head.fields.first("X-Accel-Redirect");
        target.is_some_and(|target| target.starts_with(b"@"))
    };
    answer::is_overridden(head.status, &call.manner)
        || head.fields.may_have(accel_redirect::STEERING) && is_named()
}

/// The context of what programs complain of, with the request where nginx's lines tell it.
fn log_context(exchange: &Exchange, call: &UpstreamRequest, member: &Member) -> RequestLogContext {
    if member.backend.protocol != Protocol::FastCgi || !error_log::speaks_nginx() {
        return exchange.log_context();
    }
    let context = exchange.request_log_context();
    let of_call = match &call.to {
        UpstreamTarget::Upstream(upstream) => {
            let mut members = upstream.members.iter();
            let at = members.position(|one| std::ptr::eq(one, member));
            at.map(|at| (Arc::clone(upstream), at))
        }
        UpstreamTarget::Process(_) => None,
    };
    match of_call {
        Some((upstream, at)) => context.asking(move || {
            let member = upstream.members.get(at);
            member.map_or_else(String::new, |member| {
                nginx_words::address(&member.backend.to_string())
            })
        }),
        // One that was looked up since.
        None => {
            let name = nginx_words::address(&member.backend.to_string());
            context.asking(move || name.clone())
        }
    }
}

/// Fills in the variables of protocols that have them.
fn fill_variables(
    exchange: &Exchange,
    call: &UpstreamRequest,
    member: &Member,
    head: HeadView<'_>,
    content_length: Option<u64>,
    variables: &mut Variables,
) {
    match &call.script {
        Some(script) => {
            // LSAPI passes the fields on as such, and its library makes the variables.
            let tells_fields = member.backend.protocol != Protocol::Lsapi || script.is_adjusted;
            let head = (head, tells_fields);
            variables::fill(exchange, head, script, content_length, variables);
            variables::finish(exchange, script, call.upstream_name(), member, variables);
        }
        // It has words for a few of them.
        None if member.backend.protocol == Protocol::Ajp => {
            let script = native::about_server(exchange);
            variables::fill(exchange, (head, true), &script, content_length, variables);
        }
        None => variables.clear(),
    }
    if member.backend.is_own_php {
        drop_settings(variables);
    }
}

/// A member has said a head: it is well, unless that status counts as a failure.
fn note(group: &Group, member: &Member, status: Status) {
    if group.upstream.failure_statuses.contains(&status.0) {
        if !member.ignores_errors {
            fail(group, member);
        }
    } else if member.state.succeed() {
        member.state.come_back(clock::monotonic_ms());
    }
}

pub fn fail(group: &Group, member: &Member) {
    let (most, rest_ms) = (group.upstream.failures_max, member.tuning.retry_ms);
    member.state.fail(most, rest_ms, clock::monotonic_ms());
}

impl UpstreamResponse {
    fn of(
        (member, pool): (&Member, &Rc<Pool>),
        busy: Busy,
        head: ResponseHead,
        upstream: UpstreamExchange,
    ) -> UpstreamResponse {
        UpstreamResponse {
            head,
            upstream,
            name: Rc::clone(&pool.name),
            bounds: Bounds {
                memory_bytes: member.tuning.buffer_memory_bytes,
                disk_bytes: member.tuning.buffer_disk_bytes,
            },
            busy: Some(busy),
        }
    }
}

/// True if the fields of a head are more than the configuration allows.
fn is_too_large(member: &Member, head: &ResponseHead) -> bool {
    let bytes_max = member.tuning.response_head_bytes_max;
    if bytes_max == 0 {
        return false;
    }
    let fields = head.fields.iter();
    let bytes: usize = fields
        .map(|(name, value)| name.len() + value.len() + 4)
        .sum();
    bytes as u64 > bytes_max
}

/// Notes that a member did not answer.
fn fail_attempt(
    exchange: &Exchange,
    call: &UpstreamRequest,
    (group, member): (&Group, &Member),
    failure: &Failure,
) {
    let attempts = &exchange.upstream.attempts;
    attempts.fail(status_of_attempt(failure), clock::monotonic_precise_ns);
    if error_log::speaks_nginx() {
        nginx_words::log_failed(exchange, call, (group, Some(member)), failure);
    }
    if counts(failure, group) && !member.ignores_errors {
        fail(group, member);
        nginx_words::log_disabled(exchange, call, group, member);
    }
}

/// Notes for rules that a member is asked.
fn begin_attempt(exchange: &Exchange, member: &Member) {
    let attempts = &exchange.upstream.attempts;
    let now = clock::monotonic_precise_ns;
    let address = || AttemptAddress::Backend(Arc::clone(&member.backend));
    attempts.begin(address, member.route.as_deref(), now);
}

/// No member may be asked: the name of the group stands for all.
fn no_member(
    exchange: &Exchange,
    call: &UpstreamRequest,
    group: &Group,
    failure: Failure,
) -> (Failure, String) {
    if error_log::speaks_nginx() {
        nginx_words::log_failed(exchange, call, (group, None), &failure);
    }
    let (attempts, now) = (&exchange.upstream.attempts, clock::monotonic_precise_ns);
    let name = || AttemptAddress::Group((&*group.upstream.name).into());
    attempts.begin(name, None, now);
    attempts.fail(status_of_attempt(&failure), now);
    (failure, group.upstream.name.to_string())
}

/// True if another member is asked after this status.
fn is_retried(exchange: &Exchange, group: &Group, status: Status) -> bool {
    group.upstream.retried_statuses.contains(&status.0) && may_resend(exchange, group)
}

/// The status that stands for a member's failure.
fn status_of_attempt(failure: &Failure) -> Status {
    match failure.status() {
        Status::GATEWAY_TIMEOUT => Status::GATEWAY_TIMEOUT,
        _ => Status::BAD_GATEWAY,
    }
}

/// True if a request that a member may have carried out is sent to another one.
fn may_resend(exchange: &Exchange, group: &Group) -> bool {
    match group.upstream.resends {
        Resends::None => false,
        Resends::Idempotent => exchange.upstream_head().view().is_idempotent(),
        Resends::All => true,
    }
}

/// True if another member may be asked when `tried` have been.
fn has_more(group: &Group, tried: usize, begun_ms: u64) -> bool {
    let attempts_max = group.upstream.attempts_max.unwrap_or(usize::MAX);
    tried <= attempts_max && tried < group.pools.len() && !is_late(group, begun_ms)
}

fn log_next(exchange: &Exchange, pool: &Pool, reason: std::fmt::Arguments<'_>) {
    if error_log::speaks_nginx() {
        return;
    }
    error_log::log_about(
        &message::PROGRAM_FAILED,
        exchange,
        format_args!("{}: {reason}, the next is asked", pool.backend),
    );
}

/// Keeps the content for further members, where requests that one has got are sent to others, or an
/// error leads to another upstream.
fn replay_of(
    exchange: &Exchange,
    call: &UpstreamRequest,
    group: &Group,
    content: &mut Box<dyn RequestBody>,
) -> Option<Replay> {
    let is_kept = call.manner.is_like_nginx
        && call.manner.spools_request
        && !content.is_end()
        && (exchange.upstream.may_go_elsewhere
            || group.pools.len() > 1 && may_resend(exchange, group));
    if !is_kept {
        return None;
    }
    let replay = Replay::new(std::mem::replace(content, Box::new(NoBody)));
    *content = replay.view().unwrap_or_else(|| Box::new(NoBody));
    Some(replay)
}

/// True if the time for further members is over.
fn is_late(group: &Group, begun_ms: u64) -> bool {
    let passed_ms = clock::monotonic_ms().saturating_sub(begun_ms);
    let limit_ms = group.upstream.attempts_ms;
    limit_ms.is_some_and(|limit_ms| passed_ms >= limit_ms)
}

/// True if the member is to blame.
fn counts(failure: &Failure, group: &Group) -> bool {
    failure.counts_against_member()
        && (group.upstream.fails_on_timeout || !matches!(failure, Failure::Timeout))
}

fn target_at<'a>(member: &Member, call: &'a UpstreamRequest) -> Cow<'a, [u8]> {
    if member.path.is_empty() {
        return Cow::Borrowed(&call.target);
    }
    Cow::Owned([member.path.as_bytes(), &call.target].concat())
}

fn timeout_ms(call: &UpstreamRequest, member: &Member) -> u64 {
    call.manner
        .timeout
        .map_or(member.tuning.timeout_ms, |timeout| {
            timeout.as_millis() as u64
        })
}

/// Number of content bytes read before an upstream is contacted; `None`: none.
fn request_buffering(
    exchange: &Exchange,
    call: &UpstreamRequest,
    group: &Group,
    length: Option<u64>,
) -> Option<RequestBuffering> {
    // Unless all is wanted first: what shares a connection needs no length, and answers may come
    // before the content has ended (gRPC).
    let mut members = group.upstream.members.iter();
    let streams = members.all(|member| member.backend.protocol == Protocol::Http2);
    let is_set = |name: &[u8]| exchange.environment.first(name).is_some();
    // mod_proxy's variables.
    let wants_length =
        || is_set(b"proxy-sendcl") && !is_set(b"proxy-sendchunks") && !is_set(b"proxy-sendchunked");
    match length {
        Some(0) => None,
        Some(length) => {
            let most = group
                .upstream
                .members
                .iter()
                .map(|member| member.tuning.request_ahead_bytes)
                .max()
                .unwrap_or(0);
            (call.manner.spools_request || length <= most).then_some(RequestBuffering::Whole)
        }
        None if call.script.is_some() || call.manner.spools_request || wants_length() => {
            Some(RequestBuffering::Whole)
        }
        None => (!streams).then_some(RequestBuffering::Little),
    }
}
/// The name for the handshake that the rules give, or where the client's Host goes on to the backend:
/// the host that it names (httpd 2.4, ProxyPreserveHost). `None`: the backend's own.
fn tls_name(exchange: &Exchange, call: &UpstreamRequest, member: &Member) -> Option<Rc<str>> {
    let tls = member.backend.tls.as_ref()?;
    if let Some(name) = &call.manner.tls_name {
        return Some(Rc::from(&**name));
    }
    if !call.manner.names_tls_by_host || tls.name.is_some() {
        return None;
    }
    let host = exchange.upstream_head().view().known(KnownField::Host)?;
    let name = host::canonical_host(host::parse_authority(host)?.host);
    Some(String::from_utf8(name).ok()?.into())
}
