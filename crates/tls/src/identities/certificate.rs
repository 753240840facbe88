//! One certificate chain with its key: read, checked, ready to be shown.
//!
//! What can't work is an error; what works and should not stay so (expired, readable key, missing
//! names) is a warning, since a site with a stale certificate is better than none. The one
//! difficulty is the staple: an OCSP response that has run out is worse than none, so a certificate
//! is kept with and without it.

use super::{
    LoadProblem,
    files::{FileStamp, Files},
    passphrase,
};
use crate::{
    der::{self, CertificateFacts},
    encrypted_key,
    ocsp::{Belief, Question},
    unix_time::now,
    version1,
};
use rustls::{
    Error, InconsistentKeys, SignatureAlgorithm, SignatureScheme,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use saker_config::model::{CertificateFiles, Origin, Passphrase, Stapling};
use saker_net::privileged;
use std::{
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{Arc, PoisonError, RwLock},
};

/// Warned of from here on: seconds before the end.
const SOON: i64 = 7 * 86_400;
/// Responders are not asked more often about one certificate.
const RENEWAL_MIN_S: i64 = 5;

/// The OCSP response that handshakes get with a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StapleState {
    /// Nothing is stapled: it is off, or the certificate names no responder.
    Off,
    /// None has come yet, or the last one ran out.
    Missing,
    /// Shown until then, in seconds since 1970; one without an end, for good.
    Until(i64),
}

#[derive(Debug)]
pub struct Certificate {
    plain: Arc<CertifiedKey>,
    /// With an OCSP response, and until when that may be shown.
    stapled: RwLock<Option<(Arc<CertifiedKey>, i64)>>,
    /// OCSP request, and the site's stapling settings.
    asks: Option<(Question, Arc<Stapling>)>,
    pub facts: CertificateFacts,
    /// Files it was made from, with their stamps.
    pub files: Vec<FileStamp>,
}

impl Certificate {
    /// For certificates that arrive at run time.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Certificate, String> {
        let certified = certified(chain, key, None, false)
            .map_err(|cause| cause.to_string("the chain", "the key"))?;
        Certificate::new(certified).ok_or_else(|| "the certificate is not understood".into())
    }

    fn new(certified: CertifiedKey) -> Option<Certificate> {
        let facts = der::certificate(certified.cert.first()?)?;
        Some(Certificate {
            plain: Arc::new(certified),
            stapled: RwLock::default(),
            asks: None,
            facts,
            files: Vec::new(),
        })
    }

    /// RFC 6125 section 6.4.3: a star stands for one whole label, the first.
    pub fn covers(&self, name: &str) -> bool {
        let wildcard = name.split_once('.').map(|(_, parent)| parent);
        let is_called = |own: &str| match own.strip_prefix("*.") {
            Some(parent) => wildcard == Some(parent),
            None => own == name,
        };
        match self.facts.dns_names.is_empty() && self.facts.addresses.is_empty() {
            // RFC 6125 section 6.4.4: the common name counts where no other is there.
            true => der::common_name(&self.facts.subject)
                .is_some_and(|own| is_called(&own.to_ascii_lowercase())),
            false => self.facts.dns_names.iter().any(|own| is_called(own)),
        }
    }

    /// True if it covers every name below `parent` that is one label longer.
    pub fn covers_wildcard(&self, parent: &str) -> bool {
        self.facts
            .dns_names
            .iter()
            .any(|own| own.strip_prefix("*.") == Some(parent))
    }

    pub fn can_sign(&self, schemes: &[SignatureScheme]) -> bool {
        self.plain.key.choose_scheme(schemes).is_some()
    }

    /// Returns the certificate currently shown to clients.
    pub fn shown(&self) -> Arc<CertifiedKey> {
        match &*self.stapled.read().unwrap_or_else(PoisonError::into_inner) {
            Some((stapled, until)) if now() < *until => Arc::clone(stapled),
            _ => Arc::clone(&self.plain),
        }
    }

    /// The OCSP response that is shown now.
    pub fn staple_state(&self) -> StapleState {
        match &*self.stapled.read().unwrap_or_else(PoisonError::into_inner) {
            Some((_, until)) if now() < *until => StapleState::Until(*until),
            Some(_) => StapleState::Missing,
            None if self.asks.is_some() => StapleState::Missing,
            None => StapleState::Off,
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

    /// Request for the responder; `None` if stapling is off or the certificate names no responder.
    pub fn question(&self) -> Option<&Question> {
        self.asks.as_ref().map(|(question, _)| question)
    }

    /// The terms of [`Certificate::question`].
    pub fn stapling(&self) -> Stapling {
        self.asks
            .as_ref()
            .map(|(_, terms)| Stapling::clone(terms))
            .unwrap_or_default()
    }

    /// For messages.
    pub fn name(&self) -> String {
        self.facts
            .dns_names
            .first()
            .cloned()
            .or_else(|| der::common_name(&self.facts.subject))
            .unwrap_or_default()
    }

    /// Shows a response from the next handshake on, if it is a good one. When it is to be renewed.
    pub fn take_staple(&self, response: Vec<u8>, now: i64) -> Result<i64, String> {
        let (question, terms) = self.asks.as_ref().ok_or("nothing is stapled")?;
        let number = |number: u64| {
            i64::try_from(number)
                .unwrap_or(i64::MAX / 4)
                .min(i64::MAX / 4)
        };
        let belief = Belief {
            skew_s: number(terms.skew_s),
            age_max_s: terms.age_max_s.map(number),
        };
        let facts = question.judge(&response, belief, now)?;
        let lifetime_s = number(terms.lifetime_s);
        let until = facts
            .next_update
            .unwrap_or(now + lifetime_s.saturating_mul(2));
        self.staple(response, until);
        // Half-way, and not at every look where responses hold for seconds only.
        let half = facts
            .next_update
            .map_or(now + lifetime_s, |until| facts.this_update.midpoint(until));
        Ok(half.max(now + RENEWAL_MIN_S))
    }

    fn staple(&self, response: Vec<u8>, until: i64) {
        let mut stapled = CertifiedKey::clone(&self.plain);
        stapled.ocsp = Some(response);
        *self.stapled.write().unwrap_or_else(PoisonError::into_inner) =
            Some((Arc::new(stapled), until));
    }
}

/// The stamps of its files now, in the order of [`Certificate::files`].
pub fn stamps(files: &CertificateFiles) -> Vec<FileStamp> {
    paths(files).map(FileStamp::of).collect()
}

pub fn paths(files: &CertificateFiles) -> impl Iterator<Item = &Path> {
    [
        Some(&files.certificate),
        Some(&files.key),
        files.ocsp.as_ref(),
        files.chain.as_ref(),
    ]
    .into_iter()
    .flatten()
    .map(AsRef::as_ref)
}

/// `None` if it can't be used; the problems say why.
pub fn load(
    from: &CertificateFiles,
    files: &mut Files,
    problems: &mut Vec<LoadProblem>,
) -> Option<Certificate> {
    let chain = files.read(&from.certificate, &from.origin, "certificate", problems);
    let key = files.read(&from.key, &from.origin, "key", problems);
    let (mut chain, key) = (chain?, key?);
    if let Some(more) = &from.chain {
        let more = files.read(more, &from.origin, "chain", problems)?;
        chain = [&*chain, b"\n", &more].concat().into();
    }
    warn_of_readable_key(&from.key, &from.origin, problems);
    let asked = from.passphrase.as_deref();
    let asked = asked.filter(|_| encrypted_key::is_encrypted(&key));
    if asked.is_some_and(|asked| !files.asks() && !passphrase::is_known(&key, asked)) {
        let problem = format!(
            "the key in {} is encrypted: it is not looked into before the start",
            from.key.display()
        );
        problems.push(LoadProblem::warning(from.origin.clone(), problem));
        return None;
    }
    let (chain_name, key_name) = (
        from.certificate.display().to_string(),
        from.key.display().to_string(),
    );
    let made = certified(&chain, &key, from.passphrase.as_deref(), files.asks()).map_err(|cause| {
        LoadProblem {
            help: cause.help(&chain_name),
            ..LoadProblem::error(from.origin.clone(), cause.to_string(&chain_name, &key_name))
        }
    });
    let made = made.and_then(|certified| {
        Certificate::new(certified).ok_or_else(|| {
            LoadProblem::error(
                from.origin.clone(),
                format!("{chain_name} is not understood"),
            )
        })
    });
    let mut certificate = made.map_err(|problem| problems.push(problem)).ok()?;
    check(&certificate, &chain_name, &from.origin, problems);
    if let Some(path) = &from.ocsp {
        add_staple(&certificate, path, &from.origin, files, problems);
    }
    if let Some(terms) = &from.stapling {
        certificate.asks = Question::new(&certificate.plain.cert, terms.responder.as_deref())
            .map(|question| (question, Arc::clone(terms)));
        if certificate.asks.is_none() {
            let problem = format!(
                "{chain_name} names no OCSP responder, or not who has signed it: nothing is stapled"
            );
            problems.push(LoadProblem::warning(from.origin.clone(), problem));
        }
    }
    certificate.files = paths(from)
        .map(|path| files.stamp(path).unwrap_or_default())
        .collect();
    Some(certificate)
}

/// Why a chain and a key are no identity.
enum Cause {
    NoCertificate,
    BadPem(String),
    NoKey,
    KeyEncrypted(String),
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
            Cause::KeyEncrypted(why) => format!("the key in {key} {why}"),
            Cause::BadKey(error) => format!("the key in {key} can't be used: {error}"),
            Cause::BadCertificate(error) => {
                format!("the certificate in {chain} can't be used: {error}")
            }
            Cause::Mismatch { later: false } => {
                format!("the key in {key} is not that of the certificate in {chain}")
            }
            Cause::Mismatch { later: true } => format!(
                "the key in {key} is that of a later certificate in {chain}, not of the first"
            ),
        }
    }

    fn help(&self, chain: &str) -> Option<String> {
        match self {
            Cause::KeyEncrypted(_) => Some("openssl pkey -in KEY -out KEY-WITHOUT-PASSPHRASE; keep it readable by its owner only".into()),
            Cause::BadKey(_) => Some("RSA from 2048 bits, ECDSA on P-256, P-384 or P-521, and Ed25519 are usable".into()),
            Cause::Mismatch { later: false } => Some("were certificate and key renewed together?".into()),
            Cause::Mismatch { later: true } => {
                Some(format!("put the site's own certificate first in {chain}, then the one that signed it"))
            }
            _ => None,
        }
    }
}

fn certified(
    chain: &[u8],
    key: &[u8],
    asked: Option<&Passphrase>,
    asks: bool,
) -> Result<CertifiedKey, Cause> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = chain.map_err(|error| Cause::BadPem(error.to_string()))?;
    if chain.is_empty() {
        return Err(Cause::NoCertificate);
    }
    let key = match encrypted_key::is_encrypted(key) {
        true => passphrase::open(key, asked, asks).map_err(Cause::KeyEncrypted)?,
        false => PrivateKeyDer::from_pem_slice(key).map_err(|_| Cause::NoKey)?,
    };
    let signing = aws_lc_rs::sign::any_supported_type(&key).map_err(Cause::BadKey)?;
    let certified = CertifiedKey::new(chain, signing);
    match keys_match(&certified) {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(Error::InconsistentKeys(_)) => Err(Cause::Mismatch {
            later: is_key_of_later(&certified),
        }),
        Err(error) => Err(Cause::BadCertificate(error)),
    }
}

/// As rustls has it, of certificates of version 1 as well.
fn keys_match(certified: &CertifiedKey) -> Result<(), Error> {
    let Some(first) = certified
        .cert
        .first()
        .filter(|first| version1::is_version_1(first))
    else {
        return certified.keys_match();
    };
    match (certified.key.public_key(), version1::public_key(first)) {
        (Some(own), Some(named)) if own.as_ref() == named => Ok(()),
        (Some(_), Some(_)) => Err(InconsistentKeys::KeyMismatch.into()),
        (None, _) => Err(InconsistentKeys::Unknown.into()),
        (_, None) => certified.keys_match(),
    }
}

fn is_key_of_later(certified: &CertifiedKey) -> bool {
    let fits = |leaf: &CertificateDer<'static>| {
        keys_match(&CertifiedKey::new(
            vec![leaf.clone()],
            Arc::clone(&certified.key),
        ))
        .is_ok()
    };
    certified.cert.iter().skip(1).any(fits)
}

fn warn_of_readable_key(path: &Path, origin: &Origin, problems: &mut Vec<LoadProblem>) {
    let mode = privileged::metadata(path).map_or(0, |found| found.permissions().mode());
    if mode & 0o004 != 0 {
        let problem = format!(
            "every user of this machine can read the key {}",
            path.display()
        );
        problems.push(
            LoadProblem::warning(origin.clone(), problem)
                .with_help(format!("chmod o-r {}", path.display())),
        );
    }
}

fn check(certificate: &Certificate, shown: &str, origin: &Origin, problems: &mut Vec<LoadProblem>) {
    let facts = &certificate.facts;
    let mut warn = |problem: String, help: &str| {
        problems.push(LoadProblem::warning(origin.clone(), problem).with_help(help))
    };
    let until = der::date(facts.not_after);
    if facts.not_after < now() {
        warn(
            format!("the certificate in {shown} ran out on {until}: clients refuse it"),
            "renew it",
        );
    } else if facts.not_after < now() + SOON {
        warn(
            format!("the certificate in {shown} runs out on {until}"),
            "renew it",
        );
    }
    if facts.not_before > now() {
        warn(
            format!(
                "the certificate in {shown} is not valid before {}",
                der::date(facts.not_before)
            ),
            "is this machine's clock right?",
        );
    }
    if facts.dns_names.is_empty() && facts.addresses.is_empty() {
        warn(
            format!("the certificate in {shown} names no host: clients refuse it"),
            "names belong into subjectAltName",
        );
    }
    let chain = certificate
        .plain
        .cert
        .iter()
        .map(|link| der::certificate(link))
        .collect::<Option<Vec<_>>>()
        .unwrap_or_default();
    if chain
        .windows(2)
        .any(|pair| pair[0].issuer != pair[1].subject)
    {
        warn(
            format!(
                "the chain in {shown} is out of order: each certificate is to be followed by the one that signed it"
            ),
            "reorder the file",
        );
    }
}

fn add_staple(
    certificate: &Certificate,
    path: &Path,
    origin: &Origin,
    files: &mut Files,
    problems: &mut Vec<LoadProblem>,
) {
    let Some(response) = files.read(path, origin, "OCSP response", problems) else {
        return;
    };
    let shown = path.display();
    let problem = match der::ocsp_response(&response) {
        None => format!("{shown} is no OCSP response in DER; it is not stapled"),
        Some(facts) if !facts.is_good => {
            format!("the OCSP response {shown} does not call the certificate good")
        }
        Some(facts) if facts.next_update.is_some_and(|until| until < now()) => {
            format!(
                "the OCSP response {shown} ran out on {}; it is not stapled",
                der::date(facts.next_update.unwrap_or_default())
            )
        }
        Some(facts) => {
            return certificate.staple(response.to_vec(), facts.next_update.unwrap_or(i64::MAX));
        }
    };
    problems.push(LoadProblem::warning(origin.clone(), problem).with_help("fetch a new one"));
}
