//! Requests of a page for its parts: by GET, on the visitor's account, through the whole walk as
//! any other.
//!
//! Place in the walk: begun by `assembly`; the look-up finds a [`Fragment`] in the exchange and
//! knows by it how deep it is. Difficulty: what a page says for an address (`inline`) has to be
//! kept as if that had answered: by its rules, under its key, for this visitor. So it goes the same
//! way, and is answered where programs would have been asked.

use super::{Inside, allowance::Held, bodies, source::Source};
use crate::page_cache::visit::Began;
use saker_esi::Inline;
use saker_http::{KnownField, RequestHead, Status, fields::known_name};
use saker_pipeline::{Body, Chunk, Exchange, Inner, NoBody, Response, Services, respond};
use saker_rate_limits::Admission;
use std::{rc::Rc, sync::Arc};

/// Of one part.
const FRAGMENT_BYTES_MAX: usize = 8 << 20;

/// What such a request brings along.
pub struct Fragment {
    pub inside: Inside,
    pub answered: Answered,
}

/// By whom.
pub enum Answered {
    ByAnyone,
    /// What is there, or nobody.
    FromCache,
    /// This is the answer, whose making began then.
    With(Box<Response>, Began),
}

/// What came.
#[derive(Clone)]
pub struct Fetched {
    pub content: Chunk,
    pub cookies: Vec<Vec<u8>>,
    /// Of what the page may hold; `None`: it is part of something that is held.
    pub held: Option<Rc<Held>>,
}

/// `Err`: the status that it failed with.
pub async fn fetch(
    services: &Services,
    source: &Source,
    target: &[u8],
    fragment: Fragment,
) -> Result<Fetched, Status> {
    let exchange = request(source, "GET", target, fragment);
    answer(services, exchange).await
}

/// The same by POST, with a form.
pub async fn post(
    services: &Services,
    source: &Source,
    target: &[u8],
    fragment: Fragment,
    form: Vec<u8>,
) -> Result<Fetched, Status> {
    let mut exchange = request(source, "POST", target, fragment);
    let length = form.len().to_string();
    let more = [
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Content-Length", length.as_str()),
    ];
    let more = more
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    exchange.head = exchange
        .head
        .with_fields(exchange.head.view().fields().chain(more));
    exchange.body = Box::new(bodies::Form(Some(form.into())));
    answer(services, exchange).await
}

/// The answer that a page says for an address, as old as the page.
pub fn said(inline: &Inline, content: Chunk, began: Began) -> Answered {
    let mut response = Response::new(Status::OK);
    let fields = response.fields_mut();
    fields.append("Content-Type", &b"text/html; charset=utf-8"[..]);
    let said = [
        ("X-LiteSpeed-Cache-Control", &inline.cache_control),
        ("X-LiteSpeed-Tag", &inline.cache_tag),
    ];
    for (name, value) in said {
        // A line of a head ends where it ends.
        let line = value.as_ref().map(|value| {
            value
                .iter()
                .copied()
                .filter(|byte| !byte.is_ascii_control())
                .collect::<Vec<u8>>()
        });
        line.into_iter()
            .for_each(|line| fields.append(known_name(name), line));
    }
    response.body = Body::Memory(content);
    Answered::With(Box::new(response), began)
}

/// Keeps what a page says for an address.
pub async fn prime(services: &Services, source: &Source, target: &[u8], said: Fragment) {
    let _ = answer(services, request(source, "GET", target, said)).await;
}

fn request(source: &Source, method: &str, target: &[u8], fragment: Fragment) -> Exchange {
    let view = source.head.view();
    let target = String::from_utf8_lossy(target);
    let head = RequestHead::build(method, &target, view.version(), &[]);
    let head = head.with_fields(view.fields().filter(|(name, _)| is_visitors(name)));
    let mut exchange = Exchange::new(
        Rc::clone(&source.client),
        head,
        Box::new(NoBody),
        Arc::clone(&source.site),
        source.now,
    );
    exchange.admission = Some(Admission::Pass);
    exchange.log_id = Rc::clone(&source.log_id);
    exchange.charge_to(&source.budget);
    exchange.extensions.insert(fragment);
    exchange
}

/// What is about him, and not about this one request, its content and its connection.
fn is_visitors(name: &[u8]) -> bool {
    use KnownField::*;
    let is_of_request = matches!(
        KnownField::classify(name),
        Some(
            IfNoneMatch
                | IfModifiedSince
                | IfMatch
                | IfUnmodifiedSince
                | IfRange
                | Range
                | ContentLength
                | TransferEncoding
                | AcceptEncoding
        )
    );
    const OTHERS: [&str; 12] = [
        "content-type",
        "content-encoding",
        "content-language",
        "content-md5",
        "expect",
        "upgrade",
        "connection",
        "te",
        "trailer",
        "cache-control",
        "pragma",
        "http2-settings",
    ];
    !is_of_request
        && !OTHERS
            .iter()
            .any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

async fn answer(services: &Services, mut exchange: Exchange) -> Result<Fetched, Status> {
    if !exchange.may_nest(Inner::Include) || exchange.is_over_budget() {
        return Err(Status::INTERNAL_SERVER_ERROR);
    }
    let fragment = exchange.extensions.get::<Fragment>();
    let memory = fragment.map_or_else(
        || Inside::default().memory,
        |fragment| fragment.inside.memory.clone(),
    );
    let response = respond::answer(&mut exchange, services).await;
    let status = response.status;
    let cookies = response
        .fields()
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("Set-Cookie"));
    let cookies = cookies.map(|(_, value)| value.to_vec()).collect();
    if !status.is_success() {
        return Err(status);
    }
    match bodies::collect(response.body, FRAGMENT_BYTES_MAX, &memory).await {
        Ok((content, held)) => Ok(Fetched {
            content,
            cookies,
            held: Some(Rc::new(held)),
        }),
        // RFC 9110 section 15.5.14: the nearest word for it.
        Err(bodies::NotWhole::TooLarge(_)) => Err(Status::CONTENT_TOO_LARGE),
        Err(bodies::NotWhole::Broken) => Err(Status::BAD_GATEWAY),
    }
}
