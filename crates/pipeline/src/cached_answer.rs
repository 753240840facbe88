//! Denials and redirects as cached routes: rules that answer by themselves are not asked again by
//! requests that give the same results.
//!
//! Called by: rules, which mark such an answer ([`Exchange::keep_answer`]); `respond`, which makes
//! it a cached route once the filters have run.
//! Caveat: only a response that is complete in memory is cached, with the head as it was sent. All
//! that the answer, its page, and the filters depended on must be recorded in the exchange.
//! Out of scope: answers of handlers, which leave cached routes of their own.

use crate::{Body, CachedRoute, Chunk, Exchange, ReadyHead, Response, ResponseHead};
use saker_http::{HeadView, Method, Status};
use std::rc::Rc;

/// Maximum size of a body that is cached.
const BODY_BYTES_MAX: usize = 16 << 10;

/// A complete answer.
struct CachedAnswer {
    head: Rc<ReadyHead>,
    body: Chunk,
}

impl CachedRoute for CachedAnswer {
    fn answer(&self, _: HeadView<'_>, _: i64) -> Option<Response> {
        let body = match self.body.is_empty() {
            true => Body::Empty,
            false => Body::Memory(self.body.clone()),
        };
        Some(Response::ready(Rc::clone(&self.head), body))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<CachedAnswer>() + self.body.len() + self.head.http1.len() * 3
    }
}

impl Exchange {
    /// Marks the answer of a rule as one for all requests with the same outcome. Everything that it
    /// depends on has been recorded.
    pub fn keep_answer(&mut self) {
        self.cache.keeps_answer = true;
    }
}

/// Leaves a complete answer as the cached route of its exchange, if its rule has marked it.
pub(crate) fn keep(exchange: &mut Exchange, response: &Response) {
    // A response to HEAD may lack the page.
    let is_marked = exchange.cache.keeps_answer
        && exchange.head.view().method() == Method::Get
        && !exchange.cache.request_dependent
        && exchange.cache.cached_route.is_none();
    if !is_marked || !is_rules_own(exchange) || !is_kept(response.status) {
        return;
    }
    let ResponseHead::Built(fields) = &response.head else {
        return;
    };
    let body = match &response.body {
        Body::Empty => Chunk::from(Vec::new()),
        Body::Memory(chunk) if chunk.len() <= BODY_BYTES_MAX => chunk.clone(),
        _ => return,
    };
    let mut fields = fields.clone();
    fields.set("Content-Length", body.len().to_string().into_bytes());
    exchange.cache.cached_route = Some(Rc::new(CachedAnswer {
        head: Rc::new(ReadyHead::new(response.status, fields)),
        body,
    }));
}

/// Redirects and refusals. Answers about credentials and methods differ by client.
fn is_kept(status: Status) -> bool {
    matches!(
        status.0,
        301 | 302 | 303 | 307 | 308 | 400 | 403 | 404 | 410 | 451
    )
}

/// Returns true if nothing but rules took part in the answer.
fn is_rules_own(exchange: &Exchange) -> bool {
    !exchange.upstream.is_answered_by_program
        && exchange.access.user.is_none()
        && exchange.access.inspection.is_none()
        && !exchange.limits.drops_connection
}
