//! A request that needs the walk: an exchange is made, answered in a task of its own, and brought
//! back to the connection.

use super::{
    Exchanges, StreamId,
    inbox::{Inbox, Letter},
    stream::{Stream, WalkTask},
    upload::{StreamBody, Upload},
};
use crate::{
    serving::{BodyTime, Busy, Facts, Pending, log_facts, refusal, remember},
    site_logs::SiteLogs,
    worker::Worker,
};
use saker_config::model::Limits;
use saker_http::{HeadView, KnownField, Status};
use saker_http1::{Expectation, expectation};
use saker_pipeline::{
    Exchange, LogFacts, NoBody, RequestBody, Response, Services, TellHints, respond,
};
use saker_rate_limits::Admission;
use std::{cell::RefCell, rc::Rc, sync::Arc};

/// What a walk brings back.
pub struct Answer {
    pub exchange: Exchange,
    pub response: Response,
    pub upload: Option<Rc<RefCell<Upload>>>,
    pub logs: Rc<RefCell<SiteLogs>>,
    pub log_facts: Option<Rc<LogFacts>>,
    pub began_ns: u64,
}

impl Answer {
    /// The line that waits for the response to be sent.
    pub fn log(&self, connection: &Exchanges) -> Option<Pending> {
        let exchange = &self.exchange;
        let facts = Facts {
            site: exchange.site_index,
            status: self.response.status,
            path: &exchange.path,
            fields: Some(self.response.fields()),
            stays: true,
            walk: self.log_facts.as_ref(),
        };
        let received = self
            .upload
            .as_ref()
            .map_or(0, |upload| upload.borrow().received);
        let log = Pending::with_fields(
            &connection.session,
            Rc::clone(&self.logs),
            exchange.head.view(),
            &facts,
            &exchange.host,
        );
        log.map(|log| {
            log.received(received);
            log.began(self.began_ns)
                .asked_by(&connection.session, exchange)
        })
    }
}

impl Exchanges {
    /// Sets a request on its way.
    pub(super) fn walk(
        &mut self,
        id: StreamId,
        view: HeadView<'_>,
        end_stream: bool,
        admission: Option<Admission>,
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
        exchange.admission = admission;
        self.send_walk(id, exchange, services, upload);
    }

    /// Sends an exchange on its walk.
    pub(super) fn send_walk(
        &mut self,
        id: StreamId,
        mut exchange: Exchange,
        services: Rc<Services>,
        upload: Option<Rc<RefCell<Upload>>>,
    ) {
        let walk = Walk {
            id,
            worker: Rc::clone(&self.session.worker),
            logs: self.session.worker.logs(),
            inbox: Rc::clone(&self.inbox),
            upload: upload.clone(),
            began_ns: saker_net::clock::realtime_precise_ns(),
        };
        exchange.tell_hints = Some(hints_to(id, &self.inbox));
        let busy = Busy::begin(&self.session, exchange.head.view());
        let outlives_client = Rc::clone(&exchange.outlives_client);
        let task = tokio::task::spawn_local(walk.run(exchange, services)).abort_handle();
        let walk = WalkTask {
            task,
            outlives_client,
            upload: upload.clone(),
        };
        self.streams.insert(
            id,
            Stream {
                walk: Some(walk),
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
            inbox: Rc::clone(&self.inbox),
            accounts: self.session.accounts().clone(),
            pace: None,
            time: Some(BodyTime::new(limits)),
            received: 0,
            sleep: None,
        }
    }
}

/// Weak: the inbox holds exchanges that have come back.
fn hints_to(id: StreamId, inbox: &Rc<Inbox>) -> Rc<TellHints> {
    let inbox = Rc::downgrade(inbox);
    Rc::new(move |fields| {
        if let Some(inbox) = inbox.upgrade() {
            inbox.put(Letter::Hints(id, fields));
        }
    })
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

struct Walk {
    id: StreamId,
    worker: Rc<Worker>,
    logs: Rc<RefCell<SiteLogs>>,
    inbox: Rc<Inbox>,
    upload: Option<Rc<RefCell<Upload>>>,
    began_ns: u64,
}

impl Walk {
    async fn run(self, mut exchange: Exchange, services: Rc<Services>) {
        let mut response = match expectation(exchange.head.view()) {
            Expectation::Unknown => {
                respond::built_in_page(Response::new(Status::EXPECTATION_FAILED))
            }
            _ => {
                let max = services.generation.model.limits.requests_at_a_time_max;
                let _place = self.worker.shared.busy.enter(max).await;
                respond::answer(&mut exchange, &services).await
            }
        };
        if let Some(error) = self
            .upload
            .as_ref()
            .and_then(|upload| upload.borrow().failed())
        {
            response = refusal(error, response);
        }
        let log_facts = log_facts(&self.logs, &exchange);
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
            logs: self.logs,
            log_facts,
            began_ns: self.began_ns,
        };
        self.inbox.put(Letter::Answer(self.id, Box::new(answer)));
    }
}
