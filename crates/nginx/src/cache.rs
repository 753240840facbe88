//! `proxy_cache` and its kin: the plan for the page cache, and decisions that need the response.
//!
//! Called by: `proxy`, for each upstream request, and the page cache.
//! Caveat: the key is what the configuration says. Conditions of `*_no_cache` are evaluated when
//! there is a response, because they may ask for its fields.
//! Out of scope: the cache itself (`saker-page-cache`).

use crate::{made_upstreams::MadeUpstreams, request::Request, state::State};
use saker_files::Watcher;
use saker_nginx_model::{Nginx, Proxied, Text, modules::cache::Zone};
use saker_page_cache::keyed::{CachePlan, CacheZone, StoreJudge};
use saker_pipeline::{Exchange, Response};
use std::{rc::Rc, sync::Arc};

/// The zones of a configuration, which all workers share.
pub fn zones(zones: &[Arc<Zone>]) -> Vec<Arc<CacheZone>> {
    let zone = |zone: &Arc<Zone>| Arc::new(CacheZone::new(&zone.name, zone.keys_max));
    zones.iter().map(zone).collect()
}

/// The zones and the judge that plans need, and upstreams that were made, for one worker.
pub struct Caches {
    pub upstreams: MadeUpstreams,
    pub zones: Vec<Arc<CacheZone>>,
    pub judge: Rc<Judge>,
}

/// Decides whether responses are stored.
pub struct Judge {
    pub nginx: Arc<Nginx>,
    pub watcher: Watcher,
}

impl StoreJudge for Judge {
    fn forbids(&self, exchange: &mut Exchange, response: &Response) -> bool {
        let judged = Request::run(exchange, &self.nginx, &self.watcher, |request| {
            let location = Arc::clone(&request.state.location);
            let cache = location.proxied.as_ref().and_then(|own| own.cache.as_ref());
            let Some(cache) = cache.filter(|cache| !cache.no_cache.is_empty()) else {
                return false;
            };
            request.take_response(response.status.0, response.fields());
            is_any_true(request, &cache.no_cache) || request.state.has_failed
        });
        // Without the state of the request, nothing can be decided.
        judged.unwrap_or(true)
    }

    fn copy_state(&self, exchange: &Exchange, update: &mut Exchange) {
        if let Some(state) = exchange.extensions.get::<State>() {
            update.extensions.insert(State::clone(state));
        }
    }
}

fn is_any_true(request: &mut Request<'_>, conditions: &[Text]) -> bool {
    conditions.iter().any(|condition| {
        let value = request.text(condition);
        Request::is_true(Some(&value))
    })
}

/// Leaves a plan for an upstream request, where the location has a cache. False: the zone is
/// unknown.
pub fn plan(
    request: &mut Request<'_>,
    caches: &Caches,
    proxied: &Proxied,
    (name, target): (&str, &[u8]),
) -> bool {
    let Some(cache) = &proxied.cache else {
        return true;
    };
    let zone = request.text(&cache.zone);
    if matches!(&*zone, b"" | b"off") {
        return true;
    }
    let known = caches.zones.iter();
    let Some(zone) = known
        .into_iter()
        .find(|known| known.name.as_bytes() == zone)
    else {
        request.exchange.trace("fixups", None, || {
            format!("cache `{}` not found", String::from_utf8_lossy(&zone))
        });
        return false;
    };
    let key = match &cache.key {
        Some(text) => request.text(text),
        None => {
            let scheme = proxied.text.source.split_once("://");
            let scheme = scheme.map_or("http", |(scheme, _)| scheme);
            [scheme.as_bytes(), b"://", name.as_bytes(), target].concat()
        }
    };
    // Requests would meet under a key that lacks a part.
    if request.state.wants_content || request.state.has_failed {
        request.exchange.trace("fixups", None, || {
            "not cached: the key depends on the content of the request, or is too long".into()
        });
        return true;
    }
    let is_bypassed = is_any_true(request, &cache.bypass);
    let is_far_part = cache
        .range_offset_max
        .is_some_and(|max| first_byte(request).is_some_and(|first| first >= max));
    request.exchange.extensions.insert(CachePlan {
        zone: Arc::clone(zone),
        key,
        terms: Arc::clone(&cache.terms),
        is_bypassed,
        is_part: request.state.slice.is_some(),
        is_far_part: is_far_part && request.state.slice.is_none(),
        has_ranges: request.state.slice.is_none()
            && !request.state.location.conf.filters.changes_content(),
        judge: Rc::clone(&caches.judge) as Rc<dyn StoreJudge>,
    });
    true
}

/// The first byte of the first range that the client asks for; the last bytes are behind all.
fn first_byte(request: &Request<'_>) -> Option<u64> {
    let view = request.exchange.head.view();
    let value = view.known(saker_http::KnownField::Range)?;
    let (unit, ranges) = value.split_at_checked(6)?;
    let digits = ranges.split(|byte| *byte == b'-').next()?.trim_ascii();
    let is_range = unit.eq_ignore_ascii_case(b"bytes=");
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_range)?;
    match digits.is_empty() {
        true => Some(u64::MAX),
        false => digits.parse().ok(),
    }
}
