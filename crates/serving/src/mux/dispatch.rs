//! Dispatch of a request: creates the exchange, runs the pipeline in a task of its own, and returns
//! the response to the connection.
//!
//! Called by: `requests` and `tunnel`.

use super::{
    answer::Answer,
    completion_queue::{Completion, CompletionQueue},
    exchanges::Exchanges,
    stream::{DispatchTask, Stream},
    stream_body::StreamBody,
    upload::Upload,
    wire::StreamId,
};
use crate::{
    request::{
        BodyTime, Busy, Sampled, log::request_line, log_facts, refusal, remember, status_of,
    },
    worker::Worker,
};
use saker_config::model::Limits;
use saker_http::{Fields, HeadView, KnownField, RequestHead, Status};
use saker_http1::{Expectation, expectation};
use saker_pipeline::{
    BodyError, Decision, Exchange, InterimSink, NoBody, RequestBody, Response, Services, respond,
};
use saker_rate_limits::Admission;
use saker_telemetry::error_log;
use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
    sync::Arc,
};

impl Exchanges {
    /// Sets a request on its way.
    pub(super) fn dispatch(
        &mut self,
        id: StreamId,
        view: HeadView<'_>,
        end_stream: bool,
        (admission, decision): (Option<Admission>, Option<Rc<Decision>>),
    ) {
        let services = self.session.worker.services();
        let upload = (!end_stream).then(|| Rc::new(RefCell::new(upload(view, &services))));
        let body: Box<dyn RequestBody> = match &upload {
            None => Box::new(NoBody),
            Some(upload) => Box::new(self.body(
                id,
                upload,
                self.session.content_limits(&services.generation, view),
            )),
        };
        let site = Arc::clone(&services.generation.no_site);
        let now = saker_net::clock::realtime_s();
        let mut exchange = Exchange::new(
            Rc::clone(&self.session.client),
            view.to_owned(),
            body,
            site,
            now,
        );
        exchange.limits.admission = admission;
        exchange.cache.decision = decision;
        self.start_dispatch(id, exchange, services, upload);
    }

    /// Has the rules answer a request that is refused with a status by its head.
    pub(super) fn dispatch_refused(&mut self, id: StreamId, view: HeadView<'_>, status: Status) {
        let services = self.session.worker.services();
        let host = view.known(KnownField::Host);
        let exchange = Exchange::new(
            Rc::clone(&self.session.client),
            RequestHead::stand_in(request_line(view.start_line()), host),
            Box::new(NoBody),
            Arc::clone(&services.generation.no_site),
            saker_net::clock::realtime_s(),
        );
        self.start(id, exchange, services, (None, Some(status)));
    }

    /// Starts the dispatch of an exchange.
    pub(super) fn start_dispatch(
        &mut self,
        id: StreamId,
        exchange: Exchange,
        services: Rc<Services>,
        upload: Option<Rc<RefCell<Upload>>>,
    ) {
        self.start(id, exchange, services, (upload, None));
    }

    fn start(
        &mut self,
        id: StreamId,
        mut exchange: Exchange,
        services: Rc<Services>,
        (upload, refused): (Option<Rc<RefCell<Upload>>>, Option<Status>),
    ) {
        let dispatch = DispatchRun {
            id,
            worker: Rc::clone(&self.session.worker),
            completions: Rc::clone(&self.completions),
            upload: upload.clone(),
            refused,
            sampled: self.session.sampled.take(),
            began_ns: saker_net::clock::realtime_precise_ns(),
        };
        exchange.log.stream_id = Some(id.0);
        exchange.upstream.interim = Some(Rc::new(StreamInterim {
            id,
            completions: Rc::downgrade(&self.completions),
        }));
        let busy = Busy::begin(&self.session, exchange.head.view());
        let client_abort = Rc::clone(&exchange.upstream.client_abort);
        let asked = error_log::speaks_nginx().then(|| Box::new(exchange.head.clone()));
        let task = tokio::task::spawn_local(dispatch.run(exchange, services)).abort_handle();
        let dispatch = DispatchTask {
            task,
            client_abort,
            asked,
            upload: upload.clone(),
        };
        self.streams.insert(
            id,
            Stream {
                dispatch: Some(dispatch),
                upload,
                _busy: Some(busy),
                ..Stream::default()
            },
        );
    }

    fn body(
        &mut self,
        stream: StreamId,
        upload: &Rc<RefCell<Upload>>,
        limits: &Limits,
    ) -> StreamBody {
        StreamBody {
            stream,
            upload: Rc::clone(upload),
            completions: Rc::clone(&self.completions),
            accounts: self.session.accounts().clone(),
            pace: None,
            time: Some(BodyTime::new(limits)),
            received: 0,
            sleep: None,
        }
    }
}

/// The interim responses of a stream.
struct StreamInterim {
    id: StreamId,
    /// Weak: the queue holds exchanges that have come back.
    completions: Weak<CompletionQueue>,
}

impl InterimSink for StreamInterim {
    fn send_interim(&self, status: Status, fields: &Fields) {
        if let Some(completions) = self.completions.upgrade() {
            completions.push(Completion::Interim(self.id, status, fields.clone()));
        }
    }
}

fn upload(view: HeadView<'_>, services: &Services) -> Upload {
    let declared = view
        .known(KnownField::ContentLength)
        .and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    let expects_continue = expectation(view) == Expectation::Continue;
    Upload::new(
        declared,
        services.generation.model.limits.body_bytes_max,
        expects_continue,
    )
}

struct DispatchRun {
    id: StreamId,
    worker: Rc<Worker>,
    completions: Rc<CompletionQueue>,
    upload: Option<Rc<RefCell<Upload>>>,
    /// The status of a request that is refused by its head.
    refused: Option<Status>,
    /// In debug builds: the answer that the dispatch is compared with.
    sampled: Option<Box<Sampled>>,
    began_ns: u64,
}

impl DispatchRun {
    async fn run(self, mut exchange: Exchange, services: Rc<Services>) {
        let unanswered = Unanswered {
            id: self.id,
            completions: Rc::downgrade(&self.completions),
            is_answered: Cell::new(false),
        };
        let limits = &services.generation.model.limits;
        let mut response = match expectation(exchange.head.view()) {
            _ if self.refused.is_some() => {
                let status = self.refused.unwrap_or(Status::BAD_REQUEST);
                Box::pin(respond::refuse(&mut exchange, &services, status)).await
            }
            Expectation::Unknown if !limits.ignores_expectations => {
                respond::built_in_page(Response::new(Status::EXPECTATION_FAILED))
            }
            _ => {
                let max = limits.requests_at_a_time_max;
                let _place = self.worker.shared.busy.enter(max).await;
                respond::answer(&mut exchange, &services).await
            }
        };
        let failed = self
            .upload
            .as_ref()
            .and_then(|upload| upload.borrow().failed());
        response = match failed {
            None => response,
            Some(BodyError::TimedOut) if limits.timeouts_are_silent => {
                exchange.limits.drops_connection = true;
                Response::new(Status::REQUEST_TIMEOUT)
            }
            Some(error) if limits.refusals_have_pages => match status_of(error) {
                // A handler has met the error, and its page is there.
                Some(status) if exchange.limits.paged != Some(status) => {
                    Box::pin(respond::refuse(&mut exchange, &services, status)).await
                }
                _ => response,
            },
            Some(error) => refusal(error, response),
        };
        if let Some(sampled) = &self.sampled {
            sampled.compare(&self.worker, &services, &exchange, &response);
        }
        let log_facts = log_facts(&services.loggers, &exchange);
        remember(
            &self.worker,
            &mut exchange,
            log_facts.clone(),
            self.upload.is_none(),
            &services,
        );
        let answer = Answer {
            exchange,
            response,
            upload: self.upload,
            loggers: Rc::clone(&services.loggers),
            log_facts,
            began_ns: self.began_ns,
        };
        unanswered.is_answered.set(true);
        self.completions
            .push(Completion::Answer(self.id, Box::new(answer)));
    }
}

/// Reports a request whose task ends without a response: a client must not wait for what never
/// comes.
struct Unanswered {
    id: StreamId,
    completions: Weak<CompletionQueue>,
    is_answered: Cell<bool>,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if !self.is_answered.get()
            && let Some(completions) = self.completions.upgrade()
        {
            completions.push(Completion::Lost(self.id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_ends_without_a_response_reports_its_request() {
        let queue = Rc::new(CompletionQueue::default());
        for is_answered in [true, false] {
            drop(Unanswered {
                id: StreamId(4),
                completions: Rc::downgrade(&queue),
                is_answered: Cell::new(is_answered),
            });
        }
        let reported = queue.take();
        assert!(matches!(*reported, [Completion::Lost(StreamId(4))]));
    }
}
