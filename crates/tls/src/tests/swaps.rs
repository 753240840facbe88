//! Certificates change under load and no handshake fails; what an idle session costs.

use super::{
    authority::{Authority, Key, Sites, acceptor},
    pair::{Pair, VERSIONS, client_config},
};
use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
};

#[test]
fn a_thousand_swaps_while_clients_come() {
    let authority = Authority::new("A");
    let leaves: Vec<_> = (0..4)
        .map(|_| authority.leaf(Key::Ecdsa, &["a.example"]))
        .collect();
    let sites = Sites::new().with(&["a.example"], &[&leaves[0]]);
    let identities = sites.identities();
    let acceptor = acceptor(&identities);
    let (is_over, shaken) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    for version in VERSIONS {
                        let config = Arc::new(client_config(&authority, &[version]));
                        let mut pair = Pair::shaken(&config, &acceptor, "a.example");
                        assert_eq!(pair.answer(&[b"ok"]), b"ok");
                        shaken.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for swap in 1..=1_000 {
            let leaf = &leaves[swap % leaves.len()];
            sites.dir.write("beside", &leaf.chain).unwrap();
            fs::rename(sites.dir.join("beside"), sites.dir.join("1.pem")).unwrap();
            sites.dir.write("1.key", &leaf.key).unwrap();
            let problems = identities.reload_changed();
            is_over.store(swap == 1_000 || !problems.is_empty(), Ordering::Relaxed);
            assert_eq!(problems, [], "swap {swap}");
        }
    });
    let last = Pair::shaken(
        &Arc::new(client_config(&authority, &VERSIONS)),
        &acceptor,
        "a.example",
    );
    assert_eq!(last.leaf(), leaves[1_000 % leaves.len()].chain_der()[0]);
    assert!(shaken.load(Ordering::Relaxed) > 20, "{shaken:?}");
}

#[test]
fn a_handshake_ends_with_the_certificates_it_began_with() {
    let authority = Authority::new("A");
    let (old, new) = (
        authority.leaf(Key::Ecdsa, &["a.example"]),
        authority.leaf(Key::Ecdsa, &["a.example"]),
    );
    let sites = Sites::new().with(&["a.example"], &[&old]);
    let identities = sites.identities();
    let acceptor = acceptor(&identities);
    let config = Arc::new(client_config(&authority, &VERSIONS));
    let mut begun = Pair::new(&config, &acceptor, "a.example");
    begun.exchange().unwrap();
    assert!(!identities.have_files_changed());
    sites.dir.write("1.pem", &new.chain).unwrap();
    sites.dir.write("1.key", &new.key).unwrap();
    assert!(identities.have_files_changed());
    assert_eq!(identities.reload_changed(), []);
    assert!(!identities.have_files_changed());
    begun.shake().unwrap();
    assert_eq!(begun.leaf(), old.chain_der()[0]);
    assert_eq!(
        Pair::shaken(&config, &acceptor, "a.example").leaf(),
        new.chain_der()[0]
    );
}

#[test]
fn what_has_become_bad_is_told_and_the_old_kept() {
    let authority = Authority::new("A");
    let (old, new) = (
        authority.leaf(Key::Ecdsa, &["a.example"]),
        authority.leaf(Key::Ecdsa, &["a.example"]),
    );
    let sites = Sites::new().with(&["a.example"], &[&old]);
    let identities = sites.identities();
    let acceptor = acceptor(&identities);
    let config = Arc::new(client_config(&authority, &VERSIONS));
    // The certificate has been renewed and the key not yet.
    sites.dir.write("1.pem", &new.chain).unwrap();
    let problems = identities.reload_changed();
    assert!(
        problems.len() == 1 && problems[0].is_error(),
        "{problems:?}"
    );
    assert_eq!(
        Pair::shaken(&config, &acceptor, "a.example").leaf(),
        old.chain_der()[0]
    );
    sites.dir.write("1.key", &new.key).unwrap();
    assert!(identities.have_files_changed());
    assert_eq!(identities.reload_changed(), []);
    assert_eq!(
        Pair::shaken(&config, &acceptor, "a.example").leaf(),
        new.chain_der()[0]
    );
}
