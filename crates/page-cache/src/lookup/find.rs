//! Finds the page for a request, and judges whether it may be used.
//!
//! Called by: `search`.
//! Caveat: a client's private page comes before the public one.
//! Out of scope: making the response (`answer`).

use crate::{
    cache::{Cached, PageCache},
    clock::ms,
    page::Page,
    request::CacheRequest,
    search_variance::rule_key,
};
use saker_cache_rules::rules::{Life, Use, judge_use, reuse::Why};
use saker_cache_store::Validity;
use saker_http::HeadView;
use saker_pipeline::Exchange;
use std::rc::Rc;

/// The page for this request, of any age: the client's private one, or the public one, which may
/// have been stored for an equivalent query.
pub async fn find_page(
    cache: &Rc<PageCache>,
    exchange: &Exchange,
    request: &mut CacheRequest,
) -> Option<Rc<Page>> {
    if cache.has_private(&request.key_base.scope)
        && let Some(page) = find_private(cache, exchange, request).await
    {
        return Some(page);
    }
    if !request.settings.config.public {
        return None;
    }
    if let Some(page) = find_public(cache, exchange, request).await {
        return Some(page);
    }
    if request.search_rule.is_some() || request.is_query || !request.settings.config.obeys_http {
        return None;
    }
    let Cached::Search(rule) = cache.find(&rule_key(&request.key_base.url)).await? else {
        return None;
    };
    request.compare_by(Some(rule));
    find_public(cache, exchange, request).await
}

async fn find_private(
    cache: &Rc<PageCache>,
    exchange: &Exchange,
    request: &mut CacheRequest,
) -> Option<Rc<Page>> {
    let view = exchange.head.view();
    let vary_record = match cache.find(&request.private_key(view)?).await? {
        Cached::Page(page) => return Some(page),
        Cached::Vary(vary_record) => vary_record,
        Cached::Search(_) => return None,
    };
    let key = request.private_variant_key(&vary_record, view);
    request.private_vary = Some(Rc::clone(&vary_record));
    match cache.find(&key?).await? {
        Cached::Page(page) if vary_record.leads_to(page.id) => Some(page),
        Cached::Page(_) | Cached::Vary(_) | Cached::Search(_) => None,
    }
}

async fn find_public(
    cache: &Rc<PageCache>,
    exchange: &Exchange,
    request: &mut CacheRequest,
) -> Option<Rc<Page>> {
    let view = exchange.head.view();
    request.first_key = request.make_first_key(view);
    if let Some(Cached::Page(page)) = cache.find(request.first_key.as_deref()?).await {
        return Some(page);
    }
    let Cached::Vary(vary_record) = cache.find(&request.vary_key()).await? else {
        return None;
    };
    let key = request.variant_key(&vary_record, view)?;
    request.vary_record = Some(Rc::clone(&vary_record));
    match cache.find(&key).await? {
        Cached::Page(page) if vary_record.leads_to(page.id) => Some(page),
        Cached::Page(_) | Cached::Vary(_) | Cached::Search(_) => None,
    }
}

/// Applies the rules, and what purges have left of the page.
pub fn judge(
    cache: &PageCache,
    view: HeadView<'_>,
    page: &Page,
    request: &CacheRequest,
    now_ms: i64,
) -> Option<Use> {
    let settings = &request.settings;
    if !request.may_use(&page.life) {
        return Some(Use::NotUsable(Why::Authorization));
    }
    match cache.validity(page) {
        Validity::Gone => None,
        Validity::Valid => Some(judge_use(view, &page.life, &settings.http, now_ms)),
        // Soft purge: as if its lifetime had ended now.
        Validity::Stale => {
            let stale_until = now_ms.saturating_add(ms(settings.config.grace_s.max(1)));
            let life = Life {
                fresh_until_ms: page.life.fresh_until_ms.min(now_ms),
                stale_while_revalidate_until_ms: page
                    .life
                    .stale_while_revalidate_until_ms
                    .max(stale_until),
                ..page.life.clone()
            };
            Some(judge_use(view, &life, &settings.http, now_ms))
        }
    }
}
