//! Counting the pages that a purge would concern.
//!
//! Called by: `cache_control`, on a thread of its own.
//! Caveat: reads the head of every entry. A count that takes too long ends with what it has, and
//! says so.
//! Out of scope: the purges of an order (`cache_control`).

use super::cache_entry::standing;
use saker_cache_store::{Purge, Store, TagMark, Validity};
use saker_page_cache::{
    bans::{Bans, HeadToTest, ProposedBans},
    tags,
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Instant};

/// Counts the pages that one of the purges is about, or that belong to one of the scopes, and that
/// are not purged yet.
pub(super) fn answer(
    store: &Store,
    purges: &[Purge],
    scopes: Option<&[Vec<u8>]>,
    until: Instant,
) -> Value {
    let marks: BTreeSet<TagMark> = purges
        .iter()
        .filter_map(|purge| match purge {
            Purge::Tag { mark, .. } => Some(*mark),
            Purge::Ban(_) | Purge::Remote(_) => None,
        })
        .collect();
    let (proposed, bans) = (ProposedBans::new(purges), Bans::default());
    let (mut pages, mut bytes, mut is_cut) = (0u64, 0u64, false);
    store.for_each(|head, length| {
        if let Some(tested) = HeadToTest::new(head) {
            let is_concerned = scopes.is_some_and(|scopes| scopes.contains(&head.site))
                || tags::marks(head).iter().any(|mark| marks.contains(mark))
                || proposed.are_about(&tested);
            if is_concerned && standing(store, &bans, head) != Validity::Gone {
                pages += 1;
                bytes += length;
            }
        }
        is_cut = Instant::now() > until;
        !is_cut
    });
    json!({ "ok": true, "pages": pages, "bytes": bytes, "is_cut": is_cut })
}
