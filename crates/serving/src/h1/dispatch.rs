//! A request that needs dispatch: makes the exchange, has the pipeline answer it, and starts
//! sending the response.
//!
//! Called by: `run`, for each request that the route cache does not answer.
//! Caveat: the rest of the request body is read afterwards, up to a bound, so that the connection
//! can be reused.

use super::{
    connection::Connection,
    head::{Http1Head, connection_of, framing_of},
    outgoing::Outgoing,
    request_body::{BodyState, Http1Body},
    step::{DispatchRequest, Sending, Step, Then, TunnelStart},
};
use crate::request::{
    BodyTime, Busy, Cause, Direction, Facts, Pending, log_facts, refusal, remember, request_limits,
    response_head,
};
use saker_config::model::Limits;
use saker_http::{Method, RequestHead, Status, Version};
use saker_http1::{
    BodyFraming, Connection as ConnectionLine, Expectation, ResponseFraming, expectation,
    keep_alive,
};
use saker_pipeline::{
    Body, BodyError, Exchange, LogFacts, Loggers, NoBody, RequestBody, Response, ResponseHead,
    Services, phases, respond,
};
use std::{cell::RefCell, future::poll_fn, rc::Rc, sync::Arc};

/// Unread request content that is drained so that the connection can be reused.
const DRAIN_BYTES_MAX: u64 = 256 << 10;

/// Logged for a client that disconnected; the number is nginx's.
const CLIENT_CLOSED_REQUEST: Status = Status(499);

impl Connection {
    /// Answers a request and starts sending its response. Returns the next step if there is
    /// nothing to send first.
    pub(super) async fn dispatch(&mut self, request: DispatchRequest) -> Option<Step> {
        let mut busy = Some(Busy::begin(&self.session, request.head.view()));
        let began_ns = saker_net::clock::realtime_precise_ns();
        let services = self.session.worker.services();
        let loggers = Rc::clone(&services.loggers);
        self.deadline.disarm();
        let view = request.head.view();
        let expectation = expectation(view);
        let limits = request_limits(self.session.limits(&services.generation));
        let state = Rc::new(RefCell::new(BodyState::new(
            request.framing,
            expectation == Expectation::Continue,
            &limits,
        )));
        // The exchange may get another head on its way, or end before the request's content does.
        let stays_alive = keep_alive(view);
        let unread = (!state.borrow().is_end()).then(|| request.head.clone());
        let mut exchange = self.exchange(request.head, &services, &state);
        exchange.limits.admission = request.admission;
        let mut response = self
            .answer(&mut exchange, &services, &state, expectation)
            .await;
        if exchange.limits.drops_connection {
            let logged = self.sending(&exchange, response, false, began_ns, loggers, None);
            logged.log_cut(&self.session);
            return Some(Step::Close(Cause::Refused));
        }
        let is_connect =
            exchange.head.view().method() == Method::Connect && response.status == Status::OK;
        if response.status != Status::SWITCHING_PROTOCOLS && !is_connect {
            response.tunnel = None;
        }
        if let Some(cached) = self.session.cached_answer.take() {
            cached.compare(&self.session.worker, &services, &exchange, &response);
        }
        let log_facts = log_facts(&loggers, &exchange);
        remember(
            &self.session.worker,
            &mut exchange,
            log_facts.clone(),
            request.framing == BodyFraming::None,
            &services,
        );
        let goes_on = self
            .session
            .stays_at(&services.generation, exchange.routing.site_index);
        let stays = goes_on
            && request.may_stay
            && stays_alive
            && state.borrow().is_cheap_to_drain(DRAIN_BYTES_MAX);
        let limit = phases::body_bytes_max(&exchange, &services);
        state.borrow_mut().limit(drain_bytes_max(limit));
        let mut sending = self.sending(&exchange, response, stays, began_ns, loggers, log_facts);
        if let Then::Tunnel(beginning) = &mut sending.then {
            beginning._busy = busy.take();
        }
        if let Some(log) = &sending.log {
            log.received(state.borrow().received());
            log.request_trailers(state.borrow_mut().take_trailers_to_log());
        }
        let _counted = std::mem::take(&mut exchange.limits.counted);
        drop(exchange);
        self.sending = Some(sending);
        self.unseen_input = true;
        let drained = poll_fn(|cx| self.poll_sending(cx)).await;
        self.after(drained, &state, unread.as_ref()).await
    }

    /// The response, made by the pipeline unless the client goes before that.
    async fn answer(
        &self,
        exchange: &mut Exchange,
        services: &Rc<Services>,
        state: &Rc<RefCell<BodyState>>,
        expectation: Expectation,
    ) -> Response {
        let outlives_client = Rc::clone(&exchange.upstream.outlives_client);
        let response = match expectation {
            // RFC 9110 section 10.1.1: an unknown expectation.
            Expectation::Unknown => {
                respond::built_in_page(Response::new(Status::EXPECTATION_FAILED))
            }
            _ => {
                let max = services.generation.model.limits.requests_at_a_time_max;
                let _place = self.session.worker.shared.busy.enter(max).await;
                let answering = respond::answer(exchange, services);
                self.unless_gone(state, &outlives_client, answering)
                    .await
                    .unwrap_or_else(|| Response::new(CLIENT_CLOSED_REQUEST))
            }
        };
        match state.borrow().failed() {
            Some(error) => refusal(error, response),
            None => response,
        }
    }

    fn exchange(
        &mut self,
        head: RequestHead,
        services: &Services,
        state: &Rc<RefCell<BodyState>>,
    ) -> Exchange {
        let limits = self
            .session
            .content_limits(&services.generation, head.view());
        state.borrow_mut().limit(limits.body_bytes_max);
        let body: Box<dyn RequestBody> = match state.borrow().is_end() {
            true => Box::new(NoBody),
            false => Box::new(self.body(state, limits)),
        };
        let site = Arc::clone(&services.generation.no_site);
        Exchange::new(
            Rc::clone(&self.session.client),
            head,
            body,
            site,
            saker_net::clock::realtime_s(),
        )
    }

    fn body(&mut self, state: &Rc<RefCell<BodyState>>, limits: &Limits) -> Http1Body {
        Http1Body {
            io: Rc::clone(&self.io),
            worker: Rc::clone(&self.session.worker),
            deadline: Rc::clone(&self.deadline),
            state: Rc::clone(state),
            time: BodyTime::new(limits),
            accounts: self.session.accounts().clone(),
        }
    }

    fn sending(
        &mut self,
        exchange: &Exchange,
        mut response: Response,
        stays: bool,
        began_ns: u64,
        loggers: Rc<Loggers>,
        log_facts: Option<Rc<LogFacts>>,
    ) -> Box<Sending> {
        let view = exchange.head.view();
        let framing = framing_of(&response, view);
        let stays = stays && framing != ResponseFraming::UntilClose;
        let mut head = Vec::with_capacity(512);
        let now = saker_net::clock::realtime_s();
        let connection = match (&response.head, &response.tunnel) {
            (ResponseHead::Built(_), Some(_)) if response.status == Status::SWITCHING_PROTOCOLS => {
                ConnectionLine::Upgrade
            }
            // The following bytes belong to the tunnel (RFC 9110 section 9.3.6).
            (ResponseHead::Built(_), Some(_)) => ConnectionLine::KeepAlive,
            _ => connection_of(view.version(), stays),
        };
        response_head::encode(
            &mut Http1Head::new(view, connection, &mut head),
            &response,
            response.body.length(),
            &mut self.session.common_headers(&response.head),
            now,
        );
        let facts = Facts {
            site: exchange.routing.site_index,
            status: response.status,
            path: &exchange.path,
            fields: Some(response.fields()),
            stays,
            log_facts: log_facts.as_ref(),
        };
        let log = Pending::with_fields(&self.session, loggers, view, &facts, &exchange.host);
        let no_content = view.method() == Method::Head || response.status.forbids_content();
        let body = if no_content {
            Body::Empty
        } else {
            std::mem::take(&mut response.body)
        };
        let chunked = framing == ResponseFraming::Chunked && view.version() >= Version::Http11;
        let then = match response.tunnel.take() {
            Some(program) => Then::Tunnel(Box::new(TunnelStart {
                program,
                log: None,
                bytes: 0,
                _busy: None,
            })),
            None if stays => Then::Continue,
            None => Then::Close(Cause::Done),
        };
        let pace = self.session.pace(
            Direction::Out,
            &exchange.routing.settings,
            exchange.routing.site_index,
        );
        Box::new(Sending {
            outgoing: Outgoing::new(head, body, chunked),
            then,
            log: log.map(|log| log.began(began_ns).asked_by(&self.session, exchange)),
            pace,
            _busy: None,
        })
    }

    /// Reads the rest of the request's body, or ends the connection because of it.
    async fn after(
        &mut self,
        then: Then,
        state: &Rc<RefCell<BodyState>>,
        head: Option<&RequestHead>,
    ) -> Option<Step> {
        let left = !state.borrow().is_end();
        match then {
            Then::Close(Cause::Done) if left => return Some(Step::Close(Cause::Unread)),
            Then::Close(cause) => return Some(Step::Close(cause)),
            Then::Dispatch(request) => return Some(Step::Dispatch(request)),
            Then::Http2(beginning) => return Some(Step::Http2(beginning)),
            Then::Tunnel(beginning) => return Some(Step::Tunnel(beginning)),
            Then::Continue => {}
        }
        let view = head.filter(|_| left).map(RequestHead::view)?;
        let services = self.session.worker.services();
        let limits = self.session.content_limits(&services.generation, view);
        let mut body = self.body(state, limits);
        loop {
            match poll_fn(|cx| body.poll_chunk(cx)).await {
                Some(Ok(_)) => {}
                None => return None,
                Some(Err(BodyError::TimedOut)) => return Some(Step::Close(Cause::BodyTimeout)),
                Some(Err(_)) => return Some(Step::Close(Cause::Unread)),
            }
        }
    }
}

/// The bytes of an unread body that are read after the response. `limit` is the site's; 0: none.
fn drain_bytes_max(limit: u64) -> u64 {
    match limit {
        0 => DRAIN_BYTES_MAX,
        limit => limit.min(DRAIN_BYTES_MAX),
    }
}
