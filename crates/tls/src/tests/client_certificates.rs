//! Admission by client certificates.

use super::{
    authority::{Authority, Key, LOCAL, Leaf, Sites, acceptor_on},
    pair::{Pair, VERSIONS, trusting},
};
use rcgen::SerialNumber;
use rustls::{ClientConfig, SupportedProtocolVersion};
use saker_config::model::ClientCertificates;
use saker_tls::{Acceptor, ClientVerification, Tickets, TlsError, Whose};
use std::{net::IpAddr, sync::Arc};

struct World {
    server: Authority,
    clients: Authority,
    acceptor: Acceptor,
    sites: Sites,
}

/// `required.example`, `optional.example` and `open.example`.
fn world(revoked: &[u64]) -> World {
    let (server, clients) = (Authority::new("Servers"), Authority::new("Clients"));
    let leaf = server.leaf(
        Key::Ecdsa,
        &["required.example", "optional.example", "open.example"],
    );
    let mut sites = Sites::new();
    for (name, demand) in [
        ("open.example", ClientCertificates::Off),
        ("optional.example", ClientCertificates::Optional),
        ("required.example", ClientCertificates::Required),
    ] {
        sites = sites.with(&[name], &[&leaf]).where_tls(|tls, dir| {
            tls.client_certificates = demand;
            tls.client_ca = Some(dir.write("clients.pem", clients.pem()).unwrap());
            if !revoked.is_empty() {
                tls.client_crl = vec![
                    dir.write("revoked.pem", clients.revocation_list(revoked, 2061))
                        .unwrap(),
                ];
            }
        });
    }
    let acceptor = sites.acceptor();
    World {
        server,
        clients,
        acceptor,
        sites,
    }
}

fn numbered(authority: &Authority, serial: u64) -> Leaf {
    authority.leaf_with(Key::Ecdsa, &["client"], |params| {
        params.serial_number = Some(SerialNumber::from(serial))
    })
}

impl World {
    fn config(
        &self,
        version: &'static SupportedProtocolVersion,
        own: Option<&Leaf>,
    ) -> Arc<ClientConfig> {
        let builder = trusting(self.server.roots(), &[version]);
        Arc::new(match own {
            Some(leaf) => builder
                .with_client_auth_cert(leaf.chain_der(), leaf.key_der())
                .unwrap(),
            None => builder.with_no_client_auth(),
        })
    }

    /// The certificates that the server saw.
    fn come(
        &self,
        version: &'static SupportedProtocolVersion,
        name: &str,
        own: Option<&Leaf>,
    ) -> Result<usize, TlsError> {
        let mut pair = Pair::new(&self.config(version, own), &self.acceptor, name);
        pair.shake()?;
        Ok(pair.server.info().unwrap().client_certificates.len())
    }
}

#[test]
fn none_good_and_strange() {
    let world = world(&[]);
    let (good, strange) = (
        world.clients.leaf(Key::Ecdsa, &["client"]),
        Authority::new("Others").leaf(Key::Ecdsa, &["client"]),
    );
    for version in VERSIONS {
        let come = |name, own| world.come(version, name, own);
        assert_eq!(come("open.example", None), Ok(0));
        assert_eq!(come("open.example", Some(&good)), Ok(0));
        assert_eq!(come("optional.example", None), Ok(0));
        assert_eq!(come("optional.example", Some(&good)), Ok(1));
        assert_eq!(come("required.example", Some(&good)), Ok(1));
        for (name, own) in [
            ("required.example", None),
            ("required.example", Some(&strange)),
            ("optional.example", Some(&strange)),
        ] {
            let fault = come(name, own);
            assert!(
                matches!(
                    fault,
                    Err(TlsError::Refused {
                        whose: Whose::Peer,
                        ..
                    })
                ),
                "{name} {fault:?}"
            );
        }
    }
}

#[test]
fn what_the_client_showed_is_known() {
    let world = world(&[]);
    let good = world.clients.leaf(Key::Rsa, &["client"]);
    for version in VERSIONS {
        let pair = Pair::shaken(
            &world.config(version, Some(&good)),
            &world.acceptor,
            "required.example",
        );
        assert_eq!(
            pair.server.info().unwrap().client_certificates,
            good.chain_der()
        );
    }
}

#[test]
fn revoked() {
    let world = world(&[7]);
    for version in VERSIONS {
        assert_eq!(
            world.come(
                version,
                "required.example",
                Some(&numbered(&world.clients, 8))
            ),
            Ok(1)
        );
        let fault = world.come(
            version,
            "required.example",
            Some(&numbered(&world.clients, 7)),
        );
        assert!(
            matches!(&fault, Err(TlsError::Refused { reason, .. }) if reason.contains("Revoked")),
            "{fault:?}"
        );
    }
}

/// Revoked while the server runs, and with a ticket in hand from before.
#[test]
fn a_new_list_holds_at_the_next_handshake_even_for_tickets() {
    let world = world(&[7]);
    let own = numbered(&world.clients, 8);
    for version in VERSIONS {
        let config = world.config(version, Some(&own));
        world
            .sites
            .dir
            .write("revoked.pem", world.clients.revocation_list(&[7], 2061))
            .unwrap();
        assert_eq!(world.acceptor.identities().reload_changed(), []);
        assert!(!visit(&world, &config).unwrap().resumed());
        assert!(visit(&world, &config).unwrap().resumed());
        world
            .sites
            .dir
            .write("revoked.pem", world.clients.revocation_list(&[7, 8], 2061))
            .unwrap();
        assert!(
            visit(&world, &config).unwrap().resumed(),
            "nobody has read the new list yet"
        );
        assert_eq!(world.acceptor.identities().reload_changed(), []);
        assert!(visit(&world, &config).is_err());
    }
}

fn visit(world: &World, config: &Arc<ClientConfig>) -> Result<Pair, TlsError> {
    let mut pair = Pair::new(config, &world.acceptor, "required.example");
    pair.shake()?;
    // The client takes the ticket in.
    pair.answer(&[b"hello"]);
    Ok(pair)
}

#[test]
fn a_list_that_is_out_of_date_refuses() {
    let world = world(&[7]);
    world
        .sites
        .dir
        .write("revoked.pem", world.clients.revocation_list(&[7], 2025))
        .unwrap();
    let problems = world.acceptor.identities().reload_changed();
    assert!(
        problems[0].message.contains("out of date") && !problems[0].is_error(),
        "{problems:?}"
    );
    for version in VERSIONS {
        assert!(
            world
                .come(
                    version,
                    "required.example",
                    Some(&numbered(&world.clients, 8))
                )
                .is_err()
        );
        assert_eq!(world.come(version, "open.example", None), Ok(0));
    }
}

#[test]
fn a_resumed_session_still_knows_its_client() {
    let world = world(&[]);
    let own = world.clients.leaf(Key::Ecdsa, &["client"]);
    for version in VERSIONS {
        let config = world.config(version, Some(&own));
        visit(&world, &config).unwrap();
        let pair = visit(&world, &config).unwrap();
        assert!(pair.resumed());
        assert_eq!(
            pair.server.info().unwrap().client_certificates,
            own.chain_der()
        );
    }
}

#[test]
fn demands_that_cannot_be_kept_close_the_site() {
    let server = Authority::new("Servers");
    let leaf = server.leaf(Key::Ecdsa, &["a.example", "b.example"]);
    let sites = Sites::new()
        .with(&["b.example"], &[&leaf])
        .with(&["a.example"], &[&leaf])
        .where_tls(|tls, dir| {
            tls.client_certificates = ClientCertificates::Required;
            tls.client_ca = Some(dir.join("missing.pem"));
        });
    let (identities, problems) = sites.load();
    assert!(
        problems.len() == 1
            && problems[0].is_error()
            && problems[0].message.contains("missing.pem"),
        "{problems:?}"
    );
    let acceptor = super::authority::acceptor(&Arc::new(identities));
    let config = Arc::new(trusting(server.roots(), &VERSIONS).with_no_client_auth());
    assert!(Pair::new(&config, &acceptor, "b.example").shake().is_ok());
    assert!(matches!(
        Pair::new(&config, &acceptor, "a.example").shake(),
        Err(TlsError::Refused {
            whose: Whose::Ours,
            ..
        })
    ));
    let identities = acceptor.identities();
    assert!(
        identities.site_policy(0).is_some()
            && identities.site_policy(1).is_none()
            && identities.common_policy().is_none()
    );
}

/// Parts of the site may require a certificate: so one is asked for, and what is not good counts as
/// none.
#[test]
fn what_is_asked_for_ends_no_handshake() {
    let (server, clients) = (Authority::new("Servers"), Authority::new("Clients"));
    let leaf = server.leaf(Key::Ecdsa, &["a.example"]);
    let sites = Sites::new()
        .with(&["a.example"], &[&leaf])
        .where_tls(|tls, dir| {
            tls.client_certificates = ClientCertificates::Asked;
            tls.client_ca = Some(dir.write("clients.pem", clients.pem()).unwrap());
            tls.client_crl = vec![
                dir.write("revoked.pem", clients.revocation_list(&[7], 2061))
                    .unwrap(),
            ];
        });
    let acceptor = sites.acceptor();
    let (good, revoked) = (numbered(&clients, 8), numbered(&clients, 7));
    let strange = Authority::new("Others").leaf(Key::Ecdsa, &["client"]);
    for version in VERSIONS {
        let rows = [
            (None, "", 0),
            (Some(&good), "", 1),
            (Some(&revoked), "Revoked", 0),
            (Some(&strange), "UnknownIssuer", 0),
        ];
        for (own, refusal, count) in rows {
            let builder = trusting(server.roots(), &[version]);
            let config = Arc::new(match own {
                Some(leaf) => builder
                    .with_client_auth_cert(leaf.chain_der(), leaf.key_der())
                    .unwrap(),
                None => builder.with_no_client_auth(),
            });
            // The second goes on by a ticket.
            for _ in 0..2 {
                let mut pair = Pair::shaken(&config, &acceptor, "a.example");
                pair.answer(&[b"hello"]);
                let info = pair.server.info().unwrap();
                assert_eq!(
                    info.client_certificates.len(),
                    count,
                    "{version:?} {refusal}"
                );
                assert_eq!(
                    info.client_verification == ClientVerification::Success,
                    count == 1
                );
                let why = info.client_refusal.as_deref().unwrap_or_default();
                assert!(
                    why.contains(refusal) && why.is_empty() == refusal.is_empty(),
                    "{version:?} {why}"
                );
                assert_eq!(info.client_depth, u32::from(count == 1));
            }
        }
    }
}

/// A name that a site with demands of its own has on one port, an address that belongs to such a
/// site, and every name that means it.
#[test]
fn demands_are_those_of_the_listener_and_the_address() {
    let (server, clients) = (Authority::new("Servers"), Authority::new("Clients"));
    let leaf = server.leaf(Key::Ecdsa, &["a.example", "staff.example"]);
    let closed = |tls: &mut saker_config::model::SiteTls, dir: &saker_testkit::TempDir| {
        tls.client_certificates = ClientCertificates::Required;
        tls.client_ca = Some(dir.write("clients.pem", clients.pem()).unwrap());
    };
    let second: IpAddr = "127.0.0.2".parse().unwrap();
    let sites = Sites::new()
        .with(&["a.example"], &[&leaf])
        .on(1)
        .with(&["a.example"], &[&leaf])
        .on(2)
        .where_tls(closed)
        .with(&["a.example"], &[&leaf])
        .on(3)
        .with(&["staff.example"], &[&leaf])
        .on(3)
        .at(second)
        .where_tls(closed)
        .with(&["staff.example"], &[&leaf])
        .on(4)
        .where_tls(closed)
        .with(&["a.example"], &[&leaf])
        .on(4);
    let (identities, tickets) = (
        sites.identities(),
        Arc::new(Tickets::own(std::time::Duration::from_secs(60))),
    );
    let config = Arc::new(trusting(server.roots(), &VERSIONS).with_no_client_auth());
    let mut config = Arc::unwrap_or_clone(config);
    config
        .dangerous()
        .set_certificate_verifier(Arc::new(super::names::Gullible(super::names::ALL.to_vec())));
    let config = Arc::new(config);
    // The address in the place of a name is a handshake without one.
    let names = [
        "a.example",
        "A.Example",
        "staff.example",
        "unknown.example",
        "127.0.0.1",
    ];
    for (port, local, open) in [
        (1, LOCAL, &names[..]),
        (2, LOCAL, &[]),
        (3, LOCAL, &names),
        (3, second, &[]),
        (4, LOCAL, &names[..2]),
    ] {
        let acceptor = acceptor_on(&identities, port, &tickets);
        for name in names {
            let shaken = Pair::at(&config, &acceptor, name, local).shake();
            assert_eq!(
                shaken.is_ok(),
                open.contains(&name),
                "{name} at {local}, listener {port}: {shaken:?}"
            );
        }
    }
}
