//! Certificates with which servers know each other.
//!
//! Called by: `peers` and `peer_attacks`.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use saker_testkit::TempDir;

/// Certificates in a folder: `peer` of the cluster's authority, `named` of the same for another
/// host, `foreign` of another authority.
pub struct Certificates(TempDir);

impl Certificates {
    pub fn make() -> Certificates {
        let dir = TempDir::new("cluster-peers").unwrap();
        // OpenSSL takes a certificate with the name of its issuer for one of its own.
        let named = |host: &str, names: Vec<String>| {
            let mut params = CertificateParams::new(names).unwrap();
            params.distinguished_name.push(DnType::CommonName, host);
            params
        };
        let authority = |name: &str| {
            let mut params = named(name, Vec::new());
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
        };
        let (own, other) = (authority("own"), authority("other"));
        for (file, host, issuer) in [
            ("peer", "saker-peer", &own),
            ("named", "other.example", &own),
            ("foreign", "saker-peer", &other),
        ] {
            let key = KeyPair::generate().unwrap();
            let params = named(host, vec![host.into()]);
            let certificate = params.signed_by(&key, issuer).unwrap();
            dir.write(&format!("{file}.pem"), certificate.pem())
                .unwrap();
            dir.write(&format!("{file}.key"), key.serialize_pem())
                .unwrap();
        }
        dir.write("ca.pem", own.pem()).unwrap();
        dir.write("other-ca.pem", other.pem()).unwrap();
        Certificates(dir)
    }

    pub fn path(&self, file: &str) -> String {
        self.0.join(file).display().to_string()
    }

    /// Lines of `[cluster.peers]`.
    pub fn lines(&self, more: &str) -> String {
        format!(
            "certificate = \"{}\"\nkey = \"{}\"\nca_file = \"{}\"\n{more}",
            self.path("peer.pem"),
            self.path("peer.key"),
            self.path("ca.pem")
        )
    }
}
