//! Pages of other servers, as pages of this one.
//!
//! Called by: `ask`.
//! Caveat: nothing that selects a page is taken over from the other server: the key is made here,
//! from the client's own request, and has to be the same. The number of purges is that of this
//! server when it asked, so what was purged meanwhile is gone at once.
//! Out of scope: whether the page may answer the request (`lookup`).

use super::wire::SharedPage;
use crate::{
    cache::{PageCache, content_of},
    clock::now_ms,
    decide::Decision,
    page::{Page, PageParts},
    prepare::{NewVaryRecord, probe_of_url},
    record::{self, Record, VaryRecord},
    request::CacheRequest,
    tags::{PRIVATE, marks},
    write,
};
use saker_cache_rules::rules::Life;
use saker_cache_store::{EntryHead, Finished, Validity};
use saker_http::Status;
use saker_pipeline::Exchange;
use std::rc::Rc;

/// A page that may be used here.
pub struct Copy {
    head: EntryHead,
    decision: Decision,
    vary_record: Option<VaryRecord>,
    content: Vec<u8>,
}

impl Copy {
    /// Checks a page. `asked_ms`: the time at which it was asked for. `None`: it is not the one
    /// that this request selects, or no longer fresh.
    pub fn of(
        cache: &PageCache,
        exchange: &Exchange,
        request: &mut CacheRequest,
        shared: SharedPage,
        asked_ms: i64,
    ) -> Option<Copy> {
        request.compare_by(shared.search_rule.map(Rc::new));
        let (view, known) = (exchange.head.view(), request.vary_record.as_deref());
        let vary_record = match (shared.vary_record, known) {
            (Some(vary_record), Some(known)) => Some(vary_record.joined(known)),
            (vary_record, known) => vary_record.or_else(|| known.cloned()),
        };
        let key = match &vary_record {
            Some(vary_record) => request.variant_key(vary_record, view),
            None => request.make_first_key(view),
        };
        let is_private = shared.tags.iter().any(|tag| tag.first() == Some(&PRIVATE));
        if key? != shared.key || shared.site != request.key_base.scope || is_private {
            return None;
        }
        // As if the other server's clock were this one's, and the answer as old as the question.
        let life = moved(shared.life, asked_ms.saturating_sub(shared.now_ms));
        let decision = Decision {
            by: shared.by,
            life,
            is_private: false,
            is_one: false,
            is_template: shared.is_template,
        };
        let head = EntryHead {
            key: shared.key,
            site: shared.site,
            tags: shared.tags,
            keep_until_ms: u64::try_from(decision.life.keep_until_ms).unwrap_or(0),
            purge_seq: request.purge_seq,
            began: request.number,
            probes: [probe_of_url(request), 0],
            status: shared.status,
            rules: Record::Page {
                by: decision.by,
                is_private: false,
                is_template: decision.is_template,
                life: decision.life.clone(),
            }
            .encode(),
            fields: shared.fields,
        };
        let validity = cache.store.validity(head.purge_seq, marks(&head), |_| true);
        let is_fresh = decision.life.fresh_until_ms > now_ms() && validity == Validity::Valid;
        is_fresh.then_some(Copy {
            head,
            decision,
            vary_record,
            content: shared.content,
        })
    }

    pub fn key(&self) -> &[u8] {
        &self.head.key
    }

    /// The page, for the request that has asked for it.
    pub fn into_page(self, cache: &PageCache) -> Rc<Page> {
        let fields = record::fields(&self.head);
        let marks = marks(&self.head);
        Rc::new(Page::new(PageParts {
            id: self.head.began,
            status: Status(self.head.status),
            fields,
            by: self.decision.by,
            is_private: false,
            is_template: self.decision.is_template,
            life: self.decision.life,
            marks,
            tags: self.head.tags.into(),
            site: self.head.site.into(),
            key: self.head.key.into(),
            purge_seq: self.head.purge_seq,
            content: content_of(saker_cache_store::Content::Memory(self.content)),
            boundaries: Rc::clone(&cache.boundaries),
        }))
    }
}

/// Writes a page to this server's cache; returns true if it is there.
pub fn keep(cache: &PageCache, exchange: &Exchange, request: &CacheRequest, copy: Copy) -> bool {
    let Copy {
        head,
        decision,
        vary_record,
        content,
    } = copy;
    cache.store.expect(head.probes);
    write::put_rule(cache, &head, request);
    let Some(first) = request.make_first_key(exchange.head.view()) else {
        return false;
    };
    let placed = match vary_record {
        Some(vary_record) if request.vary_record.as_deref() == Some(&vary_record) => true,
        Some(vary_record) => write::put_sign(
            cache,
            &head,
            NewVaryRecord {
                first,
                key: request.vary_key(),
                vary_record,
            },
        )
        .is_ok(),
        None => {
            let sign = request.vary_key();
            cache.store.remove_older(&sign, head.began).is_ok()
        }
    };
    let write = || {
        cache.store.write(&head).and_then(|mut writer| {
            writer.write(&content)?;
            writer.finish()
        })
    };
    match placed.then(write) {
        Some(Ok(Finished::Placed { id, version })) => {
            write::hold(cache, head, (id, version), content, &decision, None);
            true
        }
        // A newer one is there.
        Some(Ok(Finished::Superseded)) | None => true,
        Some(Err(error)) => {
            crate::body_bytes::log_not_stored(&error);
            false
        }
    }
}

/// The same lifetime by another clock.
fn moved(life: Life, by_ms: i64) -> Life {
    let time = |time_ms: i64| time_ms.saturating_add(by_ms);
    Life {
        stored_ms: time(life.stored_ms),
        born_ms: time(life.born_ms),
        fresh_until_ms: time(life.fresh_until_ms),
        stale_while_revalidate_until_ms: time(life.stale_while_revalidate_until_ms),
        stale_if_error_until_ms: time(life.stale_if_error_until_ms),
        keep_until_ms: time(life.keep_until_ms),
        ..life
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_move_with_the_clock() {
        let life = Life {
            born_ms: 1_000,
            fresh_until_ms: 61_000,
            keep_until_ms: i64::MAX,
            must_revalidate: true,
            ..Life::default()
        };
        let here = moved(life, -500);
        assert_eq!((here.born_ms, here.fresh_until_ms), (500, 60_500));
        assert_eq!(moved(here.clone(), i64::MAX).keep_until_ms, i64::MAX);
        assert!(here.must_revalidate);
    }
}
