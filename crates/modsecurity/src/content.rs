//! Inspection of a request's content, before a handler gets any of it.
//!
//! Called by: the phase `inspect_content`.
//! Caveat: the body is taken out of the exchange while it is read, and replaced by one that replays
//! what was read. All but the smallest requests are inspected on another thread, so
//! that other requests continue.
//! Out of scope: limits on the size of bodies, which apply while it is read here, too.

use crate::{
    arguments::{self, AT_ONCE_MAX, InContent},
    gathered::Gathered,
    screening::{Screening, SharedTransaction, Stage, refuse},
};
use saker_files::{BufferFiles, buffer_files::ClientKey};
use saker_http::{Method, Status};
use saker_ipset::ClientNetwork;
use saker_net::modsecurity::Transaction;
use saker_pipeline::{
    BodyError, Exchange, LocalFuture, NoBody, RequestBody, Response, Step, Verdict,
};
use saker_telemetry::{error_log, message};
use std::{
    future::poll_fn,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
};

/// Content of responses beyond this size is inspected on another thread.
const LARGE_BYTES: u64 = 32 << 10;
/// Likewise of what clients choose: patterns of the core rule set take time by the third power of
/// the length of a text that is made for it (a second for 2,000 times `<`).
const REQUEST_BYTES: u64 = 512;

/// Runs work of a client on another thread. `false`: it was not carried through, and may still be
/// running.
pub type Offload = fn(ClientNetwork, Box<dyn FnOnce() + Send>) -> LocalFuture<'static, bool>;

struct Read {
    body: Gathered,
    outcome: Outcome,
}

enum Outcome {
    /// All bytes that rules inspect.
    Whole,
    /// More bytes than rules inspect.
    TooLarge,
    /// More arguments than rules inspect.
    TooMany,
    Broken(BodyError),
    /// There is no space to buffer it until it has been inspected.
    NoRoom,
}

/// Inspects the content once; an internal redirect does not repeat it.
pub fn request_content<'a>(
    exchange: &'a mut Exchange,
    files: &Arc<BufferFiles>,
    offload: Offload,
) -> Step<'a> {
    let Some(screening) = exchange
        .extensions
        .get::<Rc<Screening>>()
        .filter(|screening| screening.stage.get() == Stage::Head)
        .cloned()
    else {
        return Step::PASS;
    };
    // Bytes after CONNECT are not content (RFC 9110 section 9.3.6).
    let has_some = !exchange.body.is_end() && exchange.head.view().method() != Method::Connect;
    if !has_some || !screening.rules.wants_request_content() {
        return without_content(exchange, screening, offload);
    }
    let inner = std::mem::replace(&mut exchange.body, Box::new(NoBody));
    let content_type = exchange.head.view().first("content-type");
    let job = Job {
        arguments: InContent::new(content_type.unwrap_or_default(), &screening.rules),
        screening: Rc::clone(&screening),
        look: Look::at_request(exchange, &screening),
        bytes_max: screening.rules.request_bytes_max(),
        files: Arc::clone(files),
        offload,
    };
    Step::Pending(Box::pin(async move {
        let read = job.read(inner).await;
        finish(exchange, &screening, read)
    }))
}

/// The phase of content, for a request without.
fn without_content(
    exchange: &mut Exchange,
    screening: Rc<Screening>,
    offload: Offload,
) -> Step<'_> {
    let look_at = Look::at_request(exchange, &screening);
    if !look_at.is_much {
        if let Some(transaction) = screening.transaction.borrow_mut().as_mut() {
            transaction.request_content();
        }
        return judge(exchange, &screening).into();
    }
    Step::Pending(Box::pin(async move {
        look(look_at, offload, Transaction::request_content).await;
        judge(exchange, &screening)
    }))
}

fn finish(exchange: &mut Exchange, screening: &Screening, read: Read) -> Verdict {
    let enforcing = screening.rules.is_enforcing();
    screening.stage.set(Stage::Passed);
    exchange.body = Box::new(read.body);
    match read.outcome {
        Outcome::Broken(error) => Verdict::Answer(Response::new(status_of(error))),
        Outcome::NoRoom => {
            error_log::log_about(
                &message::RULE_REFUSED,
                exchange,
                format_args!("no room to read the content ahead (see buffer_files in [limits])"),
            );
            let mut response = Response::new(Status::SERVICE_UNAVAILABLE);
            response.fields_mut().set("Retry-After", &b"5"[..]);
            Verdict::Answer(response)
        }
        Outcome::TooLarge if enforcing => {
            error_log::log_about(
                &message::RULE_REFUSED,
                exchange,
                format_args!("the content is larger than the rules inspect"),
            );
            Verdict::Answer(Response::new(Status::CONTENT_TOO_LARGE))
        }
        Outcome::TooMany if enforcing => {
            let why = arguments::too_many(&screening.rules);
            error_log::log_about(&message::RULE_REFUSED, exchange, format_args!("{why}"));
            Verdict::Answer(Response::new(Status::BAD_REQUEST))
        }
        Outcome::TooLarge | Outcome::TooMany | Outcome::Whole => judge(exchange, screening),
    }
}

/// The decision of the rules now that they have seen the content.
fn judge(exchange: &mut Exchange, screening: &Screening) -> Verdict {
    match screening.intervention() {
        Some(found) => Verdict::Answer(refuse(exchange, found)),
        None => {
            screening.stage.set(Stage::Passed);
            Verdict::Pass
        }
    }
}

fn status_of(error: BodyError) -> Status {
    match error {
        BodyError::TooLarge => Status::CONTENT_TOO_LARGE,
        BodyError::TrailersTooLarge => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
        BodyError::TimedOut => Status::REQUEST_TIMEOUT,
        BodyError::Source => Status::INTERNAL_SERVER_ERROR,
        BodyError::Gone | BodyError::Malformed => Status::BAD_REQUEST,
    }
}

struct Job {
    screening: Rc<Screening>,
    arguments: InContent,
    look: Look,
    bytes_max: u64,
    files: Arc<BufferFiles>,
    offload: Offload,
}

impl Job {
    async fn read(mut self, inner: Box<dyn RequestBody>) -> Read {
        let mut body = Gathered::new(inner);
        let outcome = self.gather(&mut body).await;
        let is_looked_at = match outcome {
            Outcome::Whole | Outcome::TooLarge => true,
            Outcome::TooMany => !self.screening.rules.is_enforcing(),
            Outcome::Broken(_) | Outcome::NoRoom => false,
        };
        if is_looked_at {
            let (arguments, bytes) = (&self.screening.arguments, &self.screening.bytes);
            arguments.set(arguments.get() + self.arguments.count());
            bytes.set(bytes.get() + body.bytes());
            self.look.is_much = is_much(&self.screening);
            look(self.look, self.offload, Transaction::request_content).await;
        }
        Read { body, outcome }
    }

    /// Reads until the end, or until rules want no more.
    async fn gather(&mut self, body: &mut Gathered) -> Outcome {
        loop {
            let chunk = match poll_fn(|cx| body.poll_inner(cx)).await {
                None => return Outcome::Whole,
                Some(Err(error)) => return Outcome::Broken(error),
                Some(Ok(chunk)) => chunk,
            };
            self.arguments.add(chunk.bytes());
            let is_too_much = self.arguments.count() as u64 > self.screening.rules.arguments_max();
            let wants_more = !is_too_much
                && self
                    .look
                    .transaction
                    .borrow_mut()
                    .as_mut()
                    .is_some_and(|transaction| transaction.append_request_content(chunk.bytes()));
            let client: ClientKey = self.look.client.bytes();
            if !body.keep(chunk, &self.files, client).await {
                return Outcome::NoRoom;
            }
            if is_too_much {
                return Outcome::TooMany;
            }
            if !wants_more {
                return Outcome::Whole;
            }
            if body.bytes() > self.bytes_max {
                return Outcome::TooLarge;
            }
        }
    }
}

/// A look of the library at a request.
pub(crate) struct Look {
    transaction: SharedTransaction,
    /// It takes place on another thread.
    pub is_much: bool,
    /// The client, which takes turns with others there.
    client: ClientNetwork,
}

impl Look {
    pub fn at_request(exchange: &Exchange, screening: &Screening) -> Look {
        Look {
            transaction: Rc::clone(&screening.transaction),
            is_much: is_much(screening),
            client: ClientNetwork::of(exchange.client.ip()),
        }
    }

    /// `bytes`: the size of the content that is looked at.
    pub fn at_response(exchange: &Exchange, screening: &Screening, bytes: u64) -> Look {
        let look = Look::at_request(exchange, screening);
        Look {
            is_much: bytes > LARGE_BYTES || screening.arguments.get() > AT_ONCE_MAX,
            ..look
        }
    }
}

/// True if the library may be busy with the request for a while.
fn is_much(screening: &Screening) -> bool {
    screening.bytes.get() > REQUEST_BYTES || screening.arguments.get() > AT_ONCE_MAX
}

/// Lets the library inspect a request, on another thread if it is much. If that fails, the
/// transaction is lost and the request is refused.
pub(crate) async fn look(at: Look, offload: Offload, look: fn(&mut Transaction)) {
    let shared = &at.transaction;
    let taken = shared.borrow_mut().take();
    let Some(mut transaction) = taken else { return };
    if !at.is_much {
        look(&mut transaction);
        *shared.borrow_mut() = Some(transaction);
        return;
    }
    let place = Arc::new(Mutex::new(Some(transaction)));
    let there = Arc::clone(&place);
    let work = move || {
        if let Some(transaction) = there
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
        {
            look(transaction);
        }
    };
    let is_done = offload(at.client, Box::new(work)).await;
    if is_done {
        *shared.borrow_mut() = place.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
