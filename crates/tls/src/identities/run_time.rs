//! Certificates and challenges that come while the server runs. They belong to the process, not to
//! a configuration.

use super::{Certificate, StapleState};
use crate::ACME_TLS_ALPN;
use rustls::{
    ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer},
    sign::{CertifiedKey, SingleCertAndKey},
    version::{TLS12, TLS13},
};
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
};

/// Called on a worker's thread with a name that has no certificate yet, and the client's address
/// where it is known: must not block. True: one is being made, let the handshake wait.
pub type OnDemand = Arc<dyn Fn(&str, Option<IpAddr>) -> bool + Send + Sync>;

#[derive(Default)]
pub struct RunTime {
    /// By the name they were installed for, wildcards with their star.
    installed: RwLock<HashMap<String, Vec<Arc<Certificate>>>>,
    challenges: RwLock<HashMap<String, Arc<ServerConfig>>>,
    on_demand: RwLock<Option<OnDemand>>,
}

/// A certificate that came at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// For which it is shown, sorted.
    pub names: Vec<String>,
    /// Seconds since 1970.
    pub not_after: i64,
    pub staple: StapleState,
}

impl RunTime {
    /// Shown for these names (`*.example.org` for a wildcard) from the next handshake on. Of each
    /// kind of key there is one, so that a renewed certificate takes over.
    pub fn install(
        &self,
        names: &[String],
        chain_pem: &[u8],
        key_pem: &[u8],
    ) -> Result<(), String> {
        let certificate = Arc::new(Certificate::from_pem(chain_pem, key_pem)?);
        self.insert(names, &certificate);
        Ok(())
    }

    fn insert(&self, names: &[String], certificate: &Arc<Certificate>) {
        let mut installed = self
            .installed
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        for name in names {
            let all = installed.entry(name.to_ascii_lowercase()).or_default();
            all.retain(|other| other.rank() != certificate.rank());
            all.push(Arc::clone(certificate));
            all.sort_by_key(|certificate| certificate.rank());
        }
    }

    pub fn uninstall(&self, names: &[String]) {
        let mut installed = self
            .installed
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        for name in names {
            installed.remove(&name.to_ascii_lowercase());
        }
    }

    /// All that are there, by their first names.
    pub fn all(&self) -> Vec<Installed> {
        let installed = self
            .installed
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let mut by_certificate: BTreeMap<*const Certificate, Installed> = BTreeMap::new();
        for (name, certificate) in installed
            .iter()
            .flat_map(|(name, all)| all.iter().map(move |certificate| (name, certificate)))
        {
            let new = || Installed {
                names: Vec::new(),
                not_after: certificate.facts.not_after,
                staple: certificate.staple_state(),
            };
            by_certificate
                .entry(Arc::as_ptr(certificate))
                .or_insert_with(new)
                .names
                .push(name.clone());
        }
        let mut all: Vec<Installed> = by_certificate.into_values().collect();
        all.iter_mut().for_each(|one| one.names.sort());
        all.sort_by(|one, other| one.names.cmp(&other.names));
        all
    }

    pub(crate) fn installed(&self, name: &str) -> Vec<Arc<Certificate>> {
        let installed = self
            .installed
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if installed.is_empty() {
            return Vec::new();
        }
        let wildcard = || {
            name.split_once('.')
                .and_then(|(_, parent)| installed.get(&format!("*.{parent}")))
        };
        installed
            .get(name)
            .or_else(wildcard)
            .cloned()
            .unwrap_or_default()
    }

    /// RFC 8737 section 3: the handshake is answered with this certificate and with this protocol
    /// name alone. Both in DER, the key as PKCS #8. The certificate is not looked into: its
    /// critical extension would make checks refuse it.
    pub fn set_challenge(
        &self,
        name: &str,
        certificate_der: &[u8],
        key_der: &[u8],
    ) -> Result<(), String> {
        let key = PrivateKeyDer::try_from(key_der).map_err(str::to_owned)?;
        let key = aws_lc_rs::sign::any_supported_type(&key).map_err(|error| error.to_string())?;
        let certified =
            CertifiedKey::new(vec![CertificateDer::from(certificate_der.to_vec())], key);
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| error.to_string())?;
        let mut config = builder
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = vec![ACME_TLS_ALPN.to_vec()];
        config.send_tls13_tickets = 0;
        config.enable_secret_extraction = true;
        let mut challenges = self
            .challenges
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        challenges.insert(name.to_ascii_lowercase(), Arc::new(config));
        Ok(())
    }

    pub fn clear_challenge(&self, name: &str) {
        self.challenges
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&name.to_ascii_lowercase());
    }

    pub(crate) fn challenge(&self, name: &str) -> Option<Arc<ServerConfig>> {
        self.challenges
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
    }

    pub fn set_on_demand(&self, callback: Option<OnDemand>) {
        *self
            .on_demand
            .write()
            .unwrap_or_else(PoisonError::into_inner) = callback;
    }

    /// True if a certificate for the name is being made.
    pub(crate) fn demand(&self, name: &str, client: Option<IpAddr>) -> bool {
        let callback = self
            .on_demand
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        callback.is_some_and(|callback| callback(name, client))
    }
}

impl fmt::Debug for RunTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunTime").finish_non_exhaustive()
    }
}
