//! Which certificate is shown for which name, and to whom.

use super::{
    authority::{Authority, Key, LOCAL, Leaf, PORT, Sites, listener},
    pair::{Pair, VERSIONS, client_config},
};
use rustls::{
    AlertDescription, ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
    version::TLS13,
};
use saker_config::model::{
    CipherSuite, ClientCertificates, Group, Listener, ListenerTls, TlsVersion,
};
use saker_tls::{Acceptor, EarlySessions, QuicAnswer, Tickets, TlsError, Version, Whose};
use std::{sync::Arc, time::Duration};

/// Believes everything, but checks only the given signatures.
#[derive(Debug)]
pub struct Gullible(pub Vec<SignatureScheme>);

impl ServerCertVerifier for Gullible {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}

pub fn gullible(schemes: &[SignatureScheme]) -> ClientConfig {
    let verifier = Arc::new(Gullible(schemes.to_vec()));
    super::pair::builder(&VERSIONS)
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth()
}

pub const ALL: [SignatureScheme; 2] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::RSA_PSS_SHA256,
];

fn shown(acceptor: &Acceptor, name: &str) -> CertificateDer<'static> {
    Pair::shaken(&Arc::new(gullible(&ALL)), acceptor, name).leaf()
}

fn of(leaf: &Leaf) -> CertificateDer<'static> {
    leaf.chain_der()[0].clone()
}

#[test]
fn exact_then_wildcard_then_first() {
    let authority = Authority::new("A");
    let leaf = |name| authority.leaf(Key::Ecdsa, &[name]);
    let (first, exact, wildcard, deep) = (
        leaf("first.example"),
        leaf("www.a.example"),
        leaf("*.a.example"),
        leaf("*.b.a.example"),
    );
    let sites = Sites::new()
        .with(&["first.example"], &[&first])
        .with(&["*.a.example"], &[&wildcard])
        .with(&["www.a.example"], &[&exact])
        .with(&["*.b.a.example"], &[&deep]);
    let acceptor = sites.acceptor();
    for (name, leaf) in [
        ("first.example", &first),
        ("www.a.example", &exact),
        ("other.a.example", &wildcard),
        ("x.b.a.example", &deep),
        // Saker's wildcard takes it, though the certificate does not cover it.
        ("x.y.a.example", &wildcard),
        ("a.example", &first),
        ("unknown.example", &first),
        // Addresses are not named (RFC 6066 section 3).
        ("127.0.0.1", &first),
    ] {
        assert_eq!(shown(&acceptor, name), of(leaf), "{name}");
    }
}

#[test]
fn a_catch_all_takes_what_nobody_claims() {
    let authority = Authority::new("A");
    let (first, any) = (
        authority.leaf(Key::Ecdsa, &["first.example"]),
        authority.leaf(Key::Ecdsa, &["any.example"]),
    );
    let acceptor = Sites::new()
        .with(&["first.example"], &[&first])
        .with(&["*"], &[&any])
        .acceptor();
    assert_eq!(shown(&acceptor, "first.example"), of(&first));
    assert_eq!(shown(&acceptor, "else.example"), of(&any));
    assert_eq!(shown(&acceptor, "127.0.0.1"), of(&any));
}

#[test]
fn a_certificate_of_another_site_that_covers_the_name() {
    let authority = Authority::new("A");
    let (first, wide) = (
        authority.leaf(Key::Ecdsa, &["first.example"]),
        authority.leaf(Key::Ecdsa, &["wide.example", "*.wide.example"]),
    );
    let sites = Sites::new()
        .with(&["first.example"], &[&first])
        .with(&["wide.example"], &[&wide])
        .with(&["sub.wide.example"], &[]);
    let (identities, problems) = sites.load();
    assert!(
        problems.iter().all(|problem| !problem.is_error()),
        "{problems:?}"
    );
    let acceptor = super::authority::acceptor(&Arc::new(identities));
    assert_eq!(shown(&acceptor, "sub.wide.example"), of(&wide));
}

#[test]
fn rsa_and_ecdsa_side_by_side() {
    let authority = Authority::new("A");
    let (rsa, ecdsa) = (
        authority.leaf(Key::Rsa, &["a.example"]),
        authority.leaf(Key::Ecdsa, &["a.example"]),
    );
    let acceptor = Sites::new()
        .with(&["a.example"], &[&rsa, &ecdsa])
        .acceptor();
    for version in VERSIONS {
        for (schemes, leaf) in [
            (&ALL[..], &ecdsa),
            (&[SignatureScheme::RSA_PSS_SHA256], &rsa),
            (&[SignatureScheme::ECDSA_NISTP256_SHA256], &ecdsa),
        ] {
            let verifier = Arc::new(Gullible(schemes.to_vec()));
            let builder = super::pair::builder(&[version])
                .dangerous()
                .with_custom_certificate_verifier(verifier);
            let pair = Pair::shaken(
                &Arc::new(builder.with_no_client_auth()),
                &acceptor,
                "a.example",
            );
            assert_eq!(pair.leaf(), of(leaf), "{version:?} {schemes:?}");
        }
    }
}

fn strict_listener() -> Listener {
    Listener {
        tls: Some(ListenerTls { strict_sni: true }),
        ..listener(PORT)
    }
}

#[test]
fn strict_sni_refuses_the_unknown() {
    let authority = Authority::new("A");
    let leaf = authority.leaf(Key::Ecdsa, &["a.example"]);
    let identities = Sites::new().with(&["a.example"], &[&leaf]).identities();
    let tickets = Arc::new(Tickets::own(Duration::from_secs(60)));
    let strict = Acceptor::new(identities, &strict_listener(), tickets, &[]);
    let config = Arc::new(client_config(&authority, &VERSIONS));
    assert_eq!(
        Pair::shaken(&config, &strict, "a.example").leaf(),
        of(&leaf)
    );
    for name in ["b.example", "127.0.0.1"] {
        let mut pair = Pair::new(&config, &strict, name);
        assert!(
            matches!(
                pair.shake(),
                Err(TlsError::Refused {
                    whose: Whose::Neither,
                    ..
                })
            ),
            "{name}"
        );
        assert_eq!(
            pair.client_error,
            Some(Error::AlertReceived(AlertDescription::UnrecognisedName)),
            "{name}"
        );
    }
}

#[test]
fn protocol_names() {
    let authority = Authority::new("A");
    let leaf = authority.leaf(Key::Ecdsa, &["a.example"]);
    let acceptor = Sites::new().with(&["a.example"], &[&leaf]).acceptor();
    for version in VERSIONS {
        for (offered, agreed) in [
            (&[&b"http/1.1"[..], b"h2"][..], Some(&b"h2"[..])),
            (&[b"x", b"http/1.1"], Some(b"http/1.1")),
            (&[], None),
        ] {
            let mut config = client_config(&authority, &[version]);
            config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
            let pair = Pair::shaken(&Arc::new(config), &acceptor, "a.example");
            assert_eq!(pair.server.info().unwrap().alpn.as_deref(), agreed);
        }
        let mut config = client_config(&authority, &[version]);
        config.alpn_protocols = vec![b"smtp".to_vec()];
        let mut pair = Pair::new(&Arc::new(config), &acceptor, "a.example");
        assert!(matches!(
            pair.shake(),
            Err(TlsError::Refused {
                whose: Whose::Neither,
                ..
            })
        ));
        assert_eq!(
            pair.client_error,
            Some(Error::AlertReceived(
                AlertDescription::NoApplicationProtocol
            ))
        );
    }
}

#[test]
fn sites_that_differ_in_versions_and_ciphers() {
    let authority = Authority::new("A");
    let leaf = authority.leaf(
        Key::Ecdsa,
        &["old.example", "new.example", "chosen.example"],
    );
    let acceptor = Sites::new()
        .with(&["old.example"], &[&leaf])
        .with(&["new.example"], &[&leaf])
        .where_tls(|tls, _| tls.minimum_version = TlsVersion::Tls13)
        .with(&["chosen.example"], &[&leaf])
        .where_tls(|tls, _| {
            tls.ciphers = vec![CipherSuite::Tls13Aes256Gcm, CipherSuite::EcdheEcdsaChaCha20];
            tls.groups = vec![Group::Secp384r1];
        })
        .acceptor();
    let info = |version, name| {
        let mut pair = Pair::new(
            &Arc::new(client_config(&authority, &[version])),
            &acceptor,
            name,
        );
        pair.shake().map(|()| pair.server.info().cloned().unwrap())
    };
    let [tls12, tls13] = VERSIONS;
    assert_eq!(
        info(tls12, "old.example").unwrap().cipher_openssl,
        "ECDHE-ECDSA-AES128-GCM-SHA256"
    );
    assert_eq!(info(tls13, "old.example").unwrap().version, Version::Tls13);
    assert!(matches!(
        info(tls12, "new.example"),
        Err(TlsError::Refused {
            whose: Whose::Neither,
            ..
        })
    ));
    assert_eq!(
        info(tls13, "new.example").unwrap().cipher,
        "TLS_AES_128_GCM_SHA256"
    );
    assert_eq!(
        info(tls12, "chosen.example").unwrap().cipher_openssl,
        "ECDHE-ECDSA-CHACHA20-POLY1305"
    );
    let chosen = info(tls13, "chosen.example").unwrap();
    assert_eq!(
        (chosen.cipher, chosen.group, chosen.retried),
        ("TLS_AES_256_GCM_SHA384", Some("secp384r1"), true)
    );
}

#[test]
fn a_key_share_that_was_sent_is_used() {
    use rustls::crypto::aws_lc_rs::{self, kx_group::*};
    let authority = Authority::new("A");
    let leaf = authority.leaf(Key::Ecdsa, &["a.example"]);
    let acceptor = Sites::new().with(&["a.example"], &[&leaf]).acceptor();
    let agreed = |groups: Vec<&'static dyn rustls::crypto::SupportedKxGroup>| {
        let provider = rustls::crypto::CryptoProvider {
            kx_groups: groups,
            ..aws_lc_rs::default_provider()
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&TLS13])
            .unwrap();
        let config = builder
            .with_root_certificates(authority.roots())
            .with_no_client_auth();
        let pair = Pair::shaken(&Arc::new(config), &acceptor, "a.example");
        (
            pair.server.info().unwrap().group.unwrap(),
            pair.server.info().unwrap().retried,
        )
    };
    assert_eq!(agreed(vec![X25519]), ("X25519", false));
    assert_eq!(
        agreed(vec![X25519MLKEM768, X25519]),
        ("X25519MLKEM768", false)
    );
    assert_eq!(agreed(vec![X25519, X25519MLKEM768]), ("X25519", false));
    assert_eq!(agreed(vec![SECP256R1, X25519]), ("secp256r1", false));
}

#[test]
fn a_client_without_aes_gets_chacha20() {
    use rustls::crypto::aws_lc_rs::{self, cipher_suite::*};
    let authority = Authority::new("A");
    let leaf = authority.leaf(Key::Ecdsa, &["a.example"]);
    let acceptor = Sites::new().with(&["a.example"], &[&leaf]).acceptor();
    let agreed = |suites: Vec<rustls::SupportedCipherSuite>| {
        let provider = rustls::crypto::CryptoProvider {
            cipher_suites: suites,
            ..aws_lc_rs::default_provider()
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&TLS13])
            .unwrap();
        let config = builder
            .with_root_certificates(authority.roots())
            .with_no_client_auth();
        Pair::shaken(&Arc::new(config), &acceptor, "a.example")
            .server
            .info()
            .unwrap()
            .cipher
    };
    let [chacha, aes128, aes256] = [
        TLS13_CHACHA20_POLY1305_SHA256,
        TLS13_AES_128_GCM_SHA256,
        TLS13_AES_256_GCM_SHA384,
    ];
    assert_eq!(
        agreed(vec![chacha, aes128, aes256]),
        "TLS_CHACHA20_POLY1305_SHA256"
    );
    assert_eq!(
        agreed(vec![aes256, chacha, aes128]),
        "TLS_AES_128_GCM_SHA256"
    );
    assert_eq!(agreed(vec![aes256, chacha]), "TLS_AES_256_GCM_SHA384");
}

#[test]
fn sites_with_the_same_demands_have_one_policy() {
    let authority = Authority::new("A");
    let leaf = authority.leaf(Key::Ecdsa, &["a.example", "b.example", "c.example"]);
    let sites = Sites::new()
        .with(&["a.example"], &[&leaf])
        .with(&["b.example"], &[&leaf]);
    let uniform = sites.identities();
    assert!(uniform.common_policy().is_some() && uniform.common_policy() == uniform.site_policy(1));
    let identities = sites
        .with(&["c.example"], &[&leaf])
        .where_tls(|tls, _| tls.minimum_version = TlsVersion::Tls13)
        .identities();
    let [a, b, c] = [0, 1, 2].map(|site| identities.site_policy(site));
    assert!(a.is_some() && a == b && c.is_some() && a != c && identities.common_policy().is_none());
    assert_eq!(
        (a, identities.site_policy(3)),
        (uniform.common_policy(), None)
    );
    let acceptor = super::authority::acceptor(&identities);
    let config = Arc::new(gullible(&ALL));
    for (name, policy) in [
        ("a.example", a),
        ("C.example", c),
        ("unknown.example", a),
        ("127.0.0.1", a),
    ] {
        assert_eq!(
            Pair::shaken(&config, &acceptor, name)
                .server
                .info()
                .unwrap()
                .policy,
            policy,
            "{name}"
        );
    }
}

/// A ClientHello as QUIC carries it.
fn hello_over_quic(name: &'static str) -> Vec<u8> {
    let mut config = gullible(&ALL);
    config.alpn_protocols = vec![b"h3".to_vec()];
    let mut client = rustls::quic::ClientConnection::new(
        Arc::new(config),
        rustls::quic::Version::V1,
        name.try_into().unwrap(),
        Vec::new(),
    )
    .unwrap();
    let mut hello = Vec::new();
    assert!(client.write_hs(&mut hello).is_none());
    hello
}

#[test]
fn over_quic_the_same_sites_make_the_same_demands() {
    let authority = Authority::new("A");
    let leaf = authority.leaf(Key::Ecdsa, &["a.example", "b.example", "old.example"]);
    let sites = Sites::new()
        .with(&["a.example"], &[&leaf])
        .with(&["b.example"], &[&leaf])
        .where_tls(|tls, dir| {
            tls.client_certificates = ClientCertificates::Required;
            tls.client_ca = Some(dir.write("clients.pem", authority.pem()).unwrap());
        })
        .with(&["old.example"], &[&leaf])
        .where_tls(|tls, _| tls.without_tls13 = true);
    let strict = Acceptor::new(
        sites.identities(),
        &strict_listener(),
        Arc::new(Tickets::own(Duration::from_secs(60))),
        &[b"h2"],
    );
    let (sessions, promises) = (EarlySessions::default(), b"promises");
    let answers = strict.for_quic(Some((&sessions, promises))).unwrap();
    for (name, early_bytes) in [("a.example", u32::MAX), ("b.example", 0)] {
        let hello = hello_over_quic(name);
        assert!(
            (0..hello.len()).all(|length| matches!(
                answers.answer(&hello[..length], LOCAL),
                QuicAnswer::NotYet
            )),
            "{name}"
        );
        let QuicAnswer::Configuration(config, _) = answers.answer(&hello, LOCAL) else {
            panic!("{name}")
        };
        assert_eq!(
            (&config.alpn_protocols[..], config.max_early_data_size),
            (&[b"h3".to_vec()][..], early_bytes),
            "{name}"
        );
    }
    // protocol_version, unrecognized_name, illegal_parameter (RFC 8446 section 6).
    for (message, wanted) in [
        (hello_over_quic("old.example"), 70),
        (hello_over_quic("nobody.example"), 112),
        (vec![1, 0, 0x40, 1], 47),
    ] {
        assert!(
            matches!(answers.answer(&message, LOCAL), QuicAnswer::Refused { alert, .. } if alert == wanted),
            "{wanted}"
        );
    }
    let old = Sites::new()
        .with(&["old.example"], &[&leaf])
        .where_tls(|tls, _| tls.without_tls13 = true);
    assert!(old.acceptor().for_quic(None).is_err(), "nobody could come");
}
