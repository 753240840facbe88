//! The store as workers use it: what is put in comes out, what is purged does not, what is too much
//! goes.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use saker_cache_store::{
    Bounds, Coding, Content, EntryHead, Finished, Purge, Store, TagMark, Validity,
};
use saker_testkit::{TempDir, wait_until};
use std::{
    fs::{self, Permissions},
    os::unix::fs::{FileExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

const LATER_MS: u64 = 4_000_000_000_000;

fn head(key: &str) -> EntryHead {
    EntryHead {
        key: key.into(),
        site: b"site".to_vec(),
        tags: vec![b"T".to_vec()],
        keep_until_ms: LATER_MS,
        status: 200,
        ..EntryHead::default()
    }
}

fn put(store: &Arc<Store>, head: &EntryHead, content: &[u8]) -> u64 {
    let mut writer = store.write(head).unwrap();
    content
        .chunks(1000)
        .for_each(|chunk| writer.write(chunk).unwrap());
    let Finished::Placed { id, .. } = writer.finish().unwrap() else {
        panic!("it was superseded")
    };
    id
}

fn content(store: &Store, key: &str) -> Option<Vec<u8>> {
    store
        .find(key.as_bytes(), 1 << 20)
        .map(|found| match found.content {
            Content::Memory(bytes) => bytes,
            Content::File { .. } => panic!("it is not that large"),
        })
}

fn wait_for_index(store: &Store) {
    wait_until("the index", || store.totals().is_complete);
}

fn files(folder: &Path) -> usize {
    let below = |path: &Path| if path.is_dir() { files(path) } else { 1 };
    fs::read_dir(folder)
        .unwrap()
        .map(|file| below(&file.unwrap().path()))
        .sum()
}

#[test]
fn what_is_put_in_comes_out_also_after_a_start() {
    let dir = TempDir::new("store").unwrap();
    let store = Store::open(&dir, Bounds::default()).unwrap();
    let large = vec![b'l'; 3 << 20];
    put(&store, &head("a"), b"first");
    put(&store, &head("a"), b"second");
    put(&store, &head("large"), &large);
    let id = put(&store, &head("coded"), b"content");
    let mut writer = store.write_coding(b"coded", id, Coding::Gzip).unwrap();
    writer.write(b"gzipped").unwrap();
    writer.finish().unwrap();
    let check = |store: &Arc<Store>| {
        assert_eq!(content(store, "a").unwrap(), b"second");
        assert_eq!(content(store, "b"), None);
        let found = store.find(b"large", 1 << 20).unwrap();
        assert_eq!(
            (
                found.head.key.as_slice(),
                found.content.len(),
                found.content.is_sound()
            ),
            (&b"large"[..], 3 << 20, true)
        );
        let coded = |coding, id| {
            store
                .find_coding(b"coded", id, coding, 100)
                .map(|content| content.len())
        };
        assert_eq!(
            (
                coded(Coding::Gzip, id),
                coded(Coding::Brotli, id),
                coded(Coding::Gzip, id + 1)
            ),
            (Some(7), None, None)
        );
    };
    check(&store);
    let before = store.totals();
    drop(store);
    let store = Store::open(&dir, Bounds::default()).unwrap();
    // At once, and when the index has come.
    check(&store);
    wait_for_index(&store);
    check(&store);
    let after = store.totals();
    assert_eq!((after.entries, after.bytes), (before.entries, before.bytes));
    assert_eq!(store.site_use(b"site").entries, 3);
    assert!(store.remove(b"coded"));
    assert_eq!(files(&dir.join("entries")), 2, "its coding goes with it");
}

/// Permissions of group and others, for a directory and everything below it.
fn open_to_others(path: &Path) -> Vec<(PathBuf, u32)> {
    let below = if path.is_dir() {
        fs::read_dir(path)
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect()
    } else {
        Vec::new()
    };
    let mode = fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let own = (mode & 0o077 != 0).then(|| (path.to_owned(), mode));
    own.into_iter()
        .chain(below.iter().flat_map(|path| open_to_others(path)))
        .collect()
}

#[test]
fn nobody_else_reads_what_lies_in_a_folder_that_is_open() {
    let dir = TempDir::new("store-closed").unwrap();
    fs::set_permissions(&*dir, Permissions::from_mode(0o755)).unwrap();
    // As an earlier version has left it.
    fs::create_dir(dir.join("entries")).unwrap();
    fs::set_permissions(dir.join("entries"), Permissions::from_mode(0o755)).unwrap();
    fs::write(dir.join("seed"), [1; 8]).unwrap();
    fs::set_permissions(dir.join("seed"), Permissions::from_mode(0o644)).unwrap();
    let store = Store::open(&dir, Bounds::default()).unwrap();
    let id = put(&store, &head("a"), b"content");
    let mut writer = store.write_coding(b"a", id, Coding::Gzip).unwrap();
    writer.write(b"gzipped").unwrap();
    writer.finish().unwrap();
    let unfinished = store.write(&head("b")).unwrap();
    store
        .purge(vec![Purge::Tag {
            mark: TagMark::new(b"site", b"other"),
            is_soft: false,
        }])
        .unwrap();
    let open: Vec<_> = open_to_others(&dir)
        .into_iter()
        .filter(|(path, _)| *path != *dir)
        .collect();
    assert_eq!(open, []);
    drop(unfinished);
}

#[test]
fn what_is_given_up_while_it_is_written_leaves_nothing() {
    let dir = TempDir::new("store-dropped").unwrap();
    let store = Store::open(
        &dir,
        Bounds {
            entry_bytes_max: 10,
            ..Bounds::default()
        },
    )
    .unwrap();
    drop(store.write(&head("a")).unwrap());
    let mut writer = store.write(&head("b")).unwrap();
    writer.write(b"0123456789").unwrap();
    assert!(writer.write(b"0").is_err(), "it is too large");
    drop(writer);
    assert_eq!(
        (files(&dir.join("new")), files(&dir.join("entries"))),
        (0, 0)
    );
    assert_eq!((content(&store, "a"), content(&store, "b")), (None, None));
}

#[test]
fn damaged_files_are_misses() {
    let dir = TempDir::new("store-damaged").unwrap();
    let store = Store::open(&dir, Bounds::default()).unwrap();
    put(&store, &head("a"), b"content");
    let folder = fs::read_dir(dir.join("entries"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let file = fs::read_dir(folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let bytes = fs::read(&file).unwrap();
    // In its place: the thread that fills the index may read the file, and would remove an empty one.
    let written = fs::File::options().write(true).open(&file).unwrap();
    let last = bytes.len() - 1;
    written.write_at(&[bytes[last] ^ 1], last as u64).unwrap();
    assert_eq!(content(&store, "a"), None);
    assert_eq!(
        (
            store.totals().damaged,
            store.totals().entries,
            file.exists()
        ),
        (1, 0, false)
    );
    put(&store, &head("a"), b"again");
    fs::remove_file(&file).unwrap();
    assert_eq!(content(&store, "a"), None);
    put(&store, &head("a"), b"and again");
    assert_eq!(content(&store, "a").unwrap(), b"and again");
}

#[test]
fn the_folder_does_not_grow_beyond_its_bounds() {
    let dir = TempDir::new("store-bounds").unwrap();
    let bounds = Bounds {
        bytes_max: 100_000,
        site_bytes_max: 50_000,
        ..Bounds::default()
    };
    let store = Store::open(&dir, bounds).unwrap();
    let site = |at: u32| EntryHead {
        site: format!("site {}", at % 5).into(),
        ..head(&format!("key {at}"))
    };
    (0..300).for_each(|at| {
        put(&store, &site(at), &[b'x'; 1000]);
    });
    let totals = store.totals();
    assert!(
        totals.bytes <= 100_000 && totals.entries > 80 && totals.evicted > 150,
        "{totals:?}"
    );
    assert_eq!(files(&dir.join("entries")) as u64, totals.entries);
    (0..300).for_each(|at| {
        put(
            &store,
            &EntryHead {
                site: b"one".to_vec(),
                ..head(&format!("one {at}"))
            },
            &[b'x'; 1000],
        );
    });
    assert!(
        store.site_use(b"one").bytes <= 50_000,
        "{:?}",
        store.site_use(b"one")
    );
}

#[test]
fn purges_hold_after_a_start() {
    let dir = TempDir::new("store-purged").unwrap();
    let store = Store::open(&dir, Bounds::default()).unwrap();
    let purge_seq = store.purge_seq();
    put(
        &store,
        &EntryHead {
            purge_seq,
            ..head("a")
        },
        b"content",
    );
    let mark = TagMark::new(b"site", b"T");
    let validity = |store: &Store| {
        store.validity(
            store.find(b"a", 100).unwrap().head.purge_seq,
            [mark],
            |_| false,
        )
    };
    assert_eq!(validity(&store), Validity::Valid);
    store
        .purge(vec![Purge::Tag {
            mark,
            is_soft: true,
        }])
        .unwrap();
    assert_eq!(validity(&store), Validity::Stale);
    store
        .purge(vec![Purge::Tag {
            mark,
            is_soft: false,
        }])
        .unwrap();
    assert_eq!(validity(&store), Validity::Gone);
    drop(store);
    let store = Store::open(&dir, Bounds::default()).unwrap();
    assert_eq!(validity(&store), Validity::Gone);
    put(
        &store,
        &EntryHead {
            purge_seq: store.purge_seq(),
            ..head("a")
        },
        b"content",
    );
    assert_eq!(validity(&store), Validity::Valid);
}

#[test]
fn the_expired_are_swept() {
    let dir = TempDir::new("store-expired").unwrap();
    let store = Store::open(&dir, Bounds::default()).unwrap();
    wait_for_index(&store);
    (0..50).for_each(|at| {
        put(
            &store,
            &EntryHead {
                keep_until_ms: 1000,
                ..head(&format!("{at}"))
            },
            b"x",
        );
    });
    wait_until("the end of the entries", || store.totals().entries == 0);
    assert_eq!(
        (
            store.totals().entries,
            store.totals().expired,
            files(&dir.join("entries"))
        ),
        (0, 50, 0)
    );
}

#[test]
fn a_full_disk_keeps_nothing_and_breaks_nothing() {
    let dir = TempDir::new("store-no-room").unwrap();
    let store = Store::open(&dir, Bounds::default()).unwrap();
    put(&store, &head("a"), b"content");
    // Nothing can be made there any more: as good as full.
    fs::remove_dir_all(dir.join("new")).unwrap();
    assert!(store.write(&head("b")).is_err());
    assert_eq!(content(&store, "a").unwrap(), b"content");
}

/// The order is that of beginnings, also across a start with a clock that has gone back; damaged
/// files may say any number.
#[test]
fn what_began_later_stays() {
    let dir = TempDir::new("store-order").unwrap();
    let store = Store::open(&dir, Bounds::default()).unwrap();
    let (earlier, later) = (store.begin(), store.begin());
    put(
        &store,
        &EntryHead {
            began: later,
            ..head("a")
        },
        b"later",
    );
    let before = store.find(b"a", 100).unwrap().version;
    let mut writer = store
        .write(&EntryHead {
            began: earlier,
            ..head("a")
        })
        .unwrap();
    writer.write(b"earlier").unwrap();
    assert_eq!(writer.finish().unwrap(), Finished::Superseded);
    assert!(
        content(&store, "a").unwrap() == b"later" && store.is_current(before),
        "nothing has changed"
    );
    assert!(
        store.remove_older(b"a", earlier).is_err() && store.remove_older(b"b", earlier) == Ok(None)
    );
    let ahead = later + 1_000_000_000_000_000;
    put(
        &store,
        &EntryHead {
            began: ahead,
            ..head("a")
        },
        b"ahead",
    );
    assert!(!store.is_current(before) && store.version_if_there(b"a", later).is_none());
    assert!(
        store
            .version_if_there(b"a", ahead)
            .is_some_and(|version| store.is_current(version))
    );
    put(
        &store,
        &EntryHead {
            began: u64::MAX,
            ..head("any")
        },
        b"any",
    );
    drop(store);
    let store = Store::open(&dir, Bounds::default()).unwrap();
    wait_for_index(&store);
    put(
        &store,
        &EntryHead {
            began: store.begin(),
            ..head("a")
        },
        b"now",
    );
    assert_eq!(content(&store, "a").unwrap(), b"now");
    assert!(store.begin() < store.begin());
    let newest = store.find(b"a", 100).unwrap();
    assert_eq!(store.remove_older(b"a", newest.id), Ok(Some(newest.id)));
    assert!(content(&store, "a").is_none() && !store.is_current(newest.version));
}

/// Any request must be able to purge an entry that is still being generated.
#[test]
fn what_is_under_way_can_be_purged() {
    let dir = TempDir::new("store-under-way").unwrap();
    let store = Store::open(&dir, Bounds::default()).unwrap();
    wait_for_index(&store);
    let (mark, other) = (TagMark::new(b"site", b"/a"), TagMark::new(b"site", b"/b"));
    assert!(!store.may_get(mark) && !store.may_have(mark));
    let under_way = [store.under_way([mark.0, 0]), store.under_way([mark.0, 0])];
    for under_way in under_way {
        assert!(store.may_get(mark) && !store.may_have(mark) && !store.may_get(other));
        drop(under_way);
    }
    assert!(!store.may_get(mark));
    store.expect([mark.0, 0]);
    assert!(store.may_get(mark) && store.may_have(mark));
}
