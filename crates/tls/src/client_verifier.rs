//! Who may come in with which certificate: authorities, revocation lists, depth, and what clients are told about them.
//!
//! rustls' verifier (webpki) judges; around it stand the two things that it does not know: a bound on the length of the chain
//! (SSLVerifyDepth), and certificates that nobody vouches for and that are taken all the same (`optional_no_ca`), whose key the client must own
//! nevertheless. Difficulty: webpki does not tell which way it took from the certificate to the authority. The depth is that of the longest
//! way by names, so that what a client adds to its chain can only make it worse.

use crate::{
    der,
    identities::{Files, LoadProblem},
    session::ClientVerification,
};
use aws_lc_rs::digest::Context;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime, pem::PemObject},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use saker_config::model::{ClientCertificates, Origin, Revocation, SiteTls};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Longer chains are not followed; webpki's own bound is below it.
const DEPTH_MAX: u32 = 16;

#[derive(Debug)]
pub struct Verifier {
    /// `None`: there are no authorities, so nobody can vouch.
    strict: Option<Arc<dyn ClientCertVerifier>>,
    provider: Arc<CryptoProvider>,
    hints: Vec<DistinguishedName>,
    mandatory: bool,
    /// Certificates that nobody vouches for are taken.
    lenient: bool,
    depth_max: Option<u32>,
    authorities: Vec<Names>,
}

/// Of a certificate, in DER.
#[derive(Debug)]
struct Names {
    subject: Vec<u8>,
    issuer: Vec<u8>,
}

impl Names {
    fn of(certificate: &[u8]) -> Option<Names> {
        der::certificate(certificate).map(|facts| Names { subject: facts.subject, issuer: facts.issuer })
    }
}

impl Verifier {
    /// What came of a handshake with these certificates, which it has passed.
    pub fn verification(&self, chain: &[CertificateDer<'static>]) -> ClientVerification {
        match chain.split_first() {
            None => ClientVerification::None,
            Some((first, rest)) if !self.lenient || self.judge(first, rest, UnixTime::now()).is_ok() => ClientVerification::Success,
            Some(_) => ClientVerification::Generous,
        }
    }

    fn judge(&self, first: &CertificateDer<'_>, rest: &[CertificateDer<'_>], now: UnixTime) -> Result<(), Error> {
        let strict = self.strict.as_ref().ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        strict.verify_client_cert(first, rest, now)?;
        if self.depth_max.is_some_and(|max| self.depth(first, rest) > max) {
            return Err(Error::General("the client's certificate chain is longer than allowed".into()));
        }
        Ok(())
    }

    /// Of the longest way to an authority, as OpenSSL counts: a certificate that an authority signed itself has 1.
    fn depth(&self, first: &CertificateDer<'_>, rest: &[CertificateDer<'_>]) -> u32 {
        let between: Vec<Names> = rest.iter().filter_map(|certificate| Names::of(certificate)).collect();
        let Some(leaf) = Names::of(first) else { return u32::MAX };
        if self.authorities.iter().any(|authority| authority.subject == leaf.subject) && leaf.subject == leaf.issuer {
            return 0;
        }
        let mut wanted: HashSet<&[u8]> = HashSet::from([leaf.issuer.as_slice()]);
        let mut deepest = 0;
        for depth in 1..=DEPTH_MAX {
            let found = self.authorities.iter().filter(|authority| wanted.contains(authority.subject.as_slice()));
            if found.clone().next().is_some() {
                deepest = depth;
            }
            let next = found.chain(between.iter().filter(|one| wanted.contains(one.subject.as_slice())));
            wanted = next.filter(|one| one.issuer != one.subject).map(|one| one.issuer.as_slice()).collect();
        }
        if deepest == 0 { u32::MAX } else { deepest }
    }
}

fn is_unknown_issuer(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
        // A certificate that signed itself is an authority's to webpki.
        Error::InvalidCertificate(CertificateError::Other(other)) => other.to_string().contains("CaUsedAsEndEntity"),
        _ => false,
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.judge(end_entity, intermediates, now) {
            Err(error) if !(self.lenient && is_unknown_issuer(&error)) => Err(error),
            _ => Ok(ClientCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// What a load needs, and where it complains.
pub struct Loading<'l> {
    pub origin: &'l Origin,
    pub digest: &'l mut Context,
    pub files: &'l mut Files,
    pub problems: &'l mut Vec<LoadProblem>,
}

/// Revocation is checked as the site says; a list that is missing or out of date refuses, as OpenSSL has it.
pub fn load(site: &SiteTls, provider: &Arc<CryptoProvider>, loading: &mut Loading<'_>) -> Option<Verifier> {
    let demand = site.client_certificates;
    let lenient = demand == ClientCertificates::OptionalNoAuthority;
    let authorities = loading.authorities(&site.client_ca, &site.client_checks.ca_folder)?;
    if authorities.is_empty() && !lenient {
        let problem = "client certificates are asked for, and no authority to check them against is named";
        loading.problems.push(LoadProblem::error(loading.origin.clone(), problem.into()).with_help("name a file with `client-ca`"));
        return None;
    }
    let named = loading.authorities(&site.client_checks.hint_file, &site.client_checks.hint_folder)?;
    let shown = if named.is_empty() { &authorities } else { &named };
    let names = |all: &[CertificateDer<'static>]| all.iter().filter_map(|one| Names::of(one)).collect::<Vec<_>>();
    let hints = names(shown).into_iter().map(|names| DistinguishedName::in_sequence(&names.subject)).collect();
    let strict = match authorities.is_empty() {
        true => None,
        false => Some(strict(site, &authorities, provider, loading)?),
    };
    Some(Verifier {
        strict,
        provider: Arc::clone(provider),
        hints,
        mandatory: demand == ClientCertificates::Required,
        lenient,
        depth_max: site.client_checks.depth_max,
        authorities: names(&authorities),
    })
}

fn strict(
    site: &SiteTls,
    authorities: &[CertificateDer<'static>],
    provider: &Arc<CryptoProvider>,
    loading: &mut Loading<'_>,
) -> Option<Arc<dyn ClientCertVerifier>> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        if let Err(error) = roots.add(authority.clone()) {
            loading.complain(format!("an authority can't be used: {error}"));
            return None;
        }
    }
    let mut lists = Vec::new();
    if site.client_checks.revocation != Revocation::Off {
        for path in site.client_crl.iter().cloned().chain(hashed(&site.client_checks.crl_folder, "r", loading)?) {
            lists.extend(loading.revocation_lists(&path)?);
        }
    }
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    if !lists.is_empty() {
        builder = builder.with_crls(lists).enforce_revocation_expiration();
        if matches!(site.client_checks.revocation, Revocation::Leaf { .. }) {
            builder = builder.only_check_end_entity_revocation();
        }
        if site.client_checks.revocation.takes_unlisted() {
            builder = builder.allow_unknown_revocation_status();
        }
    }
    let built = builder.build();
    built.map_err(|error| loading.complain(format!("client certificates can't be checked: {error}"))).ok()
}

impl Loading<'_> {
    fn complain(&mut self, problem: String) {
        self.problems.push(LoadProblem::error(self.origin.clone(), problem));
    }

    /// Of a file, and of the files of a folder. `None`: one can't be used.
    fn authorities(&mut self, file: &Option<PathBuf>, folder: &Option<PathBuf>) -> Option<Vec<CertificateDer<'static>>> {
        let mut all = Vec::new();
        for path in file.iter().cloned().chain(hashed(folder, "", self)?) {
            let pem = self.files.read(&path, self.origin, "authorities", self.problems)?;
            let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
            let read = match read {
                Ok(read) => read,
                Err(error) => {
                    self.complain(format!("{} has an authority that can't be used: {error}", path.display()));
                    return None;
                }
            };
            if read.is_empty() {
                let problem = LoadProblem::error(self.origin.clone(), format!("{} has no certificates", path.display()));
                self.problems.push(problem.with_help("authorities are given in PEM"));
                return None;
            }
            read.iter().for_each(|certificate| self.digest.update(certificate));
            all.extend(read);
        }
        Some(all)
    }

    fn revocation_lists(&mut self, path: &Path) -> Option<Vec<CertificateRevocationListDer<'static>>> {
        let pem = self.files.read(path, self.origin, "revocation lists", self.problems)?;
        let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&pem).collect();
        let Some(lists) = lists.ok().filter(|lists| !lists.is_empty()) else {
            self.complain(format!("{} has no revocation lists in PEM", path.display()));
            return None;
        };
        for list in &lists {
            self.digest.update(list);
            if der::revocation_list_next_update(list).is_some_and(|until| until < crate::identities::now()) {
                let problem = format!("{} is out of date: client certificates of its authority are refused", path.display());
                self.problems.push(LoadProblem::warning(self.origin.clone(), problem));
            }
        }
        Some(lists)
    }
}

/// The files of a folder that OpenSSL would look at: named by a hash, a dot, `kind`, and a number, as `c_rehash` makes them.
fn hashed(folder: &Option<PathBuf>, kind: &str, loading: &mut Loading<'_>) -> Option<Vec<PathBuf>> {
    let Some(folder) = folder else { return Some(Vec::new()) };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            loading.complain(format!("{} can't be read: {error}", folder.display()));
            return None;
        }
    };
    let is_hashed = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.split_once('.').filter(|(hash, _)| hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let number = number.and_then(|(_, end)| end.strip_prefix(kind)).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_hashed).collect();
    paths.sort();
    Some(paths)
}
