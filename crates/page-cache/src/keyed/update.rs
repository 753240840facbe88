//! Updates of expired pages behind a client's back (`proxy_cache_background_update`).
//!
//! Called by: `forwarder`, when the expired page has answered.
//! Caveat: bounded in number; beyond that, a later request asks. An update is the same upstream
//! request again, without the client's content.

use super::plan::StoreJudge;
use crate::{
    cache::{PageCache, REFRESHES_MAX},
    stats::Stat,
};
use saker_pipeline::{Body, Exchange, Handled, LocalFuture, VariableAdjustment};
use saker_telemetry::Metric;
use std::{future::poll_fn, rc::Rc};

/// Starts an update, on a task of its own. `carry_out` asks the upstream and stores the response.
pub fn begin(
    cache: &Rc<PageCache>,
    judge: &dyn StoreJudge,
    exchange: &mut Exchange,
    site: &[u8],
    carry_out: impl FnOnce(Exchange) -> LocalFuture<'static, Handled>,
) {
    if cache.refreshes.get() >= REFRESHES_MAX {
        return;
    }
    let mut update = exchange.upstream_copy(exchange.head.clone());
    judge.copy_state(exchange, &mut update);
    if let Some(adjustment) = exchange.extensions.remove::<VariableAdjustment>() {
        update.extensions.insert(adjustment);
    }
    cache.count(Metric::PageCacheRefreshes);
    cache.worker_stats.of(site).add(Stat::Refreshes, 1);
    cache.refreshes.set(cache.refreshes.get() + 1);
    let (cache, asked) = (Rc::clone(cache), carry_out(update));
    tokio::task::spawn_local(async move {
        if let Handled::Answered(response) = asked.await
            && let Body::Stream(mut stream) = response.body
        {
            while let Some(Ok(_)) = poll_fn(|cx| stream.poll_chunk(cx)).await {}
        }
        cache.refreshes.set(cache.refreshes.get() - 1);
    });
}
