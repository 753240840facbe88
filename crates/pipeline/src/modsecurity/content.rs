//! The content of a request, before anybody gets any of it.
//!
//! Difficulty: it comes later. The first visit to this step takes the body out of the exchange and
//! has the descent wait while it is read; the second puts there what hands it on. What the library
//! takes to look at much of it is not taken from other requests.

use super::{LARGE_BYTES, Screening, Shared, Stage, gathered::Gathered, refuse};
use crate::{BodyError, Exchange, LocalFuture, NoBody, RequestBody, Response, Services, Verdict};
use saker_abuse::Who;
use saker_files::{BufferFiles, buffer_files::ClientKey};
use saker_http::{Method, Status};
use saker_net::modsecurity::{Intervention, Transaction};
use saker_telemetry::{error_log, message};
use std::{
    cell::RefCell,
    future::poll_fn,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
};

/// Runs work on another thread. `false`: it was not carried through, and may still be running.
pub type Offload = fn(Box<dyn FnOnce() + Send>) -> LocalFuture<'static, bool>;

/// What has become of the reading; nothing as long as it goes on.
pub(super) type Reading = Rc<RefCell<Option<Read>>>;

pub(super) struct Read {
    body: Gathered,
    outcome: Outcome,
}

enum Outcome {
    /// As far as rules look at it.
    Whole,
    /// More than anybody looks at.
    TooLarge,
    Broken(BodyError),
    /// It has to be kept until it has been looked at, and can't be now.
    NoRoom,
}

pub(crate) fn content(exchange: &mut Exchange, services: &Services) -> Verdict {
    let Some(mut screening) = exchange.screening.take() else {
        return Verdict::Pass;
    };
    let stage = std::mem::replace(&mut screening.stage, Stage::Passed);
    match stage {
        Stage::Head => begin(exchange, services, screening),
        Stage::Reading(reading) => {
            let read = reading.borrow_mut().take();
            let enforcing = screening.rules.is_enforcing();
            exchange.screening = Some(screening);
            match read {
                Some(read) => finish(exchange, read, enforcing),
                None => Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR)),
            }
        }
        other => {
            screening.stage = other;
            exchange.screening = Some(screening);
            Verdict::Pass
        }
    }
}

fn begin(exchange: &mut Exchange, services: &Services, mut screening: Box<Screening>) -> Verdict {
    // What follows CONNECT is no content (RFC 9110 section 9.3.6).
    let has_some = !exchange.body.is_end() && exchange.head.view().method() != Method::Connect;
    if !has_some || !screening.rules.wants_request_content() {
        if let Some(transaction) = screening.transaction.borrow_mut().as_mut() {
            transaction.request_content();
        }
        exchange.screening = Some(screening);
        return judged(exchange);
    }
    let reading = Reading::default();
    let inner = std::mem::replace(&mut exchange.body, Box::new(NoBody));
    let job = Job {
        transaction: Rc::clone(&screening.transaction),
        bytes_max: screening.rules.request_bytes_max(),
        files: Arc::clone(&services.buffer_files),
        client: Who::of(exchange.client.ip()).bytes(),
        offload: services.offload,
    };
    let into = Rc::clone(&reading);
    screening.stage = Stage::Reading(reading);
    exchange.screening = Some(screening);
    Verdict::Wait(Box::pin(async move {
        let read = job.read(inner).await;
        *into.borrow_mut() = Some(read);
    }))
}

fn finish(exchange: &mut Exchange, read: Read, enforcing: bool) -> Verdict {
    exchange.body = Box::new(read.body);
    match read.outcome {
        Outcome::Broken(error) => Verdict::Answer(Response::new(status_of(error))),
        Outcome::NoRoom => {
            error_log::log_about(
                &message::RULE_REFUSED,
                exchange,
                format_args!(
                    "there is no room to read its content ahead (see buffer_files in [limits])"
                ),
            );
            let mut response = Response::new(Status::SERVICE_UNAVAILABLE);
            response.fields_mut().set("Retry-After", &b"5"[..]);
            Verdict::Answer(response)
        }
        Outcome::TooLarge if enforcing => {
            error_log::log_about(
                &message::RULE_REFUSED,
                exchange,
                format_args!("its content is larger than what is looked at"),
            );
            Verdict::Answer(Response::new(Status::CONTENT_TOO_LARGE))
        }
        Outcome::TooLarge | Outcome::Whole => judged(exchange),
    }
}

/// What the rules say now that they have seen it.
fn judged(exchange: &mut Exchange) -> Verdict {
    let Some(screening) = &exchange.screening else {
        return Verdict::Pass;
    };
    let found = match screening.transaction.borrow_mut().as_mut() {
        Some(transaction) => screening.about.intervention(transaction),
        // It was lost with a thread.
        None => Some(Intervention {
            status: 500,
            redirect: None,
            line: None,
        }),
    };
    match found {
        Some(found) => Verdict::Answer(refuse(exchange, found)),
        None => {
            exchange
                .screening
                .iter_mut()
                .for_each(|screening| screening.stage = Stage::Passed);
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
    transaction: Shared,
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

    /// Reads until there is no more, or nobody wants more.
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

/// Has the library look at what it was given, on another thread if that is much. Where that fails
/// the transaction is lost, and the request refused.
pub(super) async fn look(
    shared: &Shared,
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
