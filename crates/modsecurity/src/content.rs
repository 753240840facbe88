//! Inspection of a request's content, before a handler gets any of it.
//!
//! Called by: the phase `inspect_content`.
//! Caveat: the body is taken out of the exchange while it is read, and replaced by one that replays
//! what was read. Large content is inspected on another thread, so that other requests continue.
//! Out of scope: limits on the size of bodies, which apply while it is read here, too.

use crate::{
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

/// Content beyond this size is inspected on another thread.
pub(crate) const LARGE_BYTES: u64 = 32 << 10;

/// Runs work on another thread. `false`: it was not carried through, and may still be running.
pub type Offload = fn(Box<dyn FnOnce() + Send>) -> LocalFuture<'static, bool>;

struct Read {
    body: Gathered,
    outcome: Outcome,
}

enum Outcome {
    /// All bytes that rules inspect.
    Whole,
    /// More bytes than rules inspect.
    TooLarge,
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
        if let Some(transaction) = screening.transaction.borrow_mut().as_mut() {
            transaction.request_content();
        }
        return judge(exchange, &screening).into();
    }
    let inner = std::mem::replace(&mut exchange.body, Box::new(NoBody));
    let job = Job {
        transaction: Rc::clone(&screening.transaction),
        bytes_max: screening.rules.request_bytes_max(),
        files: Arc::clone(files),
        client: ClientNetwork::of(exchange.client.ip()).bytes(),
        offload,
    };
    Step::Pending(Box::pin(async move {
        let read = job.read(inner).await;
        finish(exchange, &screening, read)
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
        Outcome::TooLarge | Outcome::Whole => judge(exchange, screening),
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
    transaction: SharedTransaction,
    bytes_max: u64,
    files: Arc<BufferFiles>,
    client: ClientKey,
    offload: Offload,
}

impl Job {
    async fn read(self, inner: Box<dyn RequestBody>) -> Read {
        let mut body = Gathered::new(inner);
        let outcome = self.gather(&mut body).await;
        if matches!(outcome, Outcome::Whole | Outcome::TooLarge) {
            look(
                &self.transaction,
                body.bytes() > LARGE_BYTES,
                self.offload,
                Transaction::request_content,
            )
            .await;
        }
        Read { body, outcome }
    }

    /// Reads until the end, or until rules want no more.
    async fn gather(&self, body: &mut Gathered) -> Outcome {
        loop {
            let chunk = match poll_fn(|cx| body.poll_inner(cx)).await {
                None => return Outcome::Whole,
                Some(Err(error)) => return Outcome::Broken(error),
                Some(Ok(chunk)) => chunk,
            };
            let wants_more = self
                .transaction
                .borrow_mut()
                .as_mut()
                .is_some_and(|transaction| transaction.append_request_content(chunk.bytes()));
            if !body.keep(chunk, &self.files, self.client).await {
                return Outcome::NoRoom;
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

/// Lets the library inspect the content, on another thread if it is large. If that fails, the
/// transaction is lost and the request is refused.
pub(super) async fn look(
    shared: &SharedTransaction,
    is_much: bool,
    offload: Offload,
    look: fn(&mut Transaction),
) {
    let taken = shared.borrow_mut().take();
    let Some(mut transaction) = taken else { return };
    if !is_much {
        look(&mut transaction);
        *shared.borrow_mut() = Some(transaction);
        return;
    }
    let place = Arc::new(Mutex::new(Some(transaction)));
    let there = Arc::clone(&place);
    let is_done = offload(Box::new(move || {
        if let Some(transaction) = there
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
        {
            look(transaction);
        }
    }))
    .await;
    if is_done {
        *shared.borrow_mut() = place.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
