//! Requests of a page for its fragments: GET, with the client's fields, through all phases.
//!
//! Called by: `assembly`, `assemble` and `combined`. The look-up finds a [`FragmentRequest`] in the
//! exchange.
//! Caveat: inline content for a URL has to be stored as if that URL had answered: by its rules,
//! under its key, for this client. So it takes the same way and stands in for the program.
//! Out of scope: concurrency and order.

use crate::{
    esi::{bodies, context::IncludeContext, memory_budget::Reservation, source::IncludeSource},
    request::FetchStart,
};
use saker_esi::Inline;
use saker_http::{KnownField, RequestHead, Status, fields::known_name};
use saker_pipeline::{Body, Chunk, Exchange, Inner, NoBody, Response, Services, respond};
use saker_rate_limits::Admission;
use std::{rc::Rc, sync::Arc};

/// Limit for one fragment.
const FRAGMENT_BYTES_MAX: usize = 8 << 20;

/// Carried by the exchange of such a request.
pub struct FragmentRequest {
    pub include: IncludeContext,
    pub answered: FragmentAnswer,
}

/// The handlers that may answer a fragment request.
pub enum FragmentAnswer {
    ByAnyone,
    /// The cache, or nothing.
    FromCache,
    /// This response, whose making began then.
    With(Box<Response>, FetchStart),
}

/// A fetched fragment.
#[derive(Clone)]
pub struct FetchedFragment {
    pub content: Chunk,
    pub cookies: Vec<Vec<u8>>,
    /// Memory reservation; `None` if the content is a slice of something reserved.
    pub held: Option<Rc<Reservation>>,
}

/// Fetches a fragment.
/// # Errors
/// The status that it failed with.
pub async fn fetch(
    services: &Services,
    source: &IncludeSource,
    target: &[u8],
    fragment: FragmentRequest,
) -> Result<FetchedFragment, Status> {
    let exchange = request(source, "GET", target, fragment);
    answer(services, exchange).await
}

/// Fetches by POST, with a form.
pub async fn post(
    services: &Services,
    source: &IncludeSource,
    target: &[u8],
    fragment: FragmentRequest,
    form: Vec<u8>,
) -> Result<FetchedFragment, Status> {
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
    exchange.body = Box::new(bodies::FormBody(Some(form.into())));
    answer(services, exchange).await
}

/// Inline content as a response for its URL, as old as the page.
pub fn inline_answer(inline: &Inline, content: Chunk, began: FetchStart) -> FragmentAnswer {
    let mut response = Response::new(Status::OK);
    let fields = response.fields_mut();
    fields.append("Content-Type", &b"text/html; charset=utf-8"[..]);
    let lines = [
        ("X-LiteSpeed-Cache-Control", &inline.cache_control),
        ("X-LiteSpeed-Tag", &inline.cache_tag),
    ];
    for (name, value) in lines {
        // Control characters would end the field line.
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
    FragmentAnswer::With(Box::new(response), began)
}

/// Stores inline content for its URL.
pub async fn prime(
    services: &Services,
    source: &IncludeSource,
    target: &[u8],
    fragment: FragmentRequest,
) {
    let _ = answer(services, request(source, "GET", target, fragment)).await;
}

fn request(
    source: &IncludeSource,
    method: &str,
    target: &[u8],
    fragment: FragmentRequest,
) -> Exchange {
    let view = source.head.view();
    let target = String::from_utf8_lossy(target);
    let head = RequestHead::build(method, &target, view.version(), &[]);
    let head = head.with_fields(view.fields().filter(|(name, _)| is_forwarded(name)));
    let mut exchange = Exchange::new(
        Rc::clone(&source.client),
        head,
        Box::new(NoBody),
        Arc::clone(&source.site),
        source.now,
    );
    exchange.limits.admission = Some(Admission::Pass);
    exchange.log.id = Rc::clone(&source.log_id);
    exchange.charge_to(&source.budget);
    exchange.extensions.insert(fragment);
    exchange
}

/// True for fields that describe the client, not this request, its content or its connection.
fn is_forwarded(name: &[u8]) -> bool {
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

pub async fn answer(
    services: &Services,
    mut exchange: Exchange,
) -> Result<FetchedFragment, Status> {
    if !exchange.may_nest(Inner::Include) || exchange.is_over_budget() {
        return Err(Status::INTERNAL_SERVER_ERROR);
    }
    let fragment = exchange.extensions.get::<FragmentRequest>();
    let memory = fragment.map_or_else(
        || IncludeContext::default().memory,
        |fragment| fragment.include.memory.clone(),
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
        Ok((content, held)) => Ok(FetchedFragment {
            content,
            cookies,
            held: Some(Rc::new(held)),
        }),
        // RFC 9110 section 15.5.14: the closest match.
        Err(bodies::CollectError::TooLarge(_)) => Err(Status::CONTENT_TOO_LARGE),
        Err(bodies::CollectError::Broken) => Err(Status::BAD_GATEWAY),
    }
}
