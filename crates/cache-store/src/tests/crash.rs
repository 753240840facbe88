//! A process that stores and purges is killed at arbitrary moments, repeatedly: afterwards no
//! reader gets a damaged entry, or one whose purge was acknowledged.
//!
//! The process is this test binary itself; an environment variable tells it that it is the one to
//! be killed.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use saker_cache_store::{Bounds, Content, EntryHead, Purge, Store, TagMark, Validity};
use saker_testkit::TempDir;
use std::{
    collections::HashMap,
    env,
    hint::spin_loop,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

const FOLDER: &str = "SAKER_STORE_CRASH_FOLDER";
const KILLS: u32 = 200;
const KEYS: u64 = 40;
/// Lines that a process gets to write, and turns of a loop after the last of them.
const LINES_MAX: u64 = 30;
const SPINS_MAX: u64 = 100_000;

fn mark(key: u64) -> TagMark {
    TagMark::new(b"site", format!("tag {key}").as_bytes())
}

/// Which round an entry is of stands in it, over and over.
fn text(key: u64, round: u64) -> Vec<u8> {
    format!("key {key} round {round} ")
        .repeat(1 + (key as usize * 37) % 3000)
        .into_bytes()
}

fn put(store: &Arc<Store>, key: u64, round: u64) {
    let head = EntryHead {
        key: format!("key {key}").into(),
        site: b"site".to_vec(),
        tags: vec![format!("tag {key}").into()],
        keep_until_ms: 4_000_000_000_000,
        purge_seq: store.purge_seq(),
        status: 200,
        rules: round.to_le_bytes().to_vec(),
        ..EntryHead::default()
    };
    let mut writer = store.write(&head).unwrap();
    text(key, round)
        .chunks(4096)
        .for_each(|chunk| writer.write(chunk).unwrap());
    writer.finish().unwrap();
}

/// Says each purge when it is done: a line with the key and the last round that it is about.
fn store_and_purge(folder: &Path) {
    let store = Store::open(folder, Bounds::default()).unwrap();
    let begun: u64 = env::var("SAKER_STORE_CRASH_ROUND")
        .unwrap()
        .parse()
        .unwrap();
    let mut out = std::io::stdout();
    for round in begun.. {
        let key = round.wrapping_mul(2_654_435_761) % KEYS;
        put(&store, key, round);
        if round % 3 == 0 {
            let key = round / 3 % KEYS;
            store
                .purge(vec![Purge::Tag {
                    mark: mark(key),
                    is_soft: false,
                }])
                .unwrap();
            writeln!(out, "purged {key} {round}").unwrap();
            out.flush().unwrap();
        }
    }
}

fn check(store: &Store, purged: &HashMap<u64, u64>) -> usize {
    let mut valid = 0;
    for key in 0..KEYS {
        let Some(found) = store.find(format!("key {key}").as_bytes(), 1 << 20) else {
            continue;
        };
        if store.validity(found.head.purge_seq, [mark(key)], |_| false) != Validity::Valid {
            continue;
        }
        let round = u64::from_le_bytes(found.head.rules.as_slice().try_into().unwrap());
        let Content::Memory(bytes) = found.content else {
            panic!("it is not that large")
        };
        assert!(
            bytes == text(key, round),
            "key {key} of round {round} is damaged"
        );
        assert!(
            purged.get(&key).is_none_or(|last| round > *last),
            "key {key} of round {round} was purged: {:?}",
            purged.get(&key)
        );
        valid += 1;
    }
    valid
}

#[test]
fn killed_at_any_moment() {
    if let Some(folder) = env::var_os(FOLDER) {
        return store_and_purge(Path::new(&folder));
    }
    let dir = TempDir::new("store-crash").unwrap();
    let (mut purged, mut round, mut valid) = (HashMap::new(), 1_u64, 0);
    for kill in 0..KILLS {
        let mut child = Command::new(env::current_exe().unwrap())
            .args([
                "--exact",
                "tests::crash::killed_at_any_moment",
                "--nocapture",
            ])
            .env(FOLDER, dir.as_os_str())
            .env("SAKER_STORE_CRASH_ROUND", round.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // In the middle of whatever it does after so many lines.
        let mut left = u64::from(kill) * 7919 % LINES_MAX;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if left == 0 {
                (0..u64::from(kill) * 104_729 % SPINS_MAX).for_each(|_| spin_loop());
                child.kill().unwrap();
            }
            left = left.saturating_sub(1);
            let mut words = line
                .split("purged ")
                .nth(1)
                .unwrap_or_default()
                .split(' ')
                .map(str::parse);
            if let (Some(Ok(key)), Some(Ok(last))) = (words.next(), words.next()) {
                purged.insert(key, last);
                round = round.max(last + 1);
            }
        }
        child.wait().unwrap();
        // Rounds that were not told of go on behind any that there may have been.
        round += 100_000;
        valid += check(&Store::open(&dir, Bounds::default()).unwrap(), &purged);
    }
    // How far it gets each time is the machine's business.
    assert!(
        purged.len() as u64 * 2 > KEYS && valid > 500,
        "{} keys were purged, {valid} entries found valid",
        purged.len()
    );
}
