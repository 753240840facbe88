//! Servers behind us whose authority has revoked their certificates.

use super::authority::{Authority, Key, Leaf};
use rcgen::SerialNumber;
use rustls::{
    ServerConfig, ServerConnection,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use saker_config::model::{BackendTls, Revocation};
use saker_testkit::TempDir;
use saker_tls::ClientTls;
use std::{path::PathBuf, process::Command, sync::Arc};

/// True if the handshake comes to its end; else why not.
fn shake(leaf: &Leaf, settings: &BackendTls) -> Result<(), String> {
    let chain = vec![CertificateDer::from_pem_slice(leaf.chain.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut server = ServerConnection::new(Arc::new(
        builder
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap(),
    ))
    .unwrap();
    let mut client = ClientTls::load(settings, "a.example", &[])?
        .session()
        .map_err(|fault| fault.to_string())?;
    let (mut plain, mut to_server) = (Vec::new(), Vec::new());
    client.transmit(&mut to_server);
    for _ in 0..10 {
        server.read_tls(&mut to_server.as_slice()).unwrap();
        server
            .process_new_packets()
            .map_err(|error| error.to_string())?;
        to_server.clear();
        let mut to_client = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut to_client).unwrap();
        }
        client
            .receive(&to_client, &mut plain, &mut to_server)
            .map_err(|fault| fault.to_string())?;
        if !client.is_handshaking() {
            return Ok(());
        }
    }
    Err("no end".into())
}

#[test]
fn revoked_certificates_of_servers_are_refused() {
    let (authority, other) = (Authority::new("of servers"), Authority::new("another"));
    let leaf = |serial: u64| {
        authority.leaf_with(Key::Ecdsa, &["a.example"], |params| {
            params.serial_number = Some(SerialNumber::from(serial))
        })
    };
    let (good, revoked) = (leaf(7), leaf(8));
    let dir = TempDir::new("server-revocation").unwrap();
    let write = |name: &str, text: String| dir.write(name, text).unwrap();
    let list = write("list.pem", authority.revocation_list(&[8], 2060));
    let old = write("old.pem", authority.revocation_list(&[], 2025));
    let foreign = write("foreign.pem", other.revocation_list(&[], 2060));
    write("folder/0123abcd.r0", authority.revocation_list(&[8], 2060));
    write("folder/README", "not a list".into());
    let authorities = vec![write("ca.pem", authority.pem())];
    let settings = |revocation: Revocation, lists: &[&PathBuf]| BackendTls {
        authorities: authorities.clone(),
        revocation,
        revocation_lists: lists.iter().copied().cloned().collect(),
        ..BackendTls::default()
    };
    let (leaf, lenient) = (
        Revocation::Leaf {
            takes_unlisted: false,
        },
        Revocation::Leaf {
            takes_unlisted: true,
        },
    );
    assert_eq!(
        shake(&revoked, &settings(Revocation::Off, &[&list])),
        Ok(())
    );
    for lists in [&list, &dir.join("folder")] {
        assert_eq!(shake(&good, &settings(leaf, &[lists])), Ok(()));
        let refused = shake(&revoked, &settings(leaf, &[lists])).unwrap_err();
        assert!(
            refused.to_ascii_lowercase().contains("revoked"),
            "{refused}"
        );
    }
    assert!(
        shake(&good, &settings(leaf, &[&foreign])).is_err(),
        "no list is for it"
    );
    assert_eq!(shake(&good, &settings(lenient, &[&foreign])), Ok(()));
    assert!(
        shake(&good, &settings(leaf, &[&old])).is_err(),
        "the list has run out"
    );
    assert!(
        shake(&good, &settings(leaf, &[])).is_err(),
        "there is no list"
    );
    assert!(shake(&good, &settings(leaf, &[&dir.join("missing.pem")])).is_err());
}

/// A list of X.509 version 1 that revokes the certificate with the serial number 8, as `openssl ca
/// -gencrl` makes it by default.
fn list_of_version_1(dir: &TempDir, authority: &Authority) -> PathBuf {
    let folder = dir.display();
    dir.write("v1.pem", authority.pem()).unwrap();
    dir.write("v1.key", authority.issuer.key().serialize_pem())
        .unwrap();
    dir.write(
        "index.txt",
        "R\t600101000000Z\t240101000000Z\t08\tunknown\t/CN=a.example\n",
    )
    .unwrap();
    dir.write(
        "ca.conf",
        format!("[ca]\ndefault_ca = d\n[d]\ndatabase = {folder}/index.txt\ndefault_md = sha256\ndefault_crl_days = 3650\n"),
    )
    .unwrap();
    let made = Command::new("openssl")
        .args(["ca", "-config", "ca.conf", "-cert", "v1.pem"])
        .args(["-keyfile", "v1.key", "-gencrl", "-out", "v1.crl"])
        .current_dir(dir.display().to_string())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    dir.join("v1.crl")
}

#[test]
fn lists_of_version_1_revoke_certificates_of_servers() {
    let (authority, other) = (Authority::new("of servers"), Authority::new("another"));
    let leaf = |authority: &Authority, serial: u64| {
        authority.leaf_with(Key::Ecdsa, &["a.example"], |params| {
            params.serial_number = Some(SerialNumber::from(serial))
        })
    };
    let dir = TempDir::new("server-revocation-v1").unwrap();
    let list = list_of_version_1(&dir, &authority);
    let authorities = vec![dir.write("ca.pem", authority.pem()).unwrap()];
    let settings = |authorities: &[PathBuf], lists: &[&PathBuf]| BackendTls {
        authorities: authorities.to_vec(),
        revocation: Revocation::Leaf {
            takes_unlisted: false,
        },
        revocation_lists: lists.iter().copied().cloned().collect(),
        ..BackendTls::default()
    };
    let own = settings(&authorities, &[&list]);
    assert_eq!(shake(&leaf(&authority, 7), &own), Ok(()));
    let refused = shake(&leaf(&authority, 8), &own).unwrap_err();
    assert!(
        refused.to_ascii_lowercase().contains("revoked"),
        "{refused}"
    );
    let foreign = vec![dir.write("other.pem", other.pem()).unwrap()];
    assert!(
        shake(&leaf(&other, 7), &settings(&foreign, &[&list])).is_err(),
        "no list is for it"
    );
    // Beside a list of version 2 of the same authority, both count.
    let newer = dir
        .write("newer.pem", authority.revocation_list(&[9], 2060))
        .unwrap();
    let both = settings(&authorities, &[&list, &newer]);
    assert_eq!(shake(&leaf(&authority, 7), &both), Ok(()));
    for serial in [8, 9] {
        assert!(shake(&leaf(&authority, serial), &both).is_err(), "{serial}");
    }
}
