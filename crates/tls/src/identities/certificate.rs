//! One certificate chain with its key: read, checked, ready to be shown.
//!
//! What can't work is an error; what works and should not stay so (expired, readable key, missing names) is a warning, since a site with
//! a stale certificate is better than none. The one difficulty is the staple: an OCSP response that has run out is worse than none, so a
//! certificate is kept with and without it.

use super::{
    LoadProblem,
    files::{FileStamp, Files},
    now,
};
use crate::der::{self, CertificateFacts};
use rustls::{
    Error, InconsistentKeys, SignatureAlgorithm, SignatureScheme,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use saker_config::model::{CertificateFiles, Origin};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

/// Warned of from here on: seconds before the end.
const SOON: i64 = 7 * 86_400;

#[derive(Debug)]
pub struct Certificate {
    plain: Arc<CertifiedKey>,
    /// With an OCSP response, and until when that may be shown.
    stapled: Option<(Arc<CertifiedKey>, i64)>,
    pub facts: CertificateFacts,
    /// Files it was made from, with their stamps.
    pub files: Vec<FileStamp>,
}

impl Certificate {
    /// For certificates that arrive at run time.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Certificate, String> {
        let certified = certified(chain, key).map_err(|cause| cause.to_string("the chain", "the key"))?;
        Certificate::new(certified).ok_or_else(|| "the certificate is not understood".into())
    }

    fn new(certified: CertifiedKey) -> Option<Certificate> {
        let facts = der::certificate(certified.cert.first()?)?;
        Some(Certificate { plain: Arc::new(certified), stapled: None, facts, files: Vec::new() })
    }

    /// RFC 6125 section 6.4.3: a star stands for one whole label, the first.
    pub fn covers(&self, name: &str) -> bool {
        let wildcard = name.split_once('.').map(|(_, parent)| parent);
        self.facts.dns_names.iter().any(|own| match own.strip_prefix("*.") {
            Some(parent) => wildcard == Some(parent),
            None => own == name,
        })
    }

    /// Whether it covers every name below `parent` that is one label longer.
    pub fn covers_wildcard(&self, parent: &str) -> bool {
        self.facts.dns_names.iter().any(|own| own.strip_prefix("*.") == Some(parent))
    }

    pub fn can_sign(&self, schemes: &[SignatureScheme]) -> bool {
        self.plain.key.choose_scheme(schemes).is_some()
    }

    /// What is shown to clients now.
    pub fn shown(&self) -> Arc<CertifiedKey> {
        match &self.stapled {
            Some((stapled, until)) if now() < *until => Arc::clone(stapled),
            _ => Arc::clone(&self.plain),
        }
    }

    /// Cheaper signatures first.
    pub fn rank(&self) -> u8 {
        match self.plain.key.algorithm() {
            SignatureAlgorithm::ECDSA => 0,
            SignatureAlgorithm::ED25519 => 1,
            SignatureAlgorithm::RSA => 3,
            _ => 2,
        }
    }

    fn staple(&mut self, response: Vec<u8>, until: i64) {
        let mut stapled = CertifiedKey::clone(&self.plain);
        stapled.ocsp = Some(response);
        self.stapled = Some((Arc::new(stapled), until));
    }
}

/// The stamps of its files now, in the order of [`Certificate::files`].
pub fn stamps(files: &CertificateFiles) -> Vec<FileStamp> {
    paths(files).map(FileStamp::of).collect()
}

pub fn paths(files: &CertificateFiles) -> impl Iterator<Item = &Path> {
    [Some(&files.certificate), Some(&files.key), files.ocsp.as_ref(), files.chain.as_ref()].into_iter().flatten().map(AsRef::as_ref)
}

/// `None` if it can't be used; the problems say why.
pub fn load(from: &CertificateFiles, files: &mut Files, problems: &mut Vec<LoadProblem>) -> Option<Certificate> {
    let chain = files.read(&from.certificate, &from.origin, "certificate", problems);
    let key = files.read(&from.key, &from.origin, "key", problems);
    let (mut chain, key) = (chain?, key?);
    if let Some(more) = &from.chain {
        let more = files.read(more, &from.origin, "chain", problems)?;
        chain = [&*chain, b"\n", &more].concat().into();
    }
    warn_of_readable_key(&from.key, &from.origin, problems);
    let (chain_name, key_name) = (from.certificate.display().to_string(), from.key.display().to_string());
    let made = certified(&chain, &key).map_err(|cause| LoadProblem {
        help: cause.help(&chain_name),
        ..LoadProblem::error(from.origin.clone(), cause.to_string(&chain_name, &key_name))
    });
    let made = made.and_then(|certified| {
        Certificate::new(certified).ok_or_else(|| LoadProblem::error(from.origin.clone(), format!("{chain_name} is not understood")))
    });
    let mut certificate = made.map_err(|problem| problems.push(problem)).ok()?;
    check(&certificate, &chain_name, &from.origin, problems);
    if let Some(path) = &from.ocsp {
        add_staple(&mut certificate, path, &from.origin, files, problems);
    }
    certificate.files = paths(from).map(|path| files.stamp(path).unwrap_or_default()).collect();
    Some(certificate)
}

/// Why a chain and a key are no identity.
enum Cause {
    NoCertificate,
    BadPem(String),
    NoKey,
    KeyEncrypted,
    BadKey(Error),
    BadCertificate(Error),
    Mismatch { later: bool },
}

impl Cause {
    fn to_string(&self, chain: &str, key: &str) -> String {
        match self {
            Cause::NoCertificate => format!("{chain} has no certificate in PEM"),
            Cause::BadPem(error) => format!("{chain} is broken: {error}"),
            Cause::NoKey => format!("{key} has no private key in PEM"),
            Cause::KeyEncrypted => format!("the key in {key} is encrypted, and nobody can type its passphrase here"),
            Cause::BadKey(error) => format!("the key in {key} can't be used: {error}"),
            Cause::BadCertificate(error) => format!("the certificate in {chain} can't be used: {error}"),
            Cause::Mismatch { later: false } => format!("the key in {key} is not that of the certificate in {chain}"),
            Cause::Mismatch { later: true } => format!("the key in {key} is that of a later certificate in {chain}, not of the first"),
        }
    }

    fn help(&self, chain: &str) -> Option<String> {
        match self {
            Cause::KeyEncrypted => Some("openssl pkey -in KEY -out KEY-WITHOUT-PASSPHRASE; keep it readable by its owner only".into()),
            Cause::BadKey(_) => Some("RSA from 2048 bits, ECDSA on P-256, P-384 or P-521, and Ed25519 are usable".into()),
            Cause::Mismatch { later: false } => Some("were certificate and key renewed together?".into()),
            Cause::Mismatch { later: true } => {
                Some(format!("put the site's own certificate first in {chain}, then the one that signed it"))
            }
            _ => None,
        }
    }
}

fn certified(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, Cause> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = chain.map_err(|error| Cause::BadPem(error.to_string()))?;
    if chain.is_empty() {
        return Err(Cause::NoCertificate);
    }
    let is_encrypted = contains(key, b"BEGIN ENCRYPTED PRIVATE KEY") || contains(key, b"Proc-Type: 4,ENCRYPTED");
    if is_encrypted {
        return Err(Cause::KeyEncrypted);
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| Cause::NoKey)?;
    let signing = aws_lc_rs::sign::any_supported_type(&key).map_err(Cause::BadKey)?;
    let certified = CertifiedKey::new(chain, signing);
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(Error::InconsistentKeys(_)) => Err(Cause::Mismatch { later: is_key_of_later(&certified) }),
        Err(error) => Err(Cause::BadCertificate(error)),
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn is_key_of_later(certified: &CertifiedKey) -> bool {
    let fits = |leaf: &CertificateDer<'static>| CertifiedKey::new(vec![leaf.clone()], Arc::clone(&certified.key)).keys_match().is_ok();
    certified.cert.iter().skip(1).any(fits)
}

fn warn_of_readable_key(path: &Path, origin: &Origin, problems: &mut Vec<LoadProblem>) {
    let mode = fs::metadata(path).map_or(0, |found| found.permissions().mode());
    if mode & 0o004 != 0 {
        let problem = format!("every user of this machine can read the key {}", path.display());
        problems.push(LoadProblem::warning(origin.clone(), problem).with_help(format!("chmod o-r {}", path.display())));
    }
}

fn check(certificate: &Certificate, shown: &str, origin: &Origin, problems: &mut Vec<LoadProblem>) {
    let facts = &certificate.facts;
    let mut warn = |problem: String, help: &str| problems.push(LoadProblem::warning(origin.clone(), problem).with_help(help));
    let until = der::date(facts.not_after);
    if facts.not_after < now() {
        warn(format!("the certificate in {shown} ran out on {until}: clients refuse it"), "renew it");
    } else if facts.not_after < now() + SOON {
        warn(format!("the certificate in {shown} runs out on {until}"), "renew it");
    }
    if facts.not_before > now() {
        warn(format!("the certificate in {shown} is not valid before {}", der::date(facts.not_before)), "is this machine's clock right?");
    }
    if facts.dns_names.is_empty() && facts.addresses.is_empty() {
        warn(format!("the certificate in {shown} names no host: clients refuse it"), "names belong into subjectAltName");
    }
    let chain = certificate.plain.cert.iter().map(|link| der::certificate(link)).collect::<Option<Vec<_>>>().unwrap_or_default();
    if chain.windows(2).any(|pair| pair[0].issuer != pair[1].subject) {
        warn(
            format!("the chain in {shown} is out of order: each certificate is to be followed by the one that signed it"),
            "reorder the file",
        );
    }
}

fn add_staple(certificate: &mut Certificate, path: &Path, origin: &Origin, files: &mut Files, problems: &mut Vec<LoadProblem>) {
    let Some(response) = files.read(path, origin, "OCSP response", problems) else { return };
    let shown = path.display();
    let problem = match der::ocsp_response(&response) {
        None => format!("{shown} is no OCSP response in DER; it is not stapled"),
        Some(facts) if !facts.is_good => format!("the OCSP response {shown} does not call the certificate good"),
        Some(facts) if facts.next_update.is_some_and(|until| until < now()) => {
            format!("the OCSP response {shown} ran out on {}; it is not stapled", der::date(facts.next_update.unwrap_or_default()))
        }
        Some(facts) => return certificate.staple(response.to_vec(), facts.next_update.unwrap_or(i64::MAX)),
    };
    problems.push(LoadProblem::warning(origin.clone(), problem).with_help("fetch a new one"));
}
