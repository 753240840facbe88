//! An entry of the page cache as operators see it: its URL, its age, its tags.
//!
//! Called by: `cache_control`, for lists; `cache_body`, for previews; `cache_count`.
//! Out of scope: the content.

use saker_cache_rules::{
    names::{self, Shown},
    rules::Life,
};
use saker_cache_store::{EntryHead, Store, Validity};
use saker_page_cache::{
    bans::{Bans, HeadToTest},
    record::Record,
    tags::{self, PRIVATE},
};
use serde_json::{Value, json};

/// Between the parts of keys.
const BETWEEN: u8 = 0;

/// Returns whether the entry is a page, and no record about pages.
pub(super) fn is_page(head: &EntryHead) -> bool {
    matches!(Record::decode(&head.rules), Some(Record::Page { .. }))
}

/// State of an entry with regard to purges, bans included.
pub(super) fn standing(store: &Store, bans: &Bans, head: &EntryHead) -> Validity {
    let tested = HeadToTest::new(head);
    store.validity(head.purge_seq, tags::marks(head).iter().copied(), |ban| {
        let tested = tested.as_ref();
        tested.is_none_or(|tested| bans.is_about_head(ban, tested))
    })
}

/// The facts that lists have about an entry.
pub(super) fn described(head: &EntryHead, bytes: u64) -> Value {
    let now_ms = now_ms();
    let life = life(head);
    let tags = head
        .tags
        .iter()
        .filter_map(|tag| match names::shown(own(tag).0) {
            Some(Shown::Tag(name)) => Some(String::from_utf8_lossy(name).into_owned()),
            Some(Shown::Group(name)) => Some(format!("group {}", String::from_utf8_lossy(name))),
            _ => None,
        });
    json!({
        "url": String::from_utf8_lossy(head.key.split(|byte| *byte == BETWEEN).next().unwrap_or_default()),
        "site": String::from_utf8_lossy(&head.site),
        "status": head.status,
        "bytes": bytes,
        "is_private": head.tags.iter().any(|tag| own(tag).1),
        "age_s": life.as_ref().map(|life| (now_ms - life.born_ms).max(0) / 1000),
        "fresh_for_s": life.as_ref().map(|life| (life.fresh_until_ms - now_ms) / 1000),
        "kept_for_s": (i64::try_from(head.keep_until_ms).unwrap_or(i64::MAX) - now_ms) / 1000,
        "tags": tags.collect::<Vec<_>>(),
    })
}

fn life(head: &EntryHead) -> Option<Life> {
    match Record::decode(&head.rules)? {
        Record::Page { life, .. } | Record::Part { life, .. } => Some(life),
        Record::Vary(_) | Record::Search(_) => None,
    }
}

/// The tag within its scope, and whether the entry is private.
pub(super) fn own(tag: &[u8]) -> (&[u8], bool) {
    tag.strip_prefix(&[PRIVATE])
        .map_or((tag, false), |tag| (tag, true))
}

pub(super) fn now_ms() -> i64 {
    saker_net::clock::realtime_s().saturating_mul(1000)
}
