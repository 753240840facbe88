//! Encodes stored pages, once per coding.
//!
//! Called by: the look-up and the error fallback.
//! Caveat: runs on the blocking pool; concurrent requests for a coding wait for the first.
//! Out of scope: the encoders (`saker_content::coding`).

use crate::{
    cache::{PageCache, content_of},
    page::{EncodedBody, Page},
};
use saker_content::coding::{self, Levels};
use saker_http::content_coding::Coding;
use saker_net::jobs::{self, JobKind};
use std::rc::Rc;

/// Fills the slot of a coding, from the store or by encoding the page, and stores the result.
pub async fn encode(cache: &Rc<PageCache>, page: &Rc<Page>, coding: Coding, levels: Levels) {
    let _making = page.making.lock().await;
    if page.slot(coding).get().is_some() {
        return;
    }
    let stored = match coding {
        Coding::Identity | Coding::Gzip => saker_cache_store::Coding::Gzip,
        Coding::Brotli => saker_cache_store::Coding::Brotli,
        Coding::Zstd => saker_cache_store::Coding::Zstd,
    };
    let (store, key, id) = (cache.store.clone(), page.key.clone(), page.id);
    let plain = page.identity.content.reader();
    let making = jobs::run(JobKind::PageCache, None, move |cancel| {
        if let Some(content) = store.find_coding(&key, id, stored, u64::MAX) {
            return Some(content);
        }
        let encoded = coding::encode_as_job(cancel, coding, levels, &plain?()?, false)?;
        // If it can't be stored, it is encoded again another time.
        let kept = store.write_coding(&key, id, stored).and_then(|mut writer| {
            writer.write(&encoded)?;
            writer.finish()
        });
        drop(kept);
        Some(saker_cache_store::Content::Memory(encoded))
    });
    let made = making.await.ok().flatten();
    // The lock is held, so the slot is empty.
    let _ = page
        .slot(coding)
        .set(made.map(|content| EncodedBody::new(coding, content_of(content))));
    cache.recount(page);
}
