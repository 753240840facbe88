//! TLS of a client: towards servers that stand behind us.
//!
//! Used by the gateway, a configuration per backend and a session per connection. Such connections
//! are few and are used again and again, so that rustls' own buffered connection does, where
//! sessions of a server do without buffers (`session`). Difficulty: Apache's operators may ask for
//! less than the whole check, piece by piece; `server_verifier` has that. Absent on purpose: early
//! data.

use crate::{
    chain_depth::Names,
    client_files::Looks,
    encrypted_key,
    error::TlsError,
    error::Whose,
    identities::passphrase,
    provider::provider,
    server_verifier::{Trusted, UpstreamPolicy},
    upstream_revocation::OldLists,
    version1,
};
use rustls::{
    ClientConfig, ClientConnection, Error, InconsistentKeys, RootCertStore,
    SupportedProtocolVersion,
    client::{Resumption, WebPkiServerVerifier},
    crypto::CryptoProvider,
    pki_types::{
        CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, pem::PemObject,
    },
    sign::{CertifiedKey, SingleCertAndKey},
    version::{TLS12, TLS13},
};
use saker_config::model::{BackendTls, Revocation};
use saker_net::privileged;
use saker_tls_verifier::ServerVerifier;
use std::{
    fs::Metadata,
    io::{Read, Write},
    path::Path,
    sync::{Arc, OnceLock},
};

/// State shared by the connections to one backend: requirements, our certificate, sessions to
/// resume.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    read: Looks,
}

impl ClientTls {
    /// Reads the files. `host`: from the backend's address, unless the settings name another.
    /// `alpn`: in order of preference.
    pub fn load(settings: &BackendTls, host: &str, alpn: &[&[u8]]) -> Result<ClientTls, String> {
        let read = Looks::take(settings);
        let name = settings
            .name
            .as_deref()
            .unwrap_or(host)
            .trim_matches(['[', ']']);
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| format!("`{name}` is no name of a server"))?;
        let provider = Arc::new(provider(&settings.ciphers, &[]));
        let versions: Vec<&SupportedProtocolVersion> = [
            (&TLS13, !settings.without_tls13),
            (&TLS12, !settings.without_tls12),
        ]
        .into_iter()
        .filter_map(|(version, on)| on.then_some(version))
        .collect();
        let chain = settings
            .verify
            .then(|| chain(settings, &provider))
            .transpose()?;
        let (chain, old_lists) = chain.unzip();
        let old_lists = old_lists.flatten();
        let policy = UpstreamPolicy {
            chain,
            trusted: trusted(settings, &old_lists, &provider)?,
            old_lists,
            checks_name: settings.checks_name,
            checks_time: settings.checks_time,
            depth_max: match settings.depth_max.filter(|_| settings.verify) {
                None => None,
                Some(max) => {
                    let all = authorities(settings)?;
                    Some((max, all.iter().filter_map(|one| Names::of(one)).collect()))
                }
            },
        };
        let verifier = ServerVerifier::new(policy, Arc::clone(&provider));
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(|error| error.to_string())?;
        // Not the usual verifier, but one that asks it: see there.
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &settings.identity {
            Some((certificate, key)) => {
                let passphrases = settings.passphrases.as_deref();
                let (chain, key) = identity(certificate, key, passphrases)?;
                let own = certified(chain, key, &provider)
                    .map_err(|error| format!("{}: {error}", certificate.display()))?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)))
            }
            None => builder.with_no_client_auth(),
        };
        config.enable_sni = settings.sends_name;
        if !settings.resumes {
            config.resumption = Resumption::disabled();
        }
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(ClientTls {
            config: Arc::new(config),
            name,
            read,
        })
    }

    /// True if its files are still those that it was made of. Looks at them.
    pub fn is_current(&self, settings: &BackendTls) -> bool {
        self.read == Looks::take(settings)
    }

    /// Keeps the previous contents because the current ones are unusable; the files are read again
    /// when they change again.
    pub fn stay(&mut self, settings: &BackendTls) {
        self.read = Looks::take(settings);
    }

    /// The same for another name of the server.
    /// # Errors
    /// It is no name of a server.
    pub fn named(self, name: &str) -> Result<ClientTls, String> {
        let name = ServerName::try_from(name.trim_matches(['[', ']']).to_owned())
            .map_err(|_| format!("`{name}` is no name of a server"))?;
        Ok(ClientTls { name, ..self })
    }

    pub fn session(&self) -> Result<ClientSession, TlsError> {
        Ok(ClientSession {
            connection: ClientConnection::new(Arc::clone(&self.config), self.name.clone())?,
        })
    }
}

/// One connection's session.
pub struct ClientSession {
    connection: ClientConnection,
}

impl ClientSession {
    /// Takes in ciphertext, all of it. Plaintext is appended to `plain`, what is to be sent to
    /// `out`. Says whether the peer has ended its side.
    pub fn receive(
        &mut self,
        mut input: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<bool, TlsError> {
        let mut is_closed = false;
        while !input.is_empty() && !is_closed {
            self.connection
                .read_tls(&mut input)
                .map_err(|error| TlsError::refused(Whose::Peer, error.to_string()))?;
            let state = match self.connection.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // The alert.
                    self.transmit(out);
                    return Err(error.into());
                }
            };
            let (start, bytes) = (plain.len(), state.plaintext_bytes_to_read());
            plain.resize(start + bytes, 0);
            let place = plain.get_mut(start..).unwrap_or_default();
            self.connection
                .reader()
                .read_exact(place)
                .map_err(|error| TlsError::refused(Whose::Ours, error.to_string()))?;
            is_closed = state.peer_has_closed();
        }
        self.transmit(out);
        Ok(is_closed)
    }

    /// Writes the bytes that need no input from the peer: the ClientHello.
    pub fn transmit(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            // Writing to memory does not fail.
            if self.connection.write_tls(out).is_err() {
                return;
            }
        }
    }

    /// Encrypts as much of `plain` as may wait; how much that was.
    pub fn send(&mut self, plain: &[u8], out: &mut Vec<u8>) -> usize {
        let taken = self.connection.writer().write(plain).unwrap_or(0);
        self.transmit(out);
        taken
    }

    /// Says that nothing more will be sent.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        self.connection.send_close_notify();
        self.transmit(out);
    }

    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// The protocol that was agreed on.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }
}

/// Verifier of an upstream's chain, and the revocation lists that it does not read. A list that is
/// missing or out of date refuses, as with OpenSSL.
fn chain(
    settings: &BackendTls,
    provider: &Arc<CryptoProvider>,
) -> Result<(Arc<WebPkiServerVerifier>, Option<OldLists>), String> {
    let mut builder = WebPkiServerVerifier::builder_with_provider(
        Arc::new(roots(settings)?),
        Arc::clone(provider),
    );
    let mut old_lists = None;
    if settings.revocation != Revocation::Off {
        let mut lists = Vec::new();
        for path in &settings.revocation_lists {
            add_lists(path, &mut lists)?;
        }
        if lists.is_empty() {
            return Err("revocation is to be checked, and there is no list".into());
        }
        let old = OldLists::of(
            authorities(settings)?,
            settings.revocation,
            &lists,
            provider,
        )?;
        lists.retain(|list| !old.is_version_1(list));
        let has_version_1 = old.has_version_1();
        if !lists.is_empty() {
            builder = builder.with_crls(lists).enforce_revocation_expiration();
            if matches!(settings.revocation, Revocation::Leaf { .. }) {
                builder = builder.only_check_end_entity_revocation();
            }
            // Of what its lists do not tell, those of version 1 do.
            if settings.revocation.takes_unlisted() || has_version_1 {
                builder = builder.allow_unknown_revocation_status();
            }
        }
        old_lists = has_version_1.then_some(old);
    }
    let built = builder.build().map_err(|error| error.to_string())?;
    Ok((built, old_lists))
}

/// Adds the revocation lists of a file, or of the files in a directory whose extension starts with
/// `r`.
fn add_lists(
    path: &Path,
    lists: &mut Vec<CertificateRevocationListDer<'static>>,
) -> Result<(), String> {
    let fault = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    if is_directory(path) {
        for name in privileged::list(path).map_err(|error| fault(&error))? {
            let file = path.join(name);
            let is_list = file
                .extension()
                .and_then(|end| end.to_str())
                .is_some_and(|end| end.starts_with('r'));
            if is_list && privileged::metadata(&file).is_ok_and(|found| found.is_file()) {
                add_lists(&file, lists)?;
            }
        }
        return Ok(());
    }
    let pem = privileged::read(path).map_err(|error| fault(&error))?;
    for list in CertificateRevocationListDer::pem_slice_iter(&pem) {
        lists.push(list.map_err(|error| fault(&error))?);
    }
    Ok(())
}

fn roots(settings: &BackendTls) -> Result<RootCertStore, String> {
    static SYSTEM: OnceLock<RootCertStore> = OnceLock::new();
    if settings.authorities.is_empty() {
        let load = || {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            roots
        };
        return Ok(SYSTEM.get_or_init(load).clone());
    }
    let mut roots = RootCertStore::empty();
    for path in &settings.authorities {
        add(path, &mut roots)?;
    }
    if roots.is_empty() {
        return Err("no certificate of an authority could be read".into());
    }
    Ok(roots)
}

/// A file with certificates, or a folder of such; files of a folder that have none are passed over.
fn add(path: &Path, roots: &mut RootCertStore) -> Result<(), String> {
    let fault = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    if !is_directory(path) {
        let pem = privileged::read(path).map_err(|error| fault(&error))?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots
                .add(certificate.map_err(|error| fault(&error))?)
                .map_err(|error| fault(&error))?;
        }
        return Ok(());
    }
    for name in privileged::list(path).map_err(|error| fault(&error))? {
        if let Ok(pem) = privileged::read(&path.join(name)) {
            roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).flatten());
        }
    }
    Ok(())
}

/// The authorities for chains that webpki does not follow; `None` where lists are in force that it
/// alone reads.
fn trusted(
    settings: &BackendTls,
    old_lists: &Option<OldLists>,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Trusted>, String> {
    let is_named = settings.verify && !settings.authorities.is_empty();
    match is_named && (settings.revocation == Revocation::Off || old_lists.is_some()) {
        true => Ok(Some((authorities(settings)?, Arc::clone(provider)))),
        false => Ok(None),
    }
}

/// The certificates of [`roots`], whole.
fn authorities(settings: &BackendTls) -> Result<Vec<CertificateDer<'static>>, String> {
    if settings.authorities.is_empty() {
        return Ok(rustls_native_certs::load_native_certs().certs);
    }
    let mut files = Vec::new();
    for path in &settings.authorities {
        if is_directory(path) {
            let names =
                privileged::list(path).map_err(|error| format!("{}: {error}", path.display()))?;
            files.extend(names.into_iter().map(|name| path.join(name)));
        } else {
            files.push(path.clone());
        }
    }
    let pems = files.iter().filter_map(|file| privileged::read(file).ok());
    Ok(pems
        .flat_map(|pem| {
            CertificateDer::pem_slice_iter(&pem)
                .flatten()
                .collect::<Vec<_>>()
        })
        .collect())
}

fn identity(
    certificate: &Path,
    key: &Path,
    passphrases: Option<&Path>,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let fault = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let pem = privileged::read(certificate).map_err(|error| fault(certificate, &error))?;
    let chain = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| fault(certificate, &error))?;
    let pem = privileged::read(key).map_err(|error| fault(key, &error))?;
    let key = match passphrases.filter(|_| encrypted_key::is_encrypted(&pem)) {
        Some(path) => passphrase::by_file(&pem, path).map_err(|error| fault(key, &error))?,
        None => PrivateKeyDer::from_pem_slice(&pem).map_err(|error| fault(key, &error))?,
    };
    Ok((chain, key))
}

/// A certificate that belongs to a key. One of X.509 version 1 is compared here: webpki reads none.
fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, Error> {
    let key = provider.key_provider.load_private_key(key)?;
    let is_first = chain.first().is_some_and(|own| version1::is_version_1(own));
    let certified = CertifiedKey::new(chain, key);
    if !is_first {
        return match certified.keys_match() {
            Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
            Err(error) => Err(error),
        };
    }
    let own = |own: &CertificateDer<'_>| version1::public_key(own).map(<[u8]>::to_vec);
    let own = certified.cert.first().and_then(own);
    let is_other = certified
        .key
        .public_key()
        .is_some_and(|key| Some(key.as_ref()) != own.as_deref());
    match is_other {
        true => Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)),
        false => Ok(certified),
    }
}

fn is_directory(path: &Path) -> bool {
    privileged::metadata(path)
        .as_ref()
        .is_ok_and(Metadata::is_dir)
}
