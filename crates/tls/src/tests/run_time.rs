//! Certificates that come while the server runs, and ACME's challenge over TLS.

use super::{
    authority::{Authority, Key, Leaf, Sites, acceptor},
    pair::{Pair, VERSIONS, client_config},
};
use rustls::{AlertDescription, Error};
use saker_config::model::Automatic;
use saker_tls::{ACME_TLS_ALPN, Identities, TlsError};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

fn automatic(kind: Automatic) -> (Sites, Arc<Identities>) {
    let sites = Sites::new()
        .with(&["a.example", "*.w.example"], &[])
        .where_tls(|tls, _| tls.automatic = kind);
    let identities = sites.identities();
    (sites, identities)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn an_automatic_certificate_arrives_and_is_renewed() {
    let authority = Authority::new("A");
    let (sites, identities) = automatic(Automatic::On);
    let acceptor = acceptor(&identities);
    let config = Arc::new(client_config(&authority, &VERSIONS));
    assert!(Pair::new(&config, &acceptor, "a.example").shake().is_err());
    assert!(!identities.covers("a.example"));
    let [first, second] = [(), ()].map(|()| authority.leaf(Key::Ecdsa, &["a.example"]));
    for leaf in [&first, &second] {
        identities
            .install(
                &names(&["A.example"]),
                leaf.chain.as_bytes(),
                leaf.key.as_bytes(),
            )
            .unwrap();
        assert!(identities.covers("a.example"));
        assert_eq!(
            Pair::shaken(&config, &acceptor, "a.example").leaf(),
            leaf.chain_der()[0]
        );
    }
    // It is there for the next configuration too.
    let (next, _) = sites.load_after(Some(&identities));
    assert!(next.covers("a.example"));
    next.uninstall(&names(&["a.example"]));
    assert!(Pair::new(&config, &acceptor, "a.example").shake().is_err());
}

#[test]
fn wildcards_and_clients_without_a_name() {
    let authority = Authority::new("A");
    let (_sites, identities) = automatic(Automatic::On);
    let acceptor = acceptor(&identities);
    let config = Arc::new(client_config(&authority, &VERSIONS));
    let (wildcard, exact) = (
        authority.leaf(Key::Ecdsa, &["*.w.example"]),
        authority.leaf(Key::Ecdsa, &["a.example", "10.0.0.1"]),
    );
    identities
        .install(
            &names(&["*.w.example"]),
            wildcard.chain.as_bytes(),
            wildcard.key.as_bytes(),
        )
        .unwrap();
    identities
        .install(
            &names(&["a.example"]),
            exact.chain.as_bytes(),
            exact.key.as_bytes(),
        )
        .unwrap();
    assert_eq!(
        Pair::shaken(&config, &acceptor, "x.w.example").leaf(),
        wildcard.chain_der()[0]
    );
    assert_eq!(
        Pair::shaken(&config, &acceptor, "10.0.0.1").leaf(),
        exact.chain_der()[0]
    );
}

#[test]
fn what_is_no_certificate_is_not_installed() {
    let authority = Authority::new("A");
    let (_sites, identities) = automatic(Automatic::On);
    let (leaf, other) = (
        authority.leaf(Key::Ecdsa, &["a.example"]),
        authority.leaf(Key::Ecdsa, &["a.example"]),
    );
    let refused = |chain: &str, key: &str| {
        identities
            .install(&names(&["a.example"]), chain.as_bytes(), key.as_bytes())
            .unwrap_err()
    };
    assert!(refused(&leaf.chain, &other.key).contains("not that of the certificate"));
    assert!(refused("", &leaf.key).contains("no certificate"));
    assert!(refused(&leaf.chain, "").contains("no private key"));
    assert!(!identities.covers("a.example"));
}

/// Clients never get another site's certificate because theirs is not there yet.
#[test]
fn no_certificate_yet() {
    let authority = Authority::new("A");
    let other = authority.leaf(Key::Ecdsa, &["other.example"]);
    let sites = Sites::new()
        .with(&["other.example"], &[&other])
        .with(&["a.example", "*"], &[]);
    let sites = sites.where_tls(|tls, _| tls.automatic = Automatic::On);
    let identities = sites.identities();
    let acceptor = acceptor(&identities);
    let config = Arc::new(client_config(&authority, &VERSIONS));
    let mut pair = Pair::new(&config, &acceptor, "a.example");
    let said = pair.shake().unwrap_err().to_string();
    assert!(
        said.contains("there is no certificate for a.example yet"),
        "{said}"
    );
    assert_eq!(
        pair.client_error,
        Some(Error::AlertReceived(AlertDescription::UnrecognisedName))
    );
    assert!(identities.run_time().all().is_empty());
    let leaf = authority.leaf(Key::Ecdsa, &["a.example"]);
    identities
        .install(
            &names(&["a.example", "b.example"]),
            leaf.chain.as_bytes(),
            leaf.key.as_bytes(),
        )
        .unwrap();
    assert_eq!(
        Pair::shaken(&config, &acceptor, "a.example").leaf(),
        leaf.chain_der()[0]
    );
    let all = identities.run_time().all();
    assert_eq!(
        all.iter().map(|one| one.names.clone()).collect::<Vec<_>>(),
        [["a.example", "b.example"]]
    );
    assert!(
        identities
            .first_expiry()
            .is_some_and(|first| first <= all[0].not_after)
    );
}

#[test]
fn the_challenge_over_tls() {
    let authority = Authority::new("A");
    let (_sites, identities) = automatic(Automatic::On);
    let acceptor = acceptor(&identities);
    let (real, challenge) = (
        authority.leaf(Key::Ecdsa, &["a.example"]),
        authority.leaf(Key::Ecdsa, &["a.example"]),
    );
    identities
        .install(
            &names(&["a.example"]),
            real.chain.as_bytes(),
            real.key.as_bytes(),
        )
        .unwrap();
    identities
        .run_time()
        .set_challenge(
            "A.example",
            &challenge.chain_der()[0],
            challenge.key_der().secret_der(),
        )
        .unwrap();
    for version in VERSIONS {
        let usual = Arc::new(client_config(&authority, &[version]));
        let mut asking = client_config(&authority, &[version]);
        asking.alpn_protocols = vec![ACME_TLS_ALPN.to_vec()];
        let asking = Arc::new(asking);
        let pair = Pair::shaken(&asking, &acceptor, "a.example");
        assert_eq!(
            (pair.leaf(), pair.client.alpn_protocol()),
            (challenge.chain_der()[0].clone(), Some(ACME_TLS_ALPN))
        );
        assert_eq!(
            Pair::shaken(&usual, &acceptor, "a.example").leaf(),
            real.chain_der()[0]
        );
        assert!(
            Pair::new(&asking, &acceptor, "x.w.example")
                .shake()
                .is_err()
        );
    }
    identities.run_time().clear_challenge("a.example");
    let mut asking = client_config(&authority, &VERSIONS);
    asking.alpn_protocols = vec![ACME_TLS_ALPN.to_vec()];
    assert!(
        Pair::new(&Arc::new(asking), &acceptor, "a.example")
            .shake()
            .is_err()
    );
    assert!(
        identities
            .run_time()
            .set_challenge("a.example", b"", b"")
            .is_err()
    );
}

#[test]
fn on_demand_the_handshake_waits() {
    let authority = Authority::new("A");
    let (_sites, identities) = automatic(Automatic::OnDemand);
    let acceptor = acceptor(&identities);
    let config = Arc::new(client_config(&authority, &VERSIONS));
    let asked = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&asked);
    identities
        .run_time()
        .set_on_demand(Some(Arc::new(move |name: &str, _| {
            counter.fetch_add(1, Ordering::Relaxed);
            name == "a.example"
        })));
    let mut pair = Pair::new(&config, &acceptor, "a.example");
    pair.exchange().unwrap();
    assert!(pair.server.awaits_certificate() && !pair.to_server.is_empty());
    let leaf = authority.leaf(Key::Ecdsa, &["a.example"]);
    identities
        .install(
            &names(&["a.example"]),
            leaf.chain.as_bytes(),
            leaf.key.as_bytes(),
        )
        .unwrap();
    pair.give(b"").unwrap();
    assert!(!pair.server.awaits_certificate());
    pair.shake().unwrap();
    assert_eq!(
        (pair.leaf(), asked.load(Ordering::Relaxed)),
        (leaf.chain_der()[0].clone(), 1)
    );
    // A name that is not allowed does not wait.
    let mut refused = Pair::new(&config, &acceptor, "x.w.example");
    let fault = refused.shake();
    assert!(!matches!(fault, Err(TlsError::Ended)) && !refused.server.awaits_certificate());
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

/// One that was made on demand and has expired is shown, unless another is being made.
#[test]
fn on_demand_in_place_of_what_has_expired() {
    let authority = Authority::new("A");
    let (_sites, identities) = automatic(Automatic::OnDemand);
    let acceptor = acceptor(&identities);
    let config = Arc::new(client_config(&authority, &VERSIONS));
    let asked = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&asked);
    identities
        .run_time()
        .set_on_demand(Some(Arc::new(move |_: &str, _| {
            counter.fetch_add(1, Ordering::Relaxed) == 0
        })));
    let install = |leaf: &Leaf| {
        let (chain, key) = (leaf.chain.as_bytes(), leaf.key.as_bytes());
        identities.install(&names(&["a.example"]), chain, key)
    };
    let old = authority.leaf_with(Key::Ecdsa, &["a.example"], |params| {
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    });
    install(&old).unwrap();
    let mut pair = Pair::new(&config, &acceptor, "a.example");
    pair.exchange().unwrap();
    assert!(pair.server.awaits_certificate());
    // The answer is no: the old one is shown, and the client does not like it.
    pair.give(b"").unwrap();
    assert!(!pair.server.awaits_certificate() && asked.load(Ordering::Relaxed) == 2);
    install(&authority.leaf(Key::Ecdsa, &["a.example"])).unwrap();
    Pair::new(&config, &acceptor, "a.example").shake().unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}
