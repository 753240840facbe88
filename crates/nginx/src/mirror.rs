//! `mirror`: copies of requests for other locations, whose answers are discarded.
//!
//! Called by: the rules, before content.
//! Caveat: a copy with content begins when the content has been read, and so does the request;
//! requests with more than [`BODY_BYTES_MAX`] have no copy with content. Copies are bounded per
//! worker; beyond that, they are left out and counted.
//! Out of scope: what the location does, which is a subrequest like any other.

use crate::{
    kept_content::{self, Content},
    request::Request,
    subrequest::{self, Filters},
};
use saker_content_filters::{as_stream, made::next};
use saker_http::RequestHead;
use saker_pipeline::{Exchange, Inner, Services};
use saker_telemetry::Metric;
use std::{cell::Cell, rc::Rc, sync::Arc};

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
        true => kept_content::read(exchange, BODY_BYTES_MAX).await,
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
