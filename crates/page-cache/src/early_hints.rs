//! 103 Early Hints (RFC 8297) from what stored pages linked: a browser loads style sheets and
//! connects to other hosts while the application still works on the page.
//!
//! Called by: the look-up, for requests that go to the application; `write`, for pages that are
//! stored.
//! Caveat: hints come from shared pages only, and only for requests that would select the very same
//! page, so no client is told what another one's page links. A purge of the page forgets them.
//! Browsers take hints over HTTP/2 and HTTP/3, for navigations; no others are sent.
//! Out of scope: hints that the application itself sends (the gateway passes them on).

use crate::{cache::PageCache, decide::Decision, page::Page, request::CacheRequest};
use saker_cache_rules::rules::preload_links::preload_links;
use saker_cache_store::EntryHead;
use saker_http::{Fields, HeadView, Method, Status, Version, fields::known_name};
use saker_pipeline::{Exchange, Response};

/// Remembers the links of a response that is being stored, if it becomes a shared page.
pub fn remember(
    cache: &PageCache,
    request: &CacheRequest,
    head: &EntryHead,
    response: &Response,
    decision: &Decision,
) {
    if !request.settings.config.sends_early_hints {
        return;
    }
    let is_shared = !decision.is_private && !request.is_query && request.include.is_none();
    let links = is_shared.then(|| preload_links(response.fields()));
    cache.page_links.remember(head, links.unwrap_or_default());
}

/// Sends what the page linked before. `found`: the stored page, which can't be used for this
/// request.
pub fn send(
    cache: &PageCache,
    exchange: &mut Exchange,
    request: &CacheRequest,
    found: Option<&Page>,
) {
    let view = exchange.head.view();
    if !request.settings.config.sends_early_hints || request.is_own() || !navigates(view) {
        return;
    }
    let Some(sink) = exchange.upstream.interim.clone() else {
        return;
    };
    let links = match found {
        Some(page) if page.is_private => return,
        Some(page) => preload_links(&page.fields),
        None => {
            let key = match &request.vary_record {
                Some(vary_record) => request.variant_key(vary_record, view),
                None => request.make_first_key(view),
            };
            key.and_then(|key| cache.page_links.links(&cache.store, &key))
                .unwrap_or_default()
        }
    };
    if links.is_empty() {
        return;
    }
    let mut fields = Fields::new();
    for link in links {
        fields.append(known_name("Link"), link);
    }
    sink.send_interim(Status::EARLY_HINTS, &fields);
    exchange.trace("cache", None, || "103: what the page linked before".into());
}

/// True for a browser that opens the page itself, over a protocol on which browsers take hints.
/// Fetch Metadata (`Sec-Fetch-*`) can't be set by scripts.
fn navigates(view: HeadView<'_>) -> bool {
    view.method() == Method::Get
        && matches!(view.version(), Version::Http2 | Version::Http3)
        && view.first("Sec-Fetch-Mode") == Some(b"navigate")
}
