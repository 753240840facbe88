//! Certificates and challenges that come while the server runs. They belong to the process, not to a configuration.

use super::Certificate;
use crate::ACME_TLS_ALPN;
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    version::{TLS12, TLS13},
};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

/// Called on a worker's thread with a name that has no certificate yet: must not block. True: one is being made, let the handshake wait.
pub type OnDemand = Arc<dyn Fn(&str) -> bool + Send + Sync>;

#[derive(Default)]
pub struct RunTime {
    /// By the name they were installed for, wildcards with their star.
    installed: RwLock<HashMap<String, Vec<Arc<Certificate>>>>,
    challenges: RwLock<HashMap<String, Arc<ServerConfig>>>,
    on_demand: RwLock<Option<OnDemand>>,
}

impl RunTime {
    /// Newest first, so that a renewed certificate takes over; of each kind of key one.
    pub fn install(&self, names: &[String], certificate: &Arc<Certificate>) {
        let mut installed = self.installed.write().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            let all = installed.entry(name.to_ascii_lowercase()).or_default();
            all.retain(|other| other.rank() != certificate.rank());
            all.push(Arc::clone(certificate));
            all.sort_by_key(|certificate| certificate.rank());
        }
    }

    pub fn uninstall(&self, names: &[String]) {
        let mut installed = self.installed.write().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            installed.remove(&name.to_ascii_lowercase());
        }
    }

    pub fn installed(&self, name: &str) -> Vec<Arc<Certificate>> {
        let installed = self.installed.read().unwrap_or_else(PoisonError::into_inner);
        if installed.is_empty() {
            return Vec::new();
        }
        let wildcard = || name.split_once('.').and_then(|(_, parent)| installed.get(&format!("*.{parent}")));
        installed.get(name).or_else(wildcard).cloned().unwrap_or_default()
    }

    /// RFC 8737 section 3: the handshake is answered with this certificate and with this protocol name alone.
    pub fn set_challenge(&self, name: &str, certificate_pem: &[u8], key_pem: &[u8]) -> Result<(), String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate_pem).collect();
        let chain = chain.map_err(|error| error.to_string())?;
        let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(|error| error.to_string())?;
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| error.to_string())?;
        let mut config = builder.with_no_client_auth().with_single_cert(chain, key).map_err(|error| error.to_string())?;
        config.alpn_protocols = vec![ACME_TLS_ALPN.to_vec()];
        config.send_tls13_tickets = 0;
        config.enable_secret_extraction = true;
        let mut challenges = self.challenges.write().unwrap_or_else(PoisonError::into_inner);
        challenges.insert(name.to_ascii_lowercase(), Arc::new(config));
        Ok(())
    }

    pub fn clear_challenge(&self, name: &str) {
        self.challenges.write().unwrap_or_else(PoisonError::into_inner).remove(&name.to_ascii_lowercase());
    }

    pub fn challenge(&self, name: &str) -> Option<Arc<ServerConfig>> {
        self.challenges.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub fn set_on_demand(&self, callback: Option<OnDemand>) {
        *self.on_demand.write().unwrap_or_else(PoisonError::into_inner) = callback;
    }

    /// Whether a certificate for the name is being made.
    pub fn demand(&self, name: &str) -> bool {
        let callback = self.on_demand.read().unwrap_or_else(PoisonError::into_inner).clone();
        callback.is_some_and(|callback| callback(name))
    }
}

impl fmt::Debug for RunTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunTime").finish_non_exhaustive()
    }
}
