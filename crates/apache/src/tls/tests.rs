use super::*;

fn with(commands: &[(&str, &str)]) -> Result<SiteTls, String> {
    let mut draft = TlsDraft::default();
    for (command, value) in commands {
        openssl_command(&mut draft, command, value)?;
    }
    Ok(draft.site(&TlsDraft::default(), false, "a:443"))
}

#[test]
fn openssl_commands() {
    let site =
        with(&[("Groups", "X448:X25519:P-256"), ("MinProtocol", "TLSv1.3"), ("Options", "-SessionTicket,ServerPreference")]).unwrap();
    assert_eq!(site.groups, [Group::X25519, Group::Secp256r1]);
    assert_eq!((site.minimum_version, site.without_tickets, site.cipher_order), (TlsVersion::Tls13, true, CipherOrder::OwnAlways));
    let site = with(&[("MaxProtocol", "TLSv1.2"), ("CipherString", "ECDHE-RSA-AES128-GCM-SHA256")]).unwrap();
    assert!(site.without_tls13 && site.ciphers.ends_with(&[CipherSuite::EcdheRsaAes128Gcm]));
    for wrong in [("Groups", "X448"), ("MaxProtocol", "TLSv1.1"), ("NoSuchCommand", "1"), ("CipherString", "RC4-SHA")] {
        assert!(with(&[wrong]).is_err(), "{wrong:?}");
    }
    assert!(with(&[("MinProtocol", "TLSv1.3"), ("MaxProtocol", "TLSv1.2")]).is_err(), "nothing remains");
}

#[test]
fn what_a_host_does_not_say_is_the_servers() {
    let main = TlsDraft { client_ca: Some("/ca".into()), depth_max: Some(3), tickets: Some(false), ..TlsDraft::default() };
    let own = TlsDraft { client_certificates: Some(ClientCertificates::Required), ..TlsDraft::default() };
    let site = own.site(&main, false, "a:443");
    assert_eq!((site.client_ca.as_deref(), site.client_checks.depth_max), (Some(Path::new("/ca")), Some(3)));
    assert!(site.without_tickets && site.client_checks.revocation == Revocation::Off);
    let asked = TlsDraft::default().site(&main, true, "a:443");
    assert_eq!(asked.client_certificates, ClientCertificates::OptionalNoAuthority);
    assert_eq!(TlsDraft::default().site(&main, false, "a:443").client_ca, None);
}
