use super::*;

fn with(commands: &[(&str, &str)]) -> Result<SiteTls, String> {
    let mut draft = TlsDraft::default();
    for (command, value) in commands {
        openssl_command(&mut draft, command, value)?;
    }
    Ok(draft.site(&TlsDraft::default(), SectionDemands::default(), "a:443"))
}

#[test]
fn openssl_commands() {
    let site = with(&[
        ("Groups", "X448:X25519:P-256"),
        ("MinProtocol", "TLSv1.3"),
        ("Options", "-SessionTicket,ServerPreference"),
    ])
    .unwrap();
    assert_eq!(site.groups, [Group::X25519, Group::Secp256r1]);
    assert_eq!(
        (
            site.minimum_version,
            site.without_tickets,
            site.cipher_order
        ),
        (TlsVersion::Tls13, true, CipherOrder::OwnAlways)
    );
    let site = with(&[
        ("MaxProtocol", "TLSv1.2"),
        ("CipherString", "ECDHE-RSA-AES128-GCM-SHA256"),
    ])
    .unwrap();
    assert!(site.without_tls13 && site.ciphers.ends_with(&[CipherSuite::EcdheRsaAes128Gcm]));
    assert!(with(&[("NoSuchCommand", "1")]).is_err());
    for outdated in [
        ("Groups", "X448"),
        ("MaxProtocol", "TLSv1.1"),
        ("CipherString", "RC4-SHA"),
    ] {
        assert_eq!(
            with(&[outdated]).unwrap(),
            with(&[]).unwrap(),
            "{outdated:?}"
        );
    }
    assert!(
        with(&[("MinProtocol", "TLSv1.3"), ("MaxProtocol", "TLSv1.2")]).is_err(),
        "nothing remains"
    );
}

#[test]
fn what_a_host_does_not_say_is_the_servers() {
    let main = TlsDraft {
        client_ca: Some("/ca".into()),
        depth_max: Some(3),
        tickets: Some(false),
        ..TlsDraft::default()
    };
    let own = TlsDraft {
        client_certificates: Some(ClientCertificates::Required),
        ..TlsDraft::default()
    };
    let site = own.site(&main, SectionDemands::default(), "a:443");
    assert_eq!(
        (site.client_ca.as_deref(), site.client_checks.depth_max),
        (Some(Path::new("/ca")), Some(3))
    );
    assert!(site.without_tickets && site.client_checks.revocation == Revocation::Off);
    let sections = SectionDemands {
        asks: true,
        takes_unknown: false,
        depth_max: Some(10),
    };
    for (sections, demand, depth) in [
        (sections, ClientCertificates::Asked, 10),
        (
            SectionDemands {
                depth_max: None,
                ..sections
            },
            ClientCertificates::Asked,
            3,
        ),
        (
            SectionDemands {
                depth_max: Some(1),
                ..sections
            },
            ClientCertificates::Asked,
            3,
        ),
        (
            SectionDemands {
                takes_unknown: true,
                ..sections
            },
            ClientCertificates::OptionalNoAuthority,
            10,
        ),
    ] {
        let asked = TlsDraft::default().site(&main, sections, "a:443");
        assert_eq!(
            (asked.client_certificates, asked.client_checks.depth_max),
            (demand, Some(depth)),
            "{sections:?}"
        );
        let own = own.site(&main, sections, "a:443");
        assert_eq!(
            (own.client_certificates, own.client_checks.depth_max),
            (ClientCertificates::Required, Some(3)),
            "{sections:?}"
        );
    }
    assert_eq!(
        TlsDraft::default()
            .site(&main, SectionDemands::default(), "a:443")
            .client_ca,
        None
    );
}
