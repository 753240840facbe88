//! The handler: carries out what rules left in the exchange's call.

use crate::{
    answer, cgi,
    choice::Group,
    codecs,
    collect::collect,
    conversation::{Conversation, Desk, READ_BYTES_MAX, Said, Terms},
    failure::Failure,
    native,
    pool::{Connection, Pool},
    programs::Programs,
    spool::{Bounds, Pump},
    transport::Transport,
    variables,
};
use foldhash::fast::RandomState;
use saker_cgi::php::push_settings;
use saker_cgi::{PlainCgi, ProgramRequest, ResponseHead, Variables};
use saker_config::model::{Backend, Member, Protocol, Upstream};
use saker_http::{KnownField, Method, Status};
use saker_net::{Deadlines, clock};
use saker_pipeline::{
    Body, BodyStream, Call, CallTo, Chunk, Exchange, Handled, Handler, LocalFuture, NoBody, ProcessManner, RequestBody, Response, Script,
};
use saker_telemetry::{error_log, message};
use std::{
    cell::RefCell,
    collections::HashMap,
    future::poll_fn,
    path::Path,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

/// Content that is waited for no longer than it takes to look whether it is there, so that a short response leaves in one piece.
const WHOLE_BYTES_MAX: usize = 256 << 10;
/// A program that is started for a request, where nothing else is said: Apache's `Timeout`.
const PROGRAM_TIMEOUT_MS: u64 = 60_000;
/// What its response may be ahead of the client.
const PROGRAM_BOUNDS: Bounds = Bounds { memory_bytes: 256 << 10, disk_bytes: 1 << 30 };
/// Groups that nobody asks for any more (of changed `.htaccess` files) are forgotten after this.
const FORGOTTEN_MS: u64 = 600_000;

/// One per worker.
pub struct Gateway {
    desk: Desk,
    workers: usize,
    /// For responses that are too long for memory.
    folder: Arc<Path>,
    pools: RefCell<HashMap<Arc<Backend>, Rc<Pool>, RandomState>>,
    groups: RefCell<HashMap<usize, Rc<Group>, RandomState>>,
    variables: RefCell<Variables>,
    programs: Programs,
}

impl Gateway {
    pub fn new(deadlines: Rc<Deadlines>, workers: usize, folder: Arc<Path>) -> Gateway {
        Gateway {
            desk: Desk { deadlines, scratch: Rc::new(RefCell::new(vec![0; READ_BYTES_MAX].into())) },
            workers,
            folder,
            pools: RefCell::default(),
            groups: RefCell::default(),
            variables: RefCell::default(),
            programs: Programs::new(workers),
        }
    }

    async fn carry_out(&self, exchange: &mut Exchange, call: Box<Call>) -> Handled {
        let heard = match &call.to {
            CallTo::Upstream(upstream) => {
                let group = self.group(upstream);
                let heard = self.ask(exchange, &call, &group).await;
                heard.map_err(|(failure, name)| refusal(exchange, &failure, failure.status(), &format!("{name}: {failure}")))
            }
            CallTo::Process(manner) => self.run(exchange, &call, manner).await,
        };
        match heard {
            Ok(heard) => self.answer(exchange, &call, heard).await,
            Err(refusal) => Handled::Answered(refusal),
        }
    }

    /// Starts a program and hears the head of its response.
    async fn run(&self, exchange: &mut Exchange, call: &Call, manner: &ProcessManner) -> Result<Heard, Response> {
        let Some(script) = call.script.as_deref() else { return Err(Response::new(Status::INTERNAL_SERVER_ERROR)) };
        let heard = self.try_run(exchange, call, script, manner).await;
        heard.map_err(|failure| refusal(exchange, &failure, failure.status_of_program(), &cgi::complaint(&failure, script)))
    }

    async fn try_run(&self, exchange: &mut Exchange, call: &Call, script: &Script, manner: &ProcessManner) -> Result<Heard, Failure> {
        let content = std::mem::replace(&mut exchange.body, Box::new(NoBody));
        let content_length = content.length();
        let timeout_ms = call.manner.timeout.map_or(PROGRAM_TIMEOUT_MS, |timeout| timeout.as_millis() as u64);
        let whose = cgi::whose(exchange, script, timeout_ms);
        let name = whose.name.to_string();
        let plan = {
            let mut variables = self.variables.borrow_mut();
            variables::fill(exchange, script, content_length, &mut variables);
            cgi::plan(exchange, script, manner, &variables, content_length != Some(0))
        };
        let connection = Connection::alone(Transport::Process(self.programs.run(plan, whose).await?));
        // All that it is told besides the content stands in its environment.
        let nothing = Variables::new();
        let request = ProgramRequest { variables: &nothing, content_length, head: exchange.head.view(), path: &[], settings: &[] };
        let terms = Terms { kept_max: 0, timeout_ms, client: exchange.client.address };
        let dialogue = Box::new(PlainCgi::new(!cgi::says_whole_head(script)));
        let mut conversation =
            Conversation::begin(connection, terms, dialogue, &request, content, &self.desk).map_err(|(failure, _)| failure)?;
        match poll_fn(|cx| conversation.poll_said(cx)).await? {
            Said::Head(head) => Ok(Heard { head, conversation, name, bounds: PROGRAM_BOUNDS, busy: None }),
            _ => Err(Failure::Broken(saker_cgi::Fault::Premature.into())),
        }
    }

    /// Asks members until one has said the head of a response.
    async fn ask(&self, exchange: &mut Exchange, call: &Call, group: &Rc<Group>) -> Result<Heard, (Failure, String)> {
        let mut content = std::mem::replace(&mut exchange.body, Box::new(NoBody));
        if content.length().is_none() {
            // Its end is the client's business, and its time limits.
            let collected = collect(content, call.script.is_some(), &self.folder).await;
            content = collected.map_err(|error| (Failure::Client(error), group.upstream.name.to_string()))?;
        }
        let (mut tried, mut again) = (Vec::new(), None);
        loop {
            let is_fresh = again.is_some();
            let at = match again.take() {
                Some(at) => at,
                None => group.choose(exchange, &tried).map_err(|failure| (failure, group.upstream.name.to_string()))?,
            };
            let (Some(member), Some(pool)) = (group.upstream.members.get(at), group.pools.get(at)) else {
                return Err((Failure::NoMember, group.upstream.name.to_string()));
            };
            let named = |failure| (failure, pool.backend.to_string());
            let busy = Busy::new(pool);
            let outcome = self.ask_member(exchange, call, member, pool, is_fresh, &mut content).await;
            let (failure, is_unheard) = match outcome {
                Ok((head, conversation)) => {
                    note(group, member, pool, head.status);
                    let bounds = Bounds { memory_bytes: member.tuning.buffer_memory_bytes, disk_bytes: member.tuning.buffer_disk_bytes };
                    return Ok(Heard { head, conversation, name: member.backend.to_string(), bounds, busy: Some(busy) });
                }
                Err(failed) => failed,
            };
            // It ended between two requests; that says nothing about how the backend is.
            if is_unheard && !is_fresh {
                again = Some(at);
                continue;
            }
            if failure.counts_against_member() && !member.ignores_errors {
                pool.fail(member.tuning.retry_ms);
            }
            tried.push(at);
            let attempts_max = group.upstream.attempts_max.unwrap_or(usize::MAX);
            if !failure.is_before_request() || tried.len() > attempts_max || tried.len() >= group.pools.len() {
                return Err(named(failure));
            }
            error_log::log_client(
                &message::PROGRAM_FAILED,
                exchange.client.address,
                format_args!("{}: {failure}, the next is asked", pool.backend),
            );
        }
    }

    /// One attempt at one member. An error says whether the same may be tried on a fresh connection.
    async fn ask_member(
        &self,
        exchange: &Exchange,
        call: &Call,
        member: &Member,
        pool: &Rc<Pool>,
        is_fresh: bool,
        content: &mut Box<dyn RequestBody>,
    ) -> Result<(ResponseHead, Conversation), (Failure, bool)> {
        let tuning = &member.tuning;
        let connection = pool.acquire(tuning, self.workers, is_fresh).await.map_err(|failure| (failure, false))?;
        let given = std::mem::replace(content, Box::new(NoBody));
        let mut conversation = match self.begin(exchange, call, member, connection, given) {
            Ok(conversation) => conversation,
            Err((failure, given)) => {
                *content = given;
                return Err((failure, false));
            }
        };
        match poll_fn(|cx| conversation.poll_said(cx)).await {
            Ok(Said::Head(head) | Said::Switched(head)) => Ok((head, conversation)),
            Ok(_) => Err((Failure::Broken(saker_cgi::Fault::Unswitchable.into()), false)),
            Err(failure) => {
                let is_safe = matches!(failure, Failure::Broken(_) | Failure::Io(_)) && conversation.is_unheard();
                let again = conversation.take_content();
                let may_again = is_safe && again.is_some() && exchange.head.view().method().is_idempotent();
                *content = again.unwrap_or_else(|| Box::new(NoBody));
                Err((failure, may_again))
            }
        }
    }

    fn begin(
        &self,
        exchange: &Exchange,
        call: &Call,
        member: &Member,
        connection: Connection,
        content: Box<dyn RequestBody>,
    ) -> Result<Conversation, (Failure, Box<dyn RequestBody>)> {
        let backend = &member.backend;
        let mut variables = self.variables.borrow_mut();
        let content_length = content.length();
        match &call.script {
            Some(script) => {
                variables::fill(exchange, script, content_length, &mut variables);
                variables::finish(exchange, script, call.upstream_name(), member, &mut variables);
            }
            // It has words for a few of them.
            None if backend.protocol == Protocol::Ajp => {
                variables::fill(exchange, &native::about_server(exchange), content_length, &mut variables);
            }
            None => variables.clear(),
        }
        let hidden = (backend.protocol == Protocol::Lsapi).then(|| variables::without_credentials(exchange, call)).flatten();
        let head = hidden.as_ref().unwrap_or(&exchange.head).view();
        let settings = call.script.as_ref().map(|script| variables::settings(&script.php)).unwrap_or_default();
        if backend.protocol != Protocol::Lsapi && push_settings(&settings, &mut variables) > 0 {
            error_log::log_client(&message::PROGRAM_SETTING, exchange.client.address, format_args!("{backend}"));
        }
        let target = [member.path.as_bytes(), &call.target].concat();
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default().to_vec();
        let request = ProgramRequest { variables: &variables, content_length, head, path: &path, settings: &settings };
        let dialogue = codecs::dialogue(exchange, call, member, target, content_length != Some(0));
        let timeout_ms = call.manner.timeout.map_or(member.tuning.timeout_ms, |timeout| timeout.as_millis() as u64);
        let terms = Terms { kept_max: member.tuning.kept_max, timeout_ms, client: exchange.client.address };
        Conversation::begin(connection, terms, dialogue, &request, content, &self.desk)
    }

    async fn answer(&self, exchange: &mut Exchange, call: &Call, heard: Heard) -> Handled {
        let Heard { head, mut conversation, name, bounds, busy } = heard;
        if head.is_local_redirect
            && call.manner.follows_locations
            && let Some(location) = head.fields.first("Location").map(<[u8]>::to_vec)
        {
            conversation.hear_out().await;
            return self.follow(exchange, call, &location);
        }
        if matches!(call.to, CallTo::Process(_)) && head.status == Status::FOUND && !head.is_status_said {
            // As Apache: who wants a page of his own with a redirect says its status.
            conversation.hear_out().await;
            return Handled::Answered(answer::response(head, call));
        }
        if call.script.is_some()
            && let Some(status) = answer::unwanted(&head, exchange)
        {
            conversation.hear_out().await;
            return Handled::Answered(answer::unsent(head, status, call));
        }
        let (status, length) = (head.status, head.length);
        if status == Status::SWITCHING_PROTOCOLS {
            return Handled::Answered(answer::switched(head, conversation.into_tunnel(Box::new(busy))));
        }
        if answer::is_overridden(status, &call.manner) {
            return Handled::Answered(answer::overriding(&head));
        }
        exchange.is_answered_by_program = true;
        let mut response = answer::response(head, call);
        let has_content = exchange.head.view().method() != Method::Head && !status.forbids_content();
        let bounds = match call.manner.is_unbuffered {
            true => Bounds { memory_bytes: READ_BYTES_MAX, disk_bytes: 0 },
            false => bounds,
        };
        let pump = Pump::new(conversation, bounds, call.manner.outlives_client, Arc::clone(&self.folder), exchange.client.address, name);
        response.body = self.body(pump, length, has_content, busy).await;
        Handled::Answered(response)
    }

    /// Another path of ours answers; what was told of this request is told of that one, too, as that of the one before (RFC 3875 section 6.2.2).
    fn follow(&self, exchange: &mut Exchange, call: &Call, location: &[u8]) -> Handled {
        if let Some(script) = &call.script {
            let mut variables = self.variables.borrow_mut();
            let said = exchange.head.view().known(KnownField::ContentLength).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
            variables::fill(exchange, script, said, &mut variables);
            variables.iter().for_each(|(name, value)| exchange.environment.set(name, value));
        }
        match answer::follow(location, exchange) {
            true => Handled::Restart,
            false => Handled::Answered(Response::new(Status::BAD_GATEWAY)),
        }
    }

    /// All of it, where all of it is there; else what comes while it is sent.
    async fn body(&self, mut pump: Pump, length: Option<u64>, has_content: bool, busy: Option<Busy>) -> Body {
        if let Some(whole) = pump.whole(WHOLE_BYTES_MAX) {
            return match has_content {
                true => Body::Memory(Chunk::from(whole)),
                false => Body::Stream(Box::new(Unsent(length))),
            };
        }
        // Both ends of the client's connection share its time limits: its content is heard out first.
        pump.run(true).await;
        let body = pump.body(length);
        if !pump.is_over() {
            tokio::task::spawn_local(async move {
                let _busy = busy;
                pump.run(false).await;
            });
        }
        Body::Stream(Box::new(body))
    }

    fn group(&self, upstream: &Arc<Upstream>) -> Rc<Group> {
        let key = Arc::as_ptr(upstream) as usize;
        let mut groups = self.groups.borrow_mut();
        let group = groups.entry(key).or_insert_with(|| {
            let pools = upstream.members.iter().map(|member| self.pool(&member.backend)).collect();
            Rc::new(Group::new(Arc::clone(upstream), pools))
        });
        group.last_used_ms.set(clock::monotonic_ms());
        Rc::clone(group)
    }

    fn pool(&self, backend: &Arc<Backend>) -> Rc<Pool> {
        let mut pools = self.pools.borrow_mut();
        Rc::clone(pools.entry(Arc::clone(backend)).or_insert_with(|| Rc::new(Pool::new(Arc::clone(backend)))))
    }
}

impl Handler for Gateway {
    fn name(&self) -> &'static str {
        "gateway"
    }

    fn handle<'a>(&'a self, exchange: &'a mut Exchange) -> LocalFuture<'a, Handled> {
        let Some(call) = exchange.call.take().or_else(|| native::call(exchange).map(Box::new)) else {
            return Box::pin(std::future::ready(Handled::Declined));
        };
        exchange.depends_on_request();
        if exchange.trace.is_some() {
            explain(exchange, &call);
            return Box::pin(std::future::ready(Handled::Answered(Response::new(Status::OK))));
        }
        if native::is_missing(exchange, &call) {
            return Box::pin(std::future::ready(Handled::Answered(Response::new(Status::NOT_FOUND))));
        }
        Box::pin(self.carry_out(exchange, call))
    }

    fn tick(&self, now_ms: u64) {
        self.groups.borrow_mut().retain(|_, group| now_ms.saturating_sub(group.last_used_ms.get()) < FORGOTTEN_MS);
        self.pools.borrow_mut().retain(|_, pool| {
            pool.sweep(now_ms);
            Rc::strong_count(pool) > 1 || !pool.is_unused(now_ms)
        });
    }
}

/// A head that was heard, and the conversation that goes on behind it.
struct Heard {
    head: ResponseHead,
    conversation: Conversation,
    /// For the log.
    name: String,
    bounds: Bounds,
    busy: Option<Busy>,
}

/// Counts a request as under way.
struct Busy(Rc<Pool>);

impl Busy {
    fn new(pool: &Rc<Pool>) -> Busy {
        pool.busy.set(pool.busy.get() + 1);
        Busy(Rc::clone(pool))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
    }
}

/// The length of what a GET would have brought (RFC 9110 section 9.3.2). Never sent.
struct Unsent(Option<u64>);

impl BodyStream for Unsent {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, saker_pipeline::BodyError>>> {
        Poll::Ready(None)
    }

    fn length(&self) -> Option<u64> {
        self.0
    }
}

/// Whom a request would be given to. Programs are not run to explain what leads to them.
fn explain(exchange: &mut Exchange, call: &Call) {
    let whom = match &call.to {
        CallTo::Upstream(upstream) => {
            let members = upstream.members.iter().map(|member| member.backend.to_string()).collect::<Vec<_>>().join(", ");
            format!("`{}` ({members})", upstream.name)
        }
        CallTo::Process(_) => "a program that is started for it".to_owned(),
    };
    let file = call.script.as_ref().map(|script| format!(", for {}", String::from_utf8_lossy(&script.filename))).unwrap_or_default();
    exchange.trace("content", None, || format!("would be asked: {whom}{file}; what it answers is not known here"));
}

/// A member has said a head: it is well, unless that status counts as a failure.
fn note(group: &Group, member: &Member, pool: &Pool, status: Status) {
    match group.upstream.failure_statuses.contains(&status.0) {
        true => pool.fail(member.tuning.retry_ms),
        false => pool.succeed(),
    }
}

fn refusal(exchange: &Exchange, failure: &Failure, status: Status, complaint: &str) -> Response {
    error_log::log_client(&message::PROGRAM_FAILED, exchange.client.address, format_args!("{complaint}"));
    let mut response = Response::new(status);
    if let Some(seconds) = failure.retry_after_s() {
        response.fields_mut().set("Retry-After", seconds.to_string().into_bytes());
    }
    response
}
