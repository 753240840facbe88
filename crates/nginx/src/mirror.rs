//! `mirror`: copies of requests for other locations, whose answers are discarded.
//!
//! Called by: the rules, before content.
//! Caveat: a copy with content begins when the content has been read, and so does the request;
//! requests with more than [`BODY_BYTES_MAX`] have no copy with content. Copies are bounded per
//! worker; beyond that, they are left out and counted.
//! Out of scope: what the location does, which is a subrequest like any other.

use crate::{
    request::Request,
    subrequest::{self, Filters},
};
use saker_content_filters::{as_stream, made::next};
use saker_http::RequestHead;
use saker_pipeline::{BodyError, Chunk, Exchange, Inner, NoBody, RequestBody, Services};
use saker_telemetry::Metric;
use std::{
    cell::Cell,
    collections::VecDeque,
    future::poll_fn,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

/// Content of one copy.
pub const BODY_BYTES_MAX: u64 = 1 << 20;
/// Copies of a worker at a time.
const COPIES_MAX: usize = 256;
/// Fields that frame the content, which a copy without content does not have.
const FRAMING: [&str; 4] = ["content-length", "transfer-encoding", "trailer", "expect"];

/// The copies that a request wants.
#[derive(Debug)]
pub struct Wanted {
    uris: Vec<Vec<u8>>,
    with_content: bool,
}

/// The number of copies of a worker.
#[derive(Clone, Default)]
pub struct Copies(Rc<Cell<usize>>);

/// Returns the copies of the location; subrequests have none.
pub fn wanted(request: &mut Request<'_>) -> Option<Wanted> {
    let location = Arc::clone(&request.state.location);
    let conf = &location.conf.handlers;
    let mirrors = conf
        .mirrors
        .as_ref()
        .filter(|mirrors| !mirrors.is_empty())?;
    if request.state.is_subrequest {
        return None;
    }
    request.depends_on_request();
    Some(Wanted {
        uris: mirrors.iter().map(|text| request.text(text)).collect(),
        with_content: conf.mirrors_content != Some(false),
    })
}

/// Reads the content of the request, and starts the copies.
pub async fn begin(exchange: &mut Exchange, filters: &Filters, copies: &Copies, wanted: Wanted) {
    let content = match wanted.with_content && !exchange.body.is_end() {
        true => read(exchange).await,
        false => None,
    };
    let is_bare = content.is_none();
    let Some(services) = filters.inside.upgrade() else {
        return;
    };
    for uri in wanted.uris {
        let is_room = copies.0.get() < COPIES_MAX && exchange.may_nest(Inner::Include);
        let inner = is_room.then(|| copy(exchange, &uri, is_bare)).flatten();
        let Some(mut inner) = inner else {
            services.counters.increment(Metric::MirrorRequestsDropped);
            continue;
        };
        if let Some(chunks) = &content {
            inner.body = Box::new(Content::of(chunks.clone(), None));
        }
        start(inner, Rc::clone(&services), copies.clone());
    }
}

fn copy(exchange: &Exchange, uri: &[u8], is_bare: bool) -> Option<Exchange> {
    let (path, query) = subrequest::split(uri)?;
    let view = exchange.head.view();
    let is_left = |name: &[u8]| {
        !FRAMING
            .iter()
            .any(|known| known.as_bytes().eq_ignore_ascii_case(name))
    };
    let head: RequestHead = match is_bare {
        true => exchange
            .head
            .with_fields(view.fields().filter(|(name, _)| is_left(name))),
        false => exchange.head.clone(),
    };
    let query = query.or_else(|| exchange.query.clone());
    subrequest::inner(exchange, head, path, query)
}

/// Carries out a copy, on a task of its own.
fn start(mut inner: Exchange, services: Rc<Services>, copies: Copies) {
    copies.0.set(copies.0.get() + 1);
    tokio::task::spawn_local(async move {
        let response = subrequest::answer(&mut inner, &services).await;
        let is_answered = inner.upstream.is_answered_by_program || response.status.is_success();
        let mut body = as_stream(response.body);
        while let Some(Ok(_)) = next(body.as_mut()).await {}
        services.counters.increment(match is_answered {
            true => Metric::MirrorRequestsAnswered,
            false => Metric::MirrorRequestsFailed,
        });
        copies.0.set(copies.0.get().saturating_sub(1));
    });
}

/// Reads the content and puts it back. `None`: there is too much of it, or the client has failed.
async fn read(exchange: &mut Exchange) -> Option<VecDeque<Chunk>> {
    let length = exchange.body.length();
    if length.is_some_and(|length| length > BODY_BYTES_MAX) {
        return None;
    }
    let mut body = std::mem::replace(&mut exchange.body, Box::new(NoBody));
    let (mut chunks, mut bytes) = (VecDeque::new(), 0);
    loop {
        match poll_fn(|cx| body.poll_chunk(cx)).await {
            Some(Ok(chunk)) => {
                bytes += chunk.len() as u64;
                chunks.push_back(chunk.compact());
                if bytes > BODY_BYTES_MAX {
                    break;
                }
            }
            Some(Err(error)) => {
                let mut content = Content::of(chunks, Some(body));
                content.failed = Some(error);
                exchange.body = Box::new(content);
                return None;
            }
            None => {
                // Trailers are those of the first.
                let mut content = Content::of(chunks.clone(), None);
                content.trailers = body.trailers();
                exchange.body = Box::new(content);
                return Some(chunks);
            }
        }
    }
    let mut content = Content::of(chunks, Some(body));
    content.length = length;
    exchange.body = Box::new(content);
    None
}

/// Content that has been read, and what follows it.
struct Content {
    chunks: VecDeque<Chunk>,
    length: Option<u64>,
    rest: Option<Box<dyn RequestBody>>,
    failed: Option<BodyError>,
    trailers: Option<saker_http::Fields>,
}

impl Content {
    fn of(chunks: VecDeque<Chunk>, rest: Option<Box<dyn RequestBody>>) -> Content {
        let bytes = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        Content {
            length: rest.is_none().then_some(bytes),
            chunks,
            rest,
            failed: None,
            trailers: None,
        }
    }
}

impl RequestBody for Content {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        if let Some(chunk) = self.chunks.pop_front() {
            return Poll::Ready(Some(Ok(chunk)));
        }
        if let Some(error) = self.failed {
            return Poll::Ready(Some(Err(error)));
        }
        match &mut self.rest {
            Some(rest) => rest.poll_chunk(cx),
            None => Poll::Ready(None),
        }
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn is_end(&self) -> bool {
        self.chunks.is_empty()
            && self.failed.is_none()
            && self.rest.as_ref().is_none_or(|rest| rest.is_end())
    }

    fn trailers(&mut self) -> Option<saker_http::Fields> {
        match &mut self.rest {
            Some(rest) => rest.trailers(),
            None => self.trailers.take(),
        }
    }

    fn take_time(&mut self) {
        if let Some(rest) = &mut self.rest {
            rest.take_time();
        }
    }

    fn throttle(&mut self, throttle: &saker_config::model::Throttle, site: usize) {
        if let Some(rest) = &mut self.rest {
            rest.throttle(throttle, site);
        }
    }

    fn limit(&mut self, bytes_max: u64) {
        if let Some(rest) = &mut self.rest {
            let read: u64 = self.chunks.iter().map(|chunk| chunk.len() as u64).sum();
            // What has been read counts, too.
            let left = bytes_max.saturating_sub(read);
            rest.limit(if bytes_max == 0 { 0 } else { left.max(1) });
        }
    }
}
