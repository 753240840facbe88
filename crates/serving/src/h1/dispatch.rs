//! A request that needs dispatch: makes the exchange, has the pipeline answer it, and starts
//! sending the response.
//!
//! Called by: `run`, for each request that the route cache does not answer.
//! Caveat: the rest of the request body is read afterwards, up to a bound, so that the connection
//! can be reused.

use super::{
    connection::Connection,
    reply::{Reply, ReplyTerms},
    request_body::{BodyState, Http1Body},
    step::{DispatchRequest, Step, Then},
};
use crate::request::{
    BodyTime, Busy, CLIENT_CLOSED_REQUEST, Cause, client_lines, log_facts, refusal, remember,
    request_limits, status_of,
};
use saker_config::model::Limits;
use saker_http::{Method, RequestHead, Status, Version};
use saker_http1::{BodyFraming, Expectation, RequestLimits, expectation, keep_alive};
use saker_pipeline::{
    BodyError, Exchange, Loggers, NoBody, RequestBody, Response, Services, phases, respond,
};
use std::{cell::RefCell, future::poll_fn, pin::pin, rc::Rc, sync::Arc};

/// Unread request content that is drained so that the connection can be reused.
const DRAIN_BYTES_MAX: u64 = 256 << 10;

/// Only two answers make a tunnel of the connection.
fn drop_unwanted_tunnel(exchange: &Exchange, response: &mut Response) {
    let is_connect =
        exchange.head.view().method() == Method::Connect && response.status == Status::OK;
    if response.status != Status::SWITCHING_PROTOCOLS && !is_connect {
        response.tunnel = None;
    }
}

/// The end behind the answer to a head that was refused: what came with it is not all read.
fn ended(then: Then, refused: Option<Status>) -> Then {
    match then {
        Then::Close(Cause::Done) if refused.is_some() => Then::Close(Cause::Rejected),
        then => then,
    }
}

impl Connection {
    /// Answers a request and starts sending its response. Returns the next step if there is
    /// nothing to send first.
    pub(super) async fn dispatch(&mut self, request: Box<DispatchRequest>) -> Option<Step> {
        let DispatchRequest {
            head,
            framing,
            may_stay,
            refused,
            admission,
            decision,
        } = *request;
        let mut busy = Some(Busy::begin(&self.session, head.view()));
        let began_ns = saker_net::clock::realtime_precise_ns();
        let services = self.session.worker.services();
        let loggers = Rc::clone(&services.loggers);
        self.deadline.disarm();
        let view = head.view();
        let expectation = expectation(view);
        let limits = request_limits(self.session.limits(&services.generation));
        let state = self.body_state(framing, expectation, &limits, &services);
        state.borrow_mut().always_continues =
            self.session.limits(&services.generation).always_continues;
        // The exchange may get another head on its way, or end before the request's content does.
        let stays_alive = keep_alive(view);
        let unread = (!state.borrow().is_end()).then(|| Box::new(head.clone()));
        // It is large, and moved once.
        let mut place = Some(self.exchange(head, &services, &state));
        let exchange = place.as_mut()?;
        exchange.limits.admission = admission;
        exchange.limits.refused = refused;
        let generation = services.generation.number;
        exchange.cache.decision = decision.filter(|decision| decision.is_of(generation));
        let mut response = self.answer(exchange, &services, &state, expectation).await;
        if exchange.limits.drops_connection {
            return Some(self.cut(exchange, response, began_ns, loggers));
        }
        drop_unwanted_tunnel(exchange, &mut response);
        self.compare_sampled(&services, exchange, &response);
        let log_facts = log_facts(&loggers, exchange);
        remember(
            &self.session.worker,
            exchange,
            log_facts.clone(),
            framing == BodyFraming::None,
            &services,
        );
        let stays = self.stays_behind(exchange, &services)
            && may_stay
            && stays_alive
            && state.borrow().is_cheap_to_drain(DRAIN_BYTES_MAX);
        let rest_bytes_max = (!exchange.limits.reflects_content)
            .then(|| drain_bytes_max(phases::body_bytes_max(exchange, &services)));
        let terms = ReplyTerms {
            stays,
            began_ns,
            loggers,
            log_facts,
        };
        let reply = self.reply(exchange, response, terms, &state);
        let _counted = std::mem::take(&mut exchange.limits.counted);
        Exchange::recycle(&mut place);
        self.unseen_input = true;
        let then = self.send_rest(reply, &mut busy).await;
        let then = ended(then, refused);
        if let Some(bytes_max) = rest_bytes_max {
            state.borrow_mut().limit(bytes_max);
        }
        let next = self.after(then, &state, unread.as_deref()).await;
        BodyState::recycle(state);
        next
    }

    /// Ends the connection without the response, which has its line all the same.
    fn cut(
        &mut self,
        exchange: &Exchange,
        response: Response,
        began_ns: u64,
        loggers: Rc<Loggers>,
    ) -> Step {
        let log_facts = log_facts(&loggers, exchange);
        let terms = ReplyTerms::cut(began_ns, loggers, log_facts);
        let cause = match response.status {
            CLIENT_CLOSED_REQUEST => Cause::Gone,
            _ => Cause::Refused,
        };
        let logged = self.sending(exchange, response, terms);
        logged.log_cut(&self.session);
        Step::Close(cause)
    }

    fn body_state(
        &self,
        framing: BodyFraming,
        expectation: Expectation,
        limits: &RequestLimits,
        services: &Services,
    ) -> Rc<RefCell<BodyState>> {
        let mut state = BodyState::new(framing, expectation == Expectation::Continue, limits);
        let limits = self.session.limits(&services.generation);
        state.always_continues = limits.always_continues;
        state.shared()
    }

    fn compare_sampled(
        &mut self,
        services: &Rc<Services>,
        exchange: &Exchange,
        response: &Response,
    ) {
        if let Some(sampled) = self.session.sampled.take() {
            sampled.compare(&self.session.worker, services, exchange, response);
        }
    }

    /// Returns true if the requested site lets the connection continue behind the response.
    fn stays_behind(&mut self, exchange: &Exchange, services: &Services) -> bool {
        let limits = &exchange.limits;
        let stays = self
            .session
            .stays_at(&services.generation, exchange.routing.site_index);
        if let Some(timeout_ms) = limits.idle_timeout_ms {
            self.session.set_idle_timeout(timeout_ms);
        }
        stays && !limits.closes_connection
    }

    /// Sends what is left of a response. A tunnel takes `busy`.
    async fn send_rest(&mut self, reply: Reply, busy: &mut Option<Busy>) -> Then {
        match reply {
            Reply::Sent(then) => then,
            Reply::Later(mut sending) => {
                if let Then::Tunnel(beginning) = &mut sending.then {
                    beginning._busy = busy.take();
                }
                self.sending = Some(sending);
                poll_fn(|cx| self.poll_sending(cx)).await
            }
        }
    }

    /// The response, made by the pipeline unless the client goes before that.
    async fn answer(
        &self,
        exchange: &mut Exchange,
        services: &Rc<Services>,
        state: &Rc<RefCell<BodyState>>,
        expectation: Expectation,
    ) -> Response {
        let ignores = self
            .session
            .limits(&services.generation)
            .ignores_expectations;
        let client_abort = Rc::clone(&exchange.upstream.client_abort);
        let response = match expectation {
            // RFC 9110 section 10.1.1: an unknown expectation.
            Expectation::Unknown if !ignores => {
                respond::built_in_page(Response::new(Status::EXPECTATION_FAILED))
            }
            _ => {
                let max = services.generation.model.limits.requests_at_a_time_max;
                let _place = self.session.worker.shared.busy.enter(max).await;
                let made = {
                    let answering = pin!(respond::answer(exchange, services));
                    self.unless_gone(state, &client_abort, answering).await
                };
                made.unwrap_or_else(|| {
                    client_lines::left(exchange);
                    exchange.limits.drops_connection = true;
                    Response::new(CLIENT_CLOSED_REQUEST)
                })
            }
        };
        let failed = state.borrow().failed();
        let limits = self.session.limits(&services.generation);
        match failed {
            None => response,
            Some(BodyError::TimedOut) if limits.timeouts_are_silent => {
                exchange.limits.drops_connection = true;
                Response::new(Status::REQUEST_TIMEOUT)
            }
            Some(error) if limits.refusals_have_pages => match status_of(error) {
                // A handler has met the error, and its page is there.
                Some(status) if exchange.limits.paged != Some(status) => {
                    Box::pin(respond::refuse(exchange, services, status)).await
                }
                _ => response,
            },
            Some(error) => refusal(error, response),
        }
    }

    #[inline(always)]
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
        // A client of HTTP/1.0 knows no interim responses (RFC 9110 section 15.2).
        let takes_interim = head.view().version() >= Version::Http11;
        let mut exchange = Exchange::new(
            Rc::clone(&self.session.client),
            head,
            body,
            site,
            saker_net::clock::turn_s(),
        );
        if takes_interim {
            exchange.upstream.interim = Some(self.io.clone());
        }
        exchange
    }

    fn body(&mut self, state: &Rc<RefCell<BodyState>>, limits: &Limits) -> Http1Body {
        Http1Body {
            io: Rc::clone(&self.io),
            worker: Rc::clone(&self.session.worker),
            deadline: None,
            state: Rc::clone(state),
            time: BodyTime::new(limits),
            accounts: self.session.accounts().clone(),
        }
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
        if Rc::strong_count(state) > 1 {
            // An upstream that goes on without its client may not lose parts of it.
            return Some(Step::Close(Cause::Unread));
        }
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
