//! Stores responses of upstreams under keys of the configuration.
//!
//! Called by: `forwarder` and `update`.
//! Caveat: fields and content are stored as the upstream sent them; edits of the front end are made
//! for each client.
//! Out of scope: whether a response may be stored (`saker_cache_rules::keyed`).

use super::{entry, plan::CachePlan};
use crate::{
    cache::{Cached, PageCache},
    clock::now_ms,
    decide::Decision,
    key::KeyBase,
    record::{By, Record, VaryRecord},
    refusal::Refusal,
    request::FetchStart,
    write::{self, PendingEntry},
};
use saker_cache_rules::{keyed::Lifetime, lscache::query::KeyEdits, names, rules::Life};
use saker_cache_store::{EntryHead, FetchPermit, Finished};
use saker_http::{HeadView, target};
use saker_pipeline::{Exchange, Response};
use std::rc::Rc;

/// Room for a record beyond its variants, in milliseconds.
const RECORD_MS: u64 = 86_400_000;

/// The field that an entry keeps its reason phrase in. No client gets it.
pub const REASON: &str = "Saker-Reason";

/// The place of the entry: its key, and how purges reach it.
pub struct Place {
    pub key: Vec<u8>,
    /// The site that purges reach it by, and its tags.
    pub site: Vec<u8>,
    tags: Vec<Vec<u8>>,
    began: FetchStart,
}

impl Place {
    /// Called before the upstream is asked: purges from then on count.
    pub fn new(cache: &PageCache, exchange: &Exchange, key: Vec<u8>) -> Place {
        let mut tags = vec![names::ALL.to_vec()];
        let base = KeyBase::of(exchange, &KeyEdits::default());
        let view = exchange.head.view();
        if let (Some(base), Ok(target::Target::Origin { query, .. })) =
            (&base, target::split(view.method(), view.target()))
        {
            tags.push(names::url_tag_of(&base.url, query));
        }
        Place {
            key,
            site: crate::key::scope(&exchange.routing.site, exchange.routing.site_index),
            tags,
            began: FetchStart::now(&cache.store),
        }
    }
}

/// Stores a response. Its body is written while it is sent, unless it is in memory.
///
/// # Errors
/// Why it is not stored.
pub fn store(
    cache: &Rc<PageCache>,
    plan: &CachePlan,
    place: &Place,
    head: HeadView<'_>,
    (response, lifetime): (&mut Response, Lifetime),
    permit: Option<FetchPermit>,
) -> Result<(), Refusal> {
    let vary = plan
        .terms
        .vary(response.fields())
        .map_err(|why| Refusal::new("vary-all", why))?;
    let too_long = || Refusal::new("key", "its key is too long");
    let life = life(lifetime, plan.terms.kept_s);
    let keep_until_ms = u64::try_from(life.keep_until_ms).unwrap_or(0);
    let key = match vary.is_empty() {
        true => place.key.clone(),
        false => {
            put_record(cache, place, &vary, keep_until_ms);
            entry::variant_key(&place.key, &vary, head).ok_or_else(too_long)?
        }
    };
    let decision = Decision {
        by: By::Http,
        life,
        is_private: false,
        is_one: false,
        is_template: false,
    };
    let entry = EntryHead {
        key,
        site: place.site.clone(),
        tags: place.tags.clone(),
        keep_until_ms,
        purge_seq: place.began.purge_seq,
        began: place.began.number,
        probes: [0, 0],
        status: response.status.0,
        rules: Record::Page {
            by: decision.by,
            is_private: false,
            is_template: false,
            life: decision.life.clone(),
        }
        .encode(),
        fields: fields(response),
    };
    let pending = PendingEntry {
        permit,
        replay: None,
        keeps_coding: true,
    };
    write::put(cache, pending, response, entry, &decision)?;
    if plan.terms.uses_min > 1 {
        plan.zone.forget(cache.store.hash(&place.key));
    }
    Ok(())
}

/// The fields of a response, with its reason phrase where that is not the usual one.
fn fields(response: &Response) -> Vec<(Vec<u8>, Vec<u8>)> {
    let own = response.reason();
    let reason = own.filter(|reason| *reason != response.status.reason().as_bytes());
    let lines = response.fields().iter();
    lines
        .filter(|(name, _)| !name.eq_ignore_ascii_case(REASON))
        .chain(reason.map(|reason| (REASON, reason)))
        .map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec()))
        .collect()
}

fn life(lifetime: Lifetime, kept_s: i64) -> Life {
    let ms = |seconds: i64| seconds.saturating_mul(1000);
    let now = now_ms();
    let last = lifetime
        .fresh_until_s
        .max(lifetime.updating_until_s)
        .max(lifetime.error_until_s);
    Life {
        stored_ms: now,
        born_ms: now,
        fresh_until_ms: ms(lifetime.fresh_until_s),
        stale_while_revalidate_until_ms: ms(lifetime.updating_until_s),
        stale_if_error_until_ms: ms(lifetime.error_until_s),
        keep_until_ms: ms(last).max(now).saturating_add(ms(kept_s)),
        ..Life::default()
    }
}

/// Writes what the responses of a key vary by, unless it is known.
fn put_record(cache: &PageCache, place: &Place, names: &[String], keep_until_ms: u64) {
    let record = VaryRecord {
        fields: names.to_vec(),
        ..VaryRecord::default()
    };
    if matches!(cache.in_memory(&place.key), Some(Cached::Vary(known)) if *known == record) {
        return;
    }
    let head = EntryHead {
        key: place.key.clone(),
        site: place.site.clone(),
        keep_until_ms: keep_until_ms.saturating_add(RECORD_MS),
        purge_seq: place.began.purge_seq,
        began: place.began.number,
        rules: Record::Vary(record.clone()).encode(),
        ..EntryHead::default()
    };
    match cache.store.write(&head).and_then(|writer| writer.finish()) {
        Ok(Finished::Placed { id, version }) => {
            cache.hold(&place.key, &Cached::Vary(Rc::new(record)), id, version);
        }
        Ok(Finished::Superseded) => {}
        Err(error) => crate::body_bytes::log_not_stored(&error),
    }
}
