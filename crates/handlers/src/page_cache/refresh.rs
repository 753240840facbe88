//! Makes an entry anew while its visitors get the old one: the same request once more, on the
//! cache's own account.
//!
//! Place in the walk: begins in the look-up, runs beside it, ends in the filter that keeps. Its
//! exchange goes through all phases like any other; nobody sees its response. Bounded in number:
//! beyond that, a stale page waits for its turn.

use super::{PageCache, REFRESHES_MAX, esi::Inside, look_up, page::Page, tally::Count};
use saker_cache_store::{Boarding, Ticket};
use saker_http::{KnownField, Method};
use saker_pipeline::{Body, Exchange, NoBody, respond};
use saker_rate_limits::Admission;
use saker_telemetry::Metric;
use std::{future::poll_fn, rc::Rc, sync::Arc};

/// What the exchange of such a request brings along.
pub struct Refresh {
    pub ticket: Ticket,
    pub old: Rc<Page>,
    /// It is a part of other pages.
    pub inside: Option<Inside>,
}

/// Begins, unless somebody has begun already.
pub fn begin(cache: &Rc<PageCache>, exchange: &Exchange, page: &Rc<Page>, inside: Option<Inside>) {
    if cache.refreshes.get() >= REFRESHES_MAX {
        return;
    }
    let hash = cache.store.hash(&page.key);
    let Boarding::First(ticket) = cache.store.flights().board(hash, look_up::monotonic_ms()) else {
        return;
    };
    if cache.take_newer(page) {
        return;
    }
    let mut again = another(exchange);
    again.extensions.insert(Refresh {
        ticket,
        old: Rc::clone(page),
        inside,
    });
    cache.count(Metric::PageCacheRefreshes);
    cache.tallies.of(&page.site).add(Count::Refreshes, 1);
    cache.refreshes.set(cache.refreshes.get() + 1);
    let cache = Rc::clone(cache);
    tokio::task::spawn_local(async move {
        if let Some(services) = cache.services.upgrade() {
            let response = respond::answer(&mut again, &services).await;
            if let Body::Stream(mut stream) = response.body {
                while let Some(Ok(_)) = poll_fn(|cx| stream.poll_chunk(cx)).await {}
            }
        }
        cache.refreshes.set(cache.refreshes.get() - 1);
    });
}

/// The same request, whole: by GET, without conditions and ranges, which are the client's business.
fn another(exchange: &Exchange) -> Exchange {
    use KnownField::*;
    let view = exchange.head.view();
    let is_left = |name: &[u8]| {
        let known = KnownField::classify(name);
        !matches!(
            known,
            Some(
                IfNoneMatch
                    | IfModifiedSince
                    | IfMatch
                    | IfUnmodifiedSince
                    | IfRange
                    | Range
                    | ContentLength
                    | TransferEncoding
            )
        )
    };
    let target = String::from_utf8_lossy(view.target()).into_owned();
    let head = match view.method() {
        Method::Head => saker_http::RequestHead::build("GET", &target, view.version(), &[]),
        _ => exchange.head.clone(),
    };
    let head = head.with_fields(view.fields().filter(|(name, _)| is_left(name)));
    let mut again = Exchange::new(
        Rc::clone(&exchange.client),
        head,
        Box::new(NoBody),
        Arc::clone(&exchange.site),
        exchange.now,
    );
    again.admission = Some(Admission::Pass);
    again
}
