//! The client's side of TLS: TLS 1.3 alone, with the one cipher and the one group that every
//! measurement over TLS is made with.
//!
//! The certificate is verified as a browser would. Absent on purpose: hybrid key exchange, which no
//! peer from Debian 12 has.

use rustls::{
    ClientConfig, RootCertStore,
    client::Resumption,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, pem::PemObject},
};
use std::{path::Path, sync::Arc};

/// As OpenSSL calls it.
pub const CIPHER_SUITE: &str = "TLS_AES_128_GCM_SHA256";
/// Whom certificates of tests and benches are for.
pub const NAME: &str = "localhost";

/// Trusts only `chain`.
pub fn configuration(
    chain: &Path,
    alpn: &str,
    resumption: Resumption,
) -> Result<ClientConfig, String> {
    let certificate = CertificateDer::from_pem_file(chain)
        .map_err(|error| format!("{}: {error}", chain.display()))?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate).map_err(|error| error.to_string())?;
    let provider = CryptoProvider {
        cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![aws_lc_rs::kx_group::X25519],
        ..aws_lc_rs::default_provider()
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13]);
    let mut config = builder
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.into()];
    config.resumption = resumption;
    Ok(config)
}
