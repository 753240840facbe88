//! Updates of expired pages behind a client's back (`proxy_cache_background_update`).
//!
//! Called by: `forwarder`, when the expired page has answered.
//! Caveat: bounded in number; beyond that, a later request asks. An update is the same upstream
//! request again, without the client's content.

use super::{forwarder::Errands, look_up::Errand, store::Place};
use crate::{cache::REFRESHES_MAX, page::Page, result_fields::CacheResult, stats::Stat};
use saker_cache_store::FetchPermit;
use saker_pipeline::{Body, Exchange, Handled, UpstreamRequest, VariableAdjustment};
use saker_telemetry::Metric;
use std::{future::poll_fn, rc::Rc};

/// Starts an update, on a task of its own.
pub fn begin(
    errands: Errands,
    exchange: &mut Exchange,
    call: Box<UpstreamRequest>,
    place: Place,
    (old, permit): (Rc<Page>, FetchPermit),
) {
    let cache = Rc::clone(&errands.cache);
    if cache.refreshes.get() >= REFRESHES_MAX {
        return;
    }
    let mut update = exchange.upstream_copy(exchange.head.clone());
    errands.plan.judge.copy_state(exchange, &mut update);
    if let Some(adjustment) = exchange.extensions.remove::<VariableAdjustment>() {
        update.extensions.insert(adjustment);
    }
    cache.count(Metric::PageCacheRefreshes);
    cache.worker_stats.of(&old.site).add(Stat::Refreshes, 1);
    cache.refreshes.set(cache.refreshes.get() + 1);
    tokio::task::spawn_local(async move {
        let errand = Errand {
            old: Some(old),
            permit: Some(permit),
            ..Errand::new(CacheResult::Expired)
        };
        let handled = errands.ask(&mut update, call, &place, errand).await;
        if let Handled::Answered(response) = handled
            && let Body::Stream(mut stream) = response.body
        {
            while let Some(Ok(_)) = poll_fn(|cx| stream.poll_chunk(cx)).await {}
        }
        cache.refreshes.set(cache.refreshes.get() - 1);
    });
}
