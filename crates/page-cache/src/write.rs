//! Writes entries to the store and into this worker's memory.
//!
//! Called by: `store_response`, `keyed` and `peers`.
//! Caveat: content that arrives in pieces is written as it is sent, and exists once it is complete;
//! content in memory can be requested at once.
//! Out of scope: the head of the entry (`prepare`).

use crate::{
    body_bytes::{self, broken, log_not_stored},
    cache::{Cached, MEMORY_BYTES_MAX, PageCache, content_of},
    decide::Decision,
    early_hints,
    page::{Page, PageParts, wanted_range},
    partial,
    prepare::{self, NewVaryRecord},
    purge,
    record::{self, Record, StoredRange},
    refusal::Refusal,
    replay_request::ReplayRequest,
    request::CacheRequest,
    search_variance::{SearchRule, rule_key},
    storing_body::StoringBody,
    tags::marks,
};
use saker_cache_store::{EntryHead, FetchPermit, Finished, Purge, Superseded, Validity, Version};
use saker_http::Status;
use saker_pipeline::{Body, Exchange, Response};
use std::rc::Rc;

/// A vary record outlives its variants, in milliseconds.
const SIGN_MS: i64 = 86_400_000;

/// Stores a response, and carries out its purges.
/// # Errors
/// Why it is not stored.
pub fn store(
    cache: &Rc<PageCache>,
    exchange: &mut Exchange,
    request: &mut CacheRequest,
    response: &mut Response,
    decision: Decision,
    purges: Vec<Purge>,
) -> Result<(), Refusal> {
    request.compare_by(search_rule(request, response, &decision));
    let prepared = prepare::prepare(request, exchange, response, &decision);
    let (mut head, new_vary) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => {
            purge::carry_out(cache, purges);
            return Err(why);
        }
    };
    (head.purge_seq, head.began) = (request.purge_seq, request.number);
    cache.store.expect(head.probes);
    if !purges.is_empty() {
        let (validity, number) = cache
            .store
            .purge_along(purges, request.purge_seq, &marks(&head));
        if validity != Validity::Valid {
            return Err(Refusal::new("purged", "it was purged while it was fetched"));
        }
        head.purge_seq = number;
    }
    put_rule(cache, &head, request);
    early_hints::remember(cache, request, &head, response, &decision);
    let vary_record = new_vary
        .as_ref()
        .map(|new_vary| &new_vary.vary_record)
        .or(request.vary_record.as_deref());
    let replay = request.replay(
        exchange,
        vary_record.map_or(&[], |vary_record| &vary_record.fields),
        vary_record.and_then(|vary_record| vary_record.rules.as_ref()),
    );
    match new_vary {
        Some(new_vary) => put_sign(cache, &head, new_vary)?,
        // The URL no longer has variants: one entry is for all.
        None if !decision.is_private
            && request.make_first_key(exchange.head.view()).as_ref() == Some(&head.key) =>
        {
            cache.store.remove_older(&request.vary_key(), head.began)?;
        }
        None => {}
    }
    if response.status == Status::PARTIAL_CONTENT {
        let piece = StoredRange::of(response, wanted_range(exchange.head.view()))?;
        if !piece.is_whole() {
            let notice = exchange.extensions.remove();
            return partial::store(cache, response, head, &decision, piece, notice);
        }
        // RFC 9111 section 3.4: a complete representation is a 200.
        head.status = Status::OK.0;
        head.fields
            .retain(|(name, _)| !name.eq_ignore_ascii_case(b"Content-Range"));
    }
    let making = PendingEntry {
        permit: request.permit.take(),
        replay: replay.filter(|_| !decision.is_private),
        keeps_coding: false,
    };
    put(cache, making, response, head, &decision)
}

/// Returns the comparison of the path's queries that the response sets.
fn search_rule(
    request: &CacheRequest,
    response: &Response,
    decision: &Decision,
) -> Option<Rc<SearchRule>> {
    let is_obeyed = !decision.is_private && !request.is_query && request.settings.config.obeys_http;
    is_obeyed
        .then(|| SearchRule::of(response.fields()))
        .flatten()
        .map(Rc::new)
}

/// Writes the comparison of the path's queries, unless it is known.
pub fn put_rule(cache: &PageCache, page: &EntryHead, request: &CacheRequest) {
    let Some(rule) = &request.search_rule else {
        return;
    };
    let key = rule_key(&request.key_base.url);
    if matches!(cache.in_memory(&key), Some(Cached::Search(known)) if known == *rule) {
        return;
    }
    let head = EntryHead {
        key: key.clone(),
        site: page.site.clone(),
        keep_until_ms: page.keep_until_ms.saturating_add(SIGN_MS as u64),
        purge_seq: page.purge_seq,
        began: page.began,
        rules: Record::Search(SearchRule::clone(rule)).encode(),
        ..EntryHead::default()
    };
    match cache.store.write(&head).and_then(|writer| writer.finish()) {
        Ok(Finished::Placed { id, version }) => {
            cache.hold(&key, &Cached::Search(Rc::clone(rule)), id, version)
        }
        Ok(Finished::Superseded) => {}
        Err(error) => log_not_stored(&error),
    }
}

pub fn put_sign(
    cache: &PageCache,
    page: &EntryHead,
    NewVaryRecord {
        first,
        key,
        mut vary_record,
    }: NewVaryRecord,
) -> Result<(), Refusal> {
    // The single entry from before the URL had variants. Even older ones must not return in its
    // place.
    let replaced = cache.store.remove_older(&first, page.began)?;
    vary_record.since = vary_record.since.max(replaced.unwrap_or(0));
    let record = Record::Vary(vary_record.clone());
    let head = EntryHead {
        key: key.clone(),
        site: page.site.clone(),
        keep_until_ms: page.keep_until_ms.saturating_add(SIGN_MS as u64),
        purge_seq: page.purge_seq,
        began: page.began,
        rules: record.encode(),
        ..EntryHead::default()
    };
    match cache.store.write(&head).and_then(|writer| writer.finish()) {
        Ok(Finished::Placed { id, version }) => {
            cache.hold(&key, &Cached::Vary(Rc::new(vary_record)), id, version)
        }
        // Another response has written it, whose request came later.
        Ok(Finished::Superseded) => {}
        Err(error) => log_not_stored(&error),
    }
    Ok(())
}

/// State kept while an entry is being written.
pub struct PendingEntry {
    pub permit: Option<FetchPermit>,
    pub replay: Option<ReplayRequest>,
    /// The content is stored as it came, encoded or not.
    pub keeps_coding: bool,
}

/// Writes the entry: at once if the content is in memory, otherwise as it arrives.
///
/// # Errors
/// Why it is not stored.
pub fn put(
    cache: &Rc<PageCache>,
    making: PendingEntry,
    response: &mut Response,
    head: EntryHead,
    decision: &Decision,
) -> Result<(), Refusal> {
    let failed = |error: std::io::Error| {
        log_not_stored(&error);
        broken(&error)
    };
    let fields = response.fields();
    let coding = match prepare::stored_coding(fields) {
        Some(_) => None,
        None if making.keeps_coding => None,
        None => fields.first("Content-Encoding").map(<[u8]>::to_vec),
    };
    if response.status.forbids_content() {
        // The driver reads no content then, and an unread stream is never stored.
        response.body = Body::Empty;
    }
    match std::mem::take(&mut response.body) {
        Body::Stream(stream) if coding.is_none() => {
            let writer = match cache.store.write(&head) {
                Ok(writer) => writer,
                Err(error) => {
                    response.body = Body::Stream(stream);
                    return Err(failed(error));
                }
            };
            let (forgetful, key) = (Rc::clone(cache), head.key.clone());
            // The one in memory under that key is older.
            let done = move || forgetful.memory.borrow_mut().remove(&key);
            response.body = Body::Stream(Box::new(StoringBody::new(
                stream,
                writer,
                making.permit,
                Box::new(done),
            )));
            Ok(())
        }
        Body::Stream(stream) => {
            response.body = Body::Stream(stream);
            Err(Refusal::new("coded", "it arrives in pieces and encoded"))
        }
        body => {
            let plain = body_bytes::plain(&body, coding.as_deref());
            response.body = body;
            let plain = plain?;
            let written = cache.store.write(&head).and_then(|mut writer| {
                writer.write(&plain)?;
                writer.finish()
            });
            let Finished::Placed { id, version } = written.map_err(failed)? else {
                return Err(Superseded.into());
            };
            hold(cache, head, (id, version), plain, decision, making.replay);
            drop(making.permit);
            Ok(())
        }
    }
}

/// Puts the page into this worker's memory: it will probably be requested again soon.
pub fn hold(
    cache: &PageCache,
    head: EntryHead,
    (id, version): (u64, Version),
    content: Vec<u8>,
    decision: &Decision,
    replay: Option<ReplayRequest>,
) {
    let key = head.key.clone();
    let fields = record::fields(&head);
    if content.len() as u64 > MEMORY_BYTES_MAX {
        return cache.memory.borrow_mut().remove(&key);
    }
    let parts = PageParts {
        tags: head.tags.clone().into(),
        site: head.site.clone().into(),
        key: key.as_slice().into(),
        id,
        status: Status(head.status),
        fields,
        by: decision.by,
        is_private: decision.is_private,
        is_template: decision.is_template,
        life: decision.life.clone(),
        marks: marks(&head),
        purge_seq: head.purge_seq,
        content: content_of(saker_cache_store::Content::Memory(content)),
        boundaries: Rc::clone(&cache.boundaries),
    };
    let page = Page::new(parts);
    replay
        .into_iter()
        .for_each(|replay| drop(page.replay.set(Rc::new(replay))));
    cache.hold(&key, &Cached::Page(Rc::new(page)), id, version);
}
