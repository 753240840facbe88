//! Choice of servers, and places in the log.

use super::*;
use crate::outbox::QUEUE_BYTES_MAX;
use saker_cache_store::{Outgoing, Purge, TagMark};
use saker_testkit::TempDir;

struct Server {
    table: PeerTable,
    outbox: Arc<Outbox>,
    _dir: TempDir,
}

impl Server {
    /// In sync at that record.
    fn at(first: &Entry) -> Server {
        let dir = TempDir::private("unit").unwrap();
        let (outbox, _) = Outbox::open(&dir, QUEUE_BYTES_MAX).unwrap();
        let table = PeerTable::new(Arc::clone(&outbox), Clock::default());
        table.finish_at(&Position::at(first));
        table.set_serving(true);
        table.set_connected(true);
        table.looked(Instant::now());
        Server {
            table,
            outbox,
            _dir: dir,
        }
    }

    fn read(&self, entries: &[Entry], seen: &[(u64, u64)]) {
        self.table.begin(entries);
        self.table.finish(entries, &seen.iter().copied().collect());
    }

    fn has(&self, other: &Server) -> bool {
        self.table.has(&other.table.required().unwrap())
    }
}

fn entry(major: u64, text: &str) -> Entry {
    Entry {
        id: EntryId { major, minor: 0 },
        payload: Some(text.into()),
    }
}

fn purge(server: &Server) {
    let purge = Purge::Tag {
        mark: TagMark(1),
        is_soft: false,
    };
    server.outbox.note(&[purge]).unwrap();
}

#[test]
fn a_server_that_is_behind_is_not_believed() {
    let (first, next) = (entry(1, "a"), entry(2, "b"));
    let (ahead, behind) = (Server::at(&first), Server::at(&first));
    assert!(ahead.has(&behind) && behind.has(&ahead));
    ahead.read(std::slice::from_ref(&next), &[]);
    assert!(ahead.has(&behind), "it was there");
    assert!(!behind.has(&ahead));
    behind.read(&[next], &[]);
    assert!(behind.has(&ahead));
}

/// Purges that are being carried out count for the one who asks, not for the one who answers.
#[test]
fn a_purge_that_is_half_in_force_is_not_missed() {
    let (first, next) = ([entry(1, "a")], [entry(2, "b")]);
    let (asking, answering) = (Server::at(&first[0]), Server::at(&first[0]));
    asking.table.begin(&next);
    assert!(!answering.has(&asking));
    answering.table.begin(&next);
    assert!(!answering.has(&asking));
    answering.table.finish(&next, &HashMap::new());
    assert!(answering.has(&asking));
}

/// Own purges are in force before the log has them.
#[test]
fn own_purges_have_to_arrive() {
    let first = entry(1, "a");
    let (asking, answering) = (Server::at(&first), Server::at(&first));
    purge(&asking);
    assert!(!answering.has(&asking));
    let origin = asking.outbox.origin();
    answering.read(&[entry(2, "b")], &[(origin, asking.outbox.last_seq() - 1)]);
    assert!(!answering.has(&asking));
    answering.read(&[entry(3, "c")], &[(origin, asking.outbox.last_seq())]);
    assert!(answering.has(&asking));
    // Without the engine, the purge cannot have arrived.
    asking.table.set_connected(false);
    assert_eq!(asking.table.required(), None);
}

#[test]
fn another_log_is_not_this_one() {
    let here = Server::at(&entry(1, "a"));
    here.read(&[entry(2, "b"), entry(3, "c")], &[]);
    for (other, is_known) in [
        (entry(2, "b"), true),
        (entry(2, "x"), false),
        (entry(4, "d"), false),
    ] {
        assert_eq!(here.has(&Server::at(&other)), is_known, "{other:?}");
    }
    // It has begun anew, and does not know what was before.
    here.table.finish_at(&Position::at(&entry(3, "c")));
    assert!(!here.has(&Server::at(&entry(2, "b"))));
}

#[test]
fn lost_purges_have_to_be_known() {
    let first = entry(1, "a");
    let (asking, answering) = (Server::at(&first), Server::at(&first));
    asking.table.lose(7, 5);
    assert!(!answering.has(&asking));
    answering.read(&[], &[(7, 4)]);
    assert!(!answering.has(&asking));
    answering.read(&[], &[(7, 5)]);
    assert!(answering.has(&asking));
    for origin in 0..=LOST_MAX as u64 {
        asking.table.lose(origin, 1);
    }
    assert_eq!(asking.table.required(), None, "too many to name");
}

#[test]
fn who_is_not_in_sync_neither_asks_nor_answers() {
    let first = entry(1, "a");
    let (one, other) = (Server::at(&first), Server::at(&first));
    one.table.set_serving(false);
    assert_eq!(one.table.required(), None);
    assert!(!one.has(&other));
    one.table.set_serving(true);
    assert!(one.has(&other));
    let long_ago = Instant::now().checked_sub(LOOKED_WITHIN);
    one.table
        .looked(long_ago.expect("the machine has run for longer"));
    assert!(!one.has(&other), "it was paused, or has lost the engine");
}

#[test]
fn servers_choose_alike_and_lose_only_their_own_pages() {
    let first = entry(1, "a");
    let servers: Vec<Server> = (0..8).map(|_| Server::at(&first)).collect();
    let peer = |number: usize| Peer {
        id: servers[number].outbox.origin(),
        address: SocketAddr::from(([127, 0, 0, number as u8 + 1], 7443)),
    };
    let tell = |present: &[usize]| {
        for number in present {
            let others = present.iter().filter(|other| *other != number);
            servers[*number]
                .table
                .set_peers(others.map(|other| peer(*other)).collect());
        }
    };
    let owner_of = |url: &str, present: &[usize]| {
        let choice = |number: &usize| {
            let chosen = servers[*number].table.chosen(url.as_bytes());
            assert!(chosen.len() <= ASKED_MAX);
            chosen.first().copied().unwrap_or_else(|| peer(*number))
        };
        let choices: Vec<Peer> = present.iter().map(choice).collect();
        assert!(choices.iter().all(|choice| *choice == choices[0]), "{url}");
        choices[0]
    };
    let all: Vec<usize> = (0..8).collect();
    let urls: Vec<String> = (0..400).map(|number| format!("/{number}")).collect();
    tell(&all);
    let before: Vec<Peer> = urls.iter().map(|url| owner_of(url, &all)).collect();
    for server in &all {
        let count = before.iter().filter(|owner| **owner == peer(*server));
        assert!(count.count() > 15, "each server has its part");
    }
    tell(&all[1..]);
    for (url, before) in urls.iter().zip(&before) {
        let after = owner_of(url, &all[1..]);
        assert!(after == *before || *before == peer(0), "{url}");
    }
    // One that cannot be reached is passed over, as if it had gone.
    tell(&all);
    let gone = urls
        .iter()
        .zip(&before)
        .find(|(_, owner)| **owner == peer(0));
    let url = gone.unwrap().0;
    servers[1..]
        .iter()
        .for_each(|server| server.table.pause(peer(0)));
    assert_ne!(owner_of(url, &all[1..]), peer(0));
}

#[test]
fn places_come_back_and_cut_ones_do_not() {
    let required = RequiredPlace {
        id: EntryId { major: 3, minor: 4 },
        hash: 5,
        purges: vec![(6, 7), (8, 9)],
    };
    let mut bytes = Vec::new();
    required.encode_into(&mut bytes);
    let mut rest = &bytes[..];
    assert_eq!(RequiredPlace::decode_from(&mut rest), Some(required));
    assert!(rest.is_empty());
    for end in 0..bytes.len() {
        assert_eq!(RequiredPlace::decode_from(&mut &bytes[..end]), None);
    }
}
