//! Responses known in advance: redirects and texts, built once as a ready head and sent again from
//! the route cache.
//!
//! Called by: this crate's redirects to directories, and the handler for configured redirects and
//! texts.
//! Caveat: a Location must be safe before it gets here (`location`).
//! Out of scope: templates of redirect targets.

use saker_http::{Fields, HeadView, Status, escape};
use saker_pipeline::{Body, CachedRoute, Chunk, Exchange, ReadyHead, Response, field_edits};
use std::rc::Rc;

/// Treatment of requests with a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queries {
    Same,
    /// Requests with a query need a full dispatch.
    Decline,
}

struct Fixed {
    head: Rc<ReadyHead>,
    body: Chunk,
    queries: Queries,
}

impl Fixed {
    fn response(&self) -> Response {
        let body = if self.body.is_empty() {
            Body::Empty
        } else {
            Body::Memory(self.body.clone())
        };
        Response::ready(Rc::clone(&self.head), body)
    }
}

impl CachedRoute for Fixed {
    fn answer(&self, head: HeadView<'_>, _: i64) -> Option<Response> {
        (self.queries == Queries::Same || !head.target().contains(&b'?')).then(|| self.response())
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Fixed>() + self.body.len() + self.head.http1.len() * 3
    }
}

/// Redirects to `location`, which must be safe already, with a short note for clients that don't
/// follow (RFC 9110 section 15.4).
pub fn redirect(
    exchange: &mut Exchange,
    status: Status,
    location: Vec<u8>,
    queries: Queries,
) -> Response {
    let mut note =
        b"<!doctype html>\n<title>Moved</title>\n<p>What you look for is <a href=\"".to_vec();
    escape::html(&location, &mut note);
    note.extend_from_slice(b"\">here</a>.</p>\n");
    let mut fields = Fields::new();
    fields.append("Location", location);
    fields.append("Content-Type", &b"text/html; charset=utf-8"[..]);
    respond(exchange, status, fields, note, queries)
}

/// Responds with a head that has the configured field edits, and leaves the response for further
/// requests.
pub fn respond(
    exchange: &mut Exchange,
    status: Status,
    mut fields: Fields,
    body: Vec<u8>,
    queries: Queries,
) -> Response {
    let body = if status.forbids_content() {
        Vec::new()
    } else {
        body
    };
    field_edits::apply(&exchange.routing.settings.fields, status, &mut fields);
    if exchange.cache.head_edits.is_some() {
        // Cached responses can't hold the rules' edits: these are applied by filters.
        return built(status, fields, body);
    }
    if !status.forbids_content() {
        fields.set("Content-Length", body.len().to_string().into_bytes());
    }
    let fixed = Fixed {
        head: Rc::new(ReadyHead::new(status, fields)),
        body: Chunk::from(body),
        queries,
    };
    let response = fixed.response();
    if !exchange.cache.request_dependent {
        exchange.cache.cached_route = Some(Rc::new(fixed));
    }
    response
}

/// The same as a head that filters edit.
fn built(status: Status, mut fields: Fields, body: Vec<u8>) -> Response {
    let mut response = Response::new(status);
    if !status.forbids_content() {
        fields.set("Content-Length", body.len().to_string().into_bytes());
        response.body = Body::Memory(Chunk::from(body));
    }
    *response.fields_mut() = fields;
    response
}
