//! Updates of expired pages behind a client's back (`proxy_cache_background_update`), and contents
//! that only the cache reads.
//!
//! Called by: `forwarder`, when the expired page has answered, or the head of a response.
//! Caveat: bounded in number; beyond that, a later request asks. An update is the same upstream
//! request again, without the client's content.

use super::plan::StoreJudge;
use crate::{
    cache::{PageCache, REFRESHES_MAX},
    stats::Stat,
};
use saker_pipeline::{Body, BodyStream, Exchange, Handled, LocalFuture, VariableAdjustment};
use saker_telemetry::Metric;
use std::{
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll, Waker},
};

/// Chunks that are read at once, if they are there.
const PROMPT_CHUNKS_MAX: usize = 16;

/// Returns true if no further task may begin.
pub fn is_full(cache: &PageCache) -> bool {
    cache.refreshes.get() >= REFRESHES_MAX
}

/// Reads a content that is being stored to its end; no client waits for it. Returns true if that is
/// done, because all of it was there already. The rest is read on a task of its own, which ends
/// with a content that is too long to be stored.
pub fn read_for_cache(cache: &Rc<PageCache>, mut stream: Box<dyn BodyStream>) -> bool {
    let mut read_bytes = 0;
    let mut now = Context::from_waker(Waker::noop());
    for _ in 0..PROMPT_CHUNKS_MAX {
        match stream.poll_chunk(&mut now) {
            Poll::Ready(Some(Ok(chunk))) => read_bytes += chunk.len() as u64,
            Poll::Ready(_) => return true,
            Poll::Pending => break,
        }
    }
    let bytes_max = cache.store.bounds().entry_bytes_max;
    cache.refreshes.set(cache.refreshes.get() + 1);
    let cache = Rc::clone(cache);
    tokio::task::spawn_local(async move {
        while let Some(Ok(chunk)) = poll_fn(|cx| stream.poll_chunk(cx)).await {
            read_bytes += chunk.len() as u64;
            if bytes_max > 0 && read_bytes > bytes_max {
                break;
            }
        }
        cache.refreshes.set(cache.refreshes.get() - 1);
    });
    false
}

/// Has the rest of a content read for the cache, unless that is done for too many.
pub fn leave_to_cache(cache: &Rc<PageCache>, stream: Box<dyn BodyStream>) {
    if !is_full(cache) {
        read_for_cache(cache, stream);
    }
}

/// Starts an update, on a task of its own. `carry_out` asks the upstream and stores the response.
pub fn begin(
    cache: &Rc<PageCache>,
    judge: &dyn StoreJudge,
    exchange: &mut Exchange,
    site: &[u8],
    carry_out: impl FnOnce(Exchange) -> LocalFuture<'static, Handled>,
) {
    if is_full(cache) {
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
