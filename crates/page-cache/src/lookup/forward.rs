//! Passes a request on to whatever makes the response, prepared so that the response can be stored.
//!
//! Called by: `search`.
//! Caveat: the response is requested whole and without a coding, whatever the client asked for; the
//! client's own request is restored by `store_response`.
//! Out of scope: storing.

use crate::{
    announce::{CAPABILITY, offers_esi},
    cache::PageCache,
    prepare,
    request::CacheRequest,
};
use saker_cache_rules::rules::validation;
use saker_http::KnownField::{
    self, AcceptEncoding, IfMatch, IfModifiedSince, IfNoneMatch, IfRange, IfUnmodifiedSince,
};
use saker_pipeline::Exchange;

/// Passes the request on. A response that may be stored is requested unconditionally and without a
/// coding, because codings are made once, from the stored page; a stored page adds its validators.
pub fn go_on(cache: &PageCache, exchange: &mut Exchange, mut request: CacheRequest) {
    if request.old.is_none() {
        // What is made begins now: purges that came while the request was read and looked up are
        // in force, and the page has to outlive them. A page that is validated may be older.
        request.purge_seq = cache.store.purge_seq();
    }
    let view = exchange.head.view();
    let mut offers_esi = offers_esi(&request);
    if request.is_fetch(view) {
        let is_left = |name: &[u8]| {
            let known = KnownField::classify(name);
            let is_condition = matches!(
                known,
                Some(IfNoneMatch | IfModifiedSince | IfMatch | IfUnmodifiedSince | IfRange)
            );
            let is_replaced = offers_esi && name.eq_ignore_ascii_case(CAPABILITY.0);
            known != Some(AcceptEncoding)
                && !(is_condition && request.permit.is_some())
                && !is_replaced
        };
        let old = request.old.as_ref().filter(|_| request.permit.is_some());
        let conditions = old
            .map(|old| validation::conditions(&old.fields))
            .unwrap_or_default();
        request.validates = !conditions.is_empty();
        let more = conditions
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_slice()))
            .chain(offers_esi.then_some(CAPABILITY));
        let head = exchange.head.edited(is_left, more);
        offers_esi = false;
        request.asked = Some(std::mem::replace(&mut exchange.head, head));
    }
    request.under_way = Some(cache.store.under_way(prepare::expected_probes(&request)));
    leave_with(cache, exchange, request, offers_esi);
}

/// Leaves the request for the store filter.
pub fn leave(cache: &PageCache, exchange: &mut Exchange, request: CacheRequest) {
    let offers_esi = offers_esi(&request);
    leave_with(cache, exchange, request, offers_esi);
}

fn leave_with(
    cache: &PageCache,
    exchange: &mut Exchange,
    mut request: CacheRequest,
    offers_esi: bool,
) {
    if request.number == 0 {
        request.number = cache.store.begin();
    }
    if offers_esi {
        let is_left = |name: &[u8]| !name.eq_ignore_ascii_case(CAPABILITY.0);
        exchange.head = exchange.head.edited(is_left, [CAPABILITY]);
    }
    exchange.extensions.insert(request);
}
