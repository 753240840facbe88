//! TLS to an engine: its certificate must be valid for the name in the address.
//!
//! Called by: the engines, for each connection, since files of certificates are renewed.
//! Out of scope: certificates of clients.

use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject},
};
use std::{path::Path, sync::Arc};

/// TLS for connections to an engine. `authorities`: certificates instead of the system's.
///
/// # Errors
/// The file cannot be read, or has no certificate.
pub fn tls_client_config(authorities: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(path) => {
            let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
            let all = CertificateDer::pem_file_iter(path).map_err(|error| failed(&error))?;
            for one in all {
                let one = one.map_err(|error| failed(&error))?;
                roots.add(one).map_err(|error| failed(&error))?;
            }
            if roots.is_empty() {
                return Err(failed(&"there is no certificate in it"));
            }
        }
        None => {
            let system = rustls_native_certs::load_native_certs().certs;
            roots.add_parsable_certificates(system);
        }
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth())
}
