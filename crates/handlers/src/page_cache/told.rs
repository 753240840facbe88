//! What clients are told of the cache (RFC 9211), where a site wants that.

use super::page::{Page, Told};
use saker_cache::rules::CacheStatus;

/// Of an answer that was made of a page.
pub fn status(page: &Page, told: Told, now: i64) -> CacheStatus<'static> {
    let ttl_s = (page.life.fresh_until_ms - now.saturating_mul(1000)) / 1000;
    let detail = (told == Told::Stale).then_some("stale");
    CacheStatus { hit: true, ttl_s: Some(ttl_s), detail, ..CacheStatus::default() }
}
