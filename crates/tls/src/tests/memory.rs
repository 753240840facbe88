//! Memory of an open session. Alone in its process, because it looks at the whole process.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::authority::{Authority, Key, Sites};
use super::pair::{Pair, VERSIONS, client_config};
use std::{fs, sync::Arc};

/// Part of the 24 KB that an idle connection over TLS may cost; the rest belongs to the socket and
/// the driver.
const SESSION_BYTES_MAX: usize = 6 * 1024;
const SESSIONS: usize = 3_000;

fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn an_open_session_is_small() {
    if saker_testkit::ran_in_own_process(module_path!(), "an_open_session_is_small") {
        return;
    }
    let authority = Authority::new("A");
    let leaf = authority.leaf(Key::Ecdsa, &["a.example"]);
    let acceptor = Sites::new().with(&["a.example"], &[&leaf]).acceptor();
    // Nothing is given back before the end: what was freed would be used again and not be seen.
    let mut kept = Vec::new();
    for version in VERSIONS {
        let config = Arc::new(client_config(&authority, &[version]));
        let session = || {
            let mut pair = Pair::shaken(&config, &acceptor, "a.example");
            assert_eq!(pair.say(b"request"), b"request");
            assert_eq!(pair.answer(&[&[b'x'; 3_000]]).len(), 3_000);
            pair.server
        };
        // What the process needs once is there after these.
        kept.extend((0..300).map(|_| session()));
        let before = resident_bytes();
        kept.extend((0..SESSIONS).map(|_| session()));
        let each = resident_bytes().saturating_sub(before) / SESSIONS;
        println!("{version:?}: {each} bytes per open session");
        assert!(each < SESSION_BYTES_MAX, "{version:?}: {each}");
    }
}
