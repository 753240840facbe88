//! A store with many entries: what a purge costs then, and how long a start takes. Prints figures;
//! by default with few entries.
//!
//! `SAKER_STORE_ENTRIES=1000000 cargo test --release -p saker-cache-store --lib tests::many --
//! --nocapture` is the whole of it.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use saker_cache_store::{Bounds, EntryHead, Purge, Store, TagMark, Validity};
use saker_testkit::{TempDir, poll};
use std::{
    env,
    time::{Duration, Instant},
};

#[test]
fn a_purge_costs_the_same_for_any_number_of_entries() {
    let entries: u64 = env::var("SAKER_STORE_ENTRIES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(2_000);
    let dir = TempDir::new("store-many").unwrap();
    let store = Store::open(
        &dir,
        Bounds {
            bytes_max: 0,
            entries_max: 0,
            ..Bounds::default()
        },
    )
    .unwrap();
    let began = Instant::now();
    for number in 0..entries {
        let head = EntryHead {
            key: format!("http://shop.example:80/product/{number}").into_bytes(),
            site: b"shop.example".to_vec(),
            tags: vec![
                b"*".to_vec(),
                format!("Tproduct_{number}").into_bytes(),
                format!("Tcategory_{}", number % 500).into_bytes(),
            ],
            keep_until_ms: 4_000_000_000_000,
            purge_seq: store.purge_seq(),
            status: 200,
            ..EntryHead::default()
        };
        let mut writer = store.write(&head).unwrap();
        writer.write(b"a page").unwrap();
        writer.finish().unwrap();
    }
    eprintln!("{entries} entries written in {:?}", began.elapsed());
    let tag = TagMark::new(b"shop.example", b"Tcategory_7");
    let began = Instant::now();
    store
        .purge(vec![Purge::Tag {
            mark: tag,
            is_soft: false,
        }])
        .unwrap();
    eprintln!("one tag purged in {:?}", began.elapsed());
    let validity = |store: &Store, number: u64| {
        let found = store
            .find(
                format!("http://shop.example:80/product/{number}").as_bytes(),
                1000,
            )
            .unwrap();
        let marks: Vec<TagMark> = found
            .head
            .tags
            .iter()
            .map(|tag| TagMark::new(b"shop.example", tag))
            .collect();
        store.validity(found.head.purge_seq, marks, |_| false)
    };
    assert_eq!(
        (
            validity(&store, 7),
            validity(&store, 507),
            validity(&store, 8)
        ),
        (Validity::Gone, Validity::Gone, Validity::Valid)
    );
    drop(store);
    let began = Instant::now();
    let store = Store::open(
        &dir,
        Bounds {
            bytes_max: 0,
            entries_max: 0,
            ..Bounds::default()
        },
    )
    .unwrap();
    eprintln!("open after {:?}", began.elapsed());
    assert_eq!(
        (validity(&store, 7), validity(&store, 8)),
        (Validity::Gone, Validity::Valid)
    );
    eprintln!("and answers after {:?}", began.elapsed());
    let is_complete = || store.totals().is_complete.then_some(());
    assert!(poll(Duration::from_secs(300), is_complete).is_some());
    eprintln!("with its whole index after {:?}", began.elapsed());
    assert_eq!(store.totals().entries, entries);
}
