//! Refreshes an entry while clients get the old one: the same request again, on the cache's behalf.
//!
//! Called by: the look-up. The request goes through all phases and ends in the store filter.
//! Caveat: bounded in number; beyond that, a stale page waits for its turn.
//! Out of scope: pages that no client requests (`refetch`).

use crate::{
    cache::{PageCache, REFRESHES_MAX},
    clock::monotonic_ms,
    esi::context::IncludeContext,
    page::Page,
    stats::Stat,
};
use saker_cache_store::{FetchPermit, LockOutcome};
use saker_http::{KnownField, Method};
use saker_pipeline::{Body, Exchange, NoBody, respond};
use saker_rate_limits::Admission;
use saker_telemetry::Metric;
use std::{future::poll_fn, rc::Rc, sync::Arc};

/// Carried by the exchange of such a request.
pub struct RefreshRequest {
    pub permit: FetchPermit,
    pub old: Rc<Page>,
    /// Set if the page is a fragment.
    pub include: Option<IncludeContext>,
}

/// Starts a refresh, unless one is under way.
pub fn begin(
    cache: &Rc<PageCache>,
    exchange: &Exchange,
    page: &Rc<Page>,
    include: Option<IncludeContext>,
) {
    if cache.refreshes.get() >= REFRESHES_MAX {
        return;
    }
    let hash = cache.store.hash(&page.key);
    let LockOutcome::Leader(permit) = cache.store.cache_lock().acquire(hash, monotonic_ms()) else {
        return;
    };
    if cache.take_newer(page) {
        return;
    }
    let mut again = another(exchange);
    again.extensions.insert(RefreshRequest {
        permit,
        old: Rc::clone(page),
        include,
    });
    cache.count(Metric::PageCacheRefreshes);
    cache.worker_stats.of(&page.site).add(Stat::Refreshes, 1);
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

/// The same request as an unconditional GET without ranges.
pub fn another(exchange: &Exchange) -> Exchange {
    use KnownField::*;
    // Rules edit the new request, too; an edited Host would lead it to another site.
    let received = exchange.head.with_host_before_edits();
    let view = received.view();
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
        _ => received.clone(),
    };
    let head = head.with_fields(view.fields().filter(|(name, _)| is_left(name)));
    let mut again = Exchange::new(
        Rc::clone(&exchange.client),
        head,
        Box::new(NoBody),
        Arc::clone(&exchange.routing.site),
        exchange.now,
    );
    again.limits.admission = Some(Admission::Pass);
    again
}
