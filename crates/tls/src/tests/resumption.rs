//! Tickets: on one listener, on two machines, after changes of keys.

use super::{
    authority::{Authority, Key, PORT, Sites, acceptor_on, listener},
    pair::{Pair, VERSIONS, resuming_config},
};
use rustls::ClientConfig;
use saker_config::model::{ClientCertificates, ServerTls};
use saker_tls::{Acceptor, Identities, Tickets};
use std::{path::PathBuf, sync::Arc, time::Duration};

struct World {
    authority: Authority,
    identities: Arc<Identities>,
    sites: Sites,
}

fn world() -> World {
    let authority = Authority::new("A");
    let leaf = authority.leaf(Key::Ecdsa, &["a.example", "b.example"]);
    let sites = Sites::new().with(&["a.example", "b.example"], &[&leaf]);
    World {
        authority,
        identities: sites.identities(),
        sites,
    }
}

impl World {
    fn acceptor(&self, tickets: &Arc<Tickets>) -> Acceptor {
        Acceptor::new(
            Arc::clone(&self.identities),
            &listener(PORT),
            Arc::clone(tickets),
            &[],
        )
    }

    fn key_file(&self, name: &str, byte: u8, bytes: usize) -> PathBuf {
        self.sites.dir.write(name, vec![byte; bytes]).unwrap()
    }

    fn with_files(&self, files: &[&PathBuf]) -> Arc<Tickets> {
        let settings = ServerTls {
            ticket_keys: files.iter().map(|file| (*file).clone()).collect(),
            ..ServerTls::default()
        };
        let (tickets, problems) = Tickets::load(&settings, None);
        assert_eq!(problems, []);
        Arc::new(tickets)
    }
}

/// True if the visit was a resumed one. A new ticket is taken in.
fn visit(config: &Arc<ClientConfig>, acceptor: &Acceptor, name: &str) -> bool {
    let mut pair = Pair::shaken(config, acceptor, name);
    assert_eq!(pair.answer(&[b"hello"]), b"hello");
    assert_eq!(pair.say(b"world"), b"world");
    pair.resumed()
}

#[test]
fn again_and_again() {
    let world = world();
    let acceptor = world.acceptor(&Arc::new(Tickets::own(Duration::from_secs(3600))));
    for version in VERSIONS {
        let config = Arc::new(resuming_config(&world.authority, &[version]));
        assert!(!visit(&config, &acceptor, "a.example"));
        for _ in 0..5 {
            assert!(visit(&config, &acceptor, "a.example"));
        }
        // RFC 6066 section 3: a session belongs to its name.
        assert!(!visit(&config, &acceptor, "b.example"));
    }
}

#[test]
fn on_another_machine_with_the_same_files() {
    let world = world();
    for bytes in [48, 80] {
        let file = world.key_file("ticket.key", 7, bytes);
        let (here, there) = (
            world.acceptor(&world.with_files(&[&file])),
            world.acceptor(&world.with_files(&[&file])),
        );
        let elsewhere =
            world.acceptor(&world.with_files(&[&world.key_file("other.key", 8, bytes)]));
        for version in VERSIONS {
            let config = Arc::new(resuming_config(&world.authority, &[version]));
            assert!(!visit(&config, &here, "a.example"));
            assert!(visit(&config, &there, "a.example"));
            assert!(!visit(&config, &elsewhere, "a.example"));
        }
    }
}

#[test]
fn own_keys_change_and_the_last_is_kept() {
    let world = world();
    let tickets = Arc::new(Tickets::own(Duration::from_secs(3600)));
    let acceptor = world.acceptor(&tickets);
    for version in VERSIONS {
        let config = Arc::new(resuming_config(&world.authority, &[version]));
        visit(&config, &acceptor, "a.example");
        tickets.rotate();
        assert!(visit(&config, &acceptor, "a.example"));
        tickets.rotate();
        tickets.rotate();
        assert!(!visit(&config, &acceptor, "a.example"));
    }
}

#[test]
fn keys_in_files_change_one_after_the_other() {
    let world = world();
    let (old, new) = (
        world.key_file("old.key", 1, 80),
        world.key_file("new.key", 2, 80),
    );
    let both = world.with_files(&[&new, &old]);
    let (before, after) = (
        world.acceptor(&world.with_files(&[&old])),
        world.acceptor(&both),
    );
    let config = Arc::new(resuming_config(&world.authority, &VERSIONS));
    visit(&config, &before, "a.example");
    assert!(visit(&config, &after, "a.example"));
    // What the new key made, the old machine can't open.
    assert!(!visit(&config, &before, "a.example"));
    visit(&config, &after, "a.example");
    world.key_file("new.key", 3, 80);
    assert_eq!(both.reload(), []);
    assert!(!visit(&config, &after, "a.example"));
    // A bad file changes nothing.
    world.key_file("new.key", 3, 79);
    assert_eq!(both.reload().len(), 1);
    assert!(visit(&config, &after, "a.example"));
}

#[test]
fn bad_key_files_are_told() {
    let world = world();
    let settings = ServerTls {
        ticket_keys: vec![
            world.key_file("short.key", 1, 47),
            world.sites.dir.join("missing.key"),
        ],
        ..ServerTls::default()
    };
    let (_, problems) = Tickets::load(&settings, None);
    assert_eq!(problems.len(), 2);
    assert!(
        problems[0].message.contains("47 bytes, not 48 or 80"),
        "{problems:?}"
    );
    assert!(problems.iter().all(|problem| {
        problem.is_error()
            && problem
                .help
                .as_deref()
                .is_some_and(|help| help.contains("openssl rand"))
    }));
}

#[test]
fn tickets_outlive_a_reload() {
    let world = world();
    let (before, _) = Tickets::load(&ServerTls::default(), None);
    let (after, _) = Tickets::load(&ServerTls::default(), Some(&before));
    let config = Arc::new(resuming_config(&world.authority, &VERSIONS));
    visit(&config, &world.acceptor(&Arc::new(before)), "a.example");
    assert!(visit(
        &config,
        &world.acceptor(&Arc::new(after)),
        "a.example"
    ));
}

/// The same name, but on another listener it belongs to a site that wants to know its clients.
#[test]
fn a_session_of_an_open_site_is_none_of_a_closed_one() {
    let world = world();
    let leaf = world.authority.leaf(Key::Ecdsa, &["a.example"]);
    let closed = Sites::new()
        .with(&["a.example"], &[&leaf])
        .where_tls(|tls, dir| {
            tls.client_certificates = ClientCertificates::Optional;
            tls.client_ca = Some(dir.write("ca.pem", world.authority.pem()).unwrap());
        });
    let tickets = Arc::new(Tickets::own(Duration::from_secs(3600)));
    let closed = Acceptor::new(
        closed.identities(),
        &listener(PORT),
        Arc::clone(&tickets),
        &[],
    );
    for version in VERSIONS {
        let config = Arc::new(resuming_config(&world.authority, &[version]));
        visit(&config, &world.acceptor(&tickets), "a.example");
        assert!(!visit(&config, &closed, "a.example"));
        assert!(visit(&config, &closed, "a.example"));
    }
}

/// One name on two ports, with other authorities; what is trusted on one may be no more than told
/// of on the other.
#[test]
fn a_ticket_is_good_for_the_same_authorities_only() {
    let (server, one, other) = (
        Authority::new("A"),
        Authority::new("One"),
        Authority::new("Other"),
    );
    let leaf = server.leaf(Key::Ecdsa, &["a.example"]);
    let both = [one.pem(), other.pem()].concat();
    let sites = Sites::new()
        .with(&["a.example"], &[&leaf])
        .on(1)
        .where_tls(|tls, dir| {
            tls.client_certificates = ClientCertificates::Required;
            tls.client_ca = Some(dir.write("both.pem", both).unwrap());
        })
        .with(&["a.example"], &[&leaf])
        .on(2)
        .where_tls(|tls, dir| {
            tls.client_certificates = ClientCertificates::Required;
            tls.client_ca = Some(dir.write("one.pem", one.pem()).unwrap());
            tls.client_checks.hint_file = Some(dir.write("other.pem", other.pem()).unwrap());
        });
    let (identities, tickets) = (
        sites.identities(),
        Arc::new(Tickets::own(Duration::from_secs(3600))),
    );
    let [wide, narrow] = [1, 2].map(|port| acceptor_on(&identities, port, &tickets));
    let own = other.leaf(Key::Ecdsa, &["client"]);
    for version in VERSIONS {
        let config = super::pair::trusting(server.roots(), &[version]);
        let config = Arc::new(
            config
                .with_client_auth_cert(own.chain_der(), own.key_der())
                .unwrap(),
        );
        visit(&config, &wide, "a.example");
        assert!(visit(&config, &wide, "a.example"), "a ticket is there");
        assert!(
            Pair::new(&config, &narrow, "a.example").shake().is_err(),
            "{version:?}: nobody trusts it there"
        );
    }
}
