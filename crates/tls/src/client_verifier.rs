//! Verification of client certificates: authorities, revocation lists, depth, and the hints that
//! clients get about them.
//!
//! rustls' verifier (webpki) decides. Around it stands what it does not support: a bound on the
//! length of the chain (SSLVerifyDepth), certificates without a trusted authority that are accepted
//! all the same (`optional_no_ca`), for which the client must still prove possession of the key,
//! and certificates that only parts of a site require (`Asked`): a bad one counts as none, and the
//! handshake continues.
//!
//! Caveat: webpki does not report the path that it took from the certificate to the authority; see
//! `chain_depth`.

use crate::{
    chain_depth::{Names, depth},
    client_verification::{ClientVerification, Judged},
    der,
    identities::{Files, LoadProblem},
    revocation::{List, Lists},
    unfollowed::{self, Purpose},
    unix_time, version1,
};
use aws_lc_rs::digest::Context;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime, pem::PemObject},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use saker_config::model::{ClientCertificates, Origin, Revocation, SiteTls};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

const BETWEEN_VERSION_1: &str = "the client's certificate is of X.509 version 1, and neither a configured authority nor one below it has signed it: \
                                 an authority in between is of version 3, says that it is one, and limits no names";

#[derive(Debug)]
pub struct Verifier {
    /// `None`: no authorities are configured, so no certificate can be trusted.
    strict: Option<Arc<dyn ClientCertVerifier>>,
    provider: Arc<CryptoProvider>,
    hints: Vec<DistinguishedName>,
    mandatory: bool,
    lenience: Lenience,
    depth_max: Option<u32>,
    authorities: Vec<Names>,
    /// The same, whole: for what webpki does not judge.
    trusted: Vec<CertificateDer<'static>>,
    lists: Option<Lists>,
}

/// Which certificates don't end a handshake although they are not good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lenience {
    Strict,
    /// Certificates from unknown issuers are accepted.
    UnknownIssuer,
    /// All; none of them is taken.
    Disregard,
}

impl Verifier {
    /// Returns the verdict on these certificates, whose handshake succeeded.
    pub fn judged(&self, chain: &[CertificateDer<'static>]) -> Judged {
        let Some((first, rest)) = chain.split_first() else {
            return Judged::default();
        };
        let refused = match self.lenience {
            Lenience::Strict => None,
            _ => self.judge(first, rest, UnixTime::now()).err(),
        };
        let good = || Judged {
            verification: ClientVerification::Success,
            depth: depth(&self.authorities, first, rest),
            refusal: None,
        };
        match refused {
            None => good(),
            Some(_) if self.lenience == Lenience::UnknownIssuer => Judged {
                verification: ClientVerification::Generous,
                ..Judged::default()
            },
            Some(error) => Judged {
                refusal: Some(error.to_string().into()),
                ..Judged::default()
            },
        }
    }

    fn judge(
        &self,
        first: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let strict = self
            .strict
            .as_ref()
            .ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let is_itself = unfollowed::is_trusted_itself(first, &self.trusted, Purpose::Client, now_s);
        let is_first = is_itself || version1::is_version_1(first);
        if is_itself {
            // OpenSSL takes a trusted certificate as it is; to webpki, it is an authority's.
        } else if is_first {
            let about = (Purpose::Client, now_s);
            unfollowed::verify_version_1(first, rest, &self.trusted, &self.provider, about)
                .map_err(|error| self.of_version_1(error, rest))?;
        } else {
            strict
                .verify_client_cert(first, rest, now)
                .map_err(version1::named)?;
        }
        if let Some(lists) = self
            .lists
            .as_ref()
            .filter(|lists| is_first || lists.has_version_1())
        {
            lists.check(first, rest, &self.trusted, now_s)?;
        }
        if self
            .depth_max
            .is_some_and(|max| depth(&self.authorities, first, rest) > max)
        {
            return Err(Error::General(
                "the client's certificate chain is longer than allowed".into(),
            ));
        }
        Ok(())
    }

    /// Replaces the error for an unsupported certificate with an explanation, where the refusal
    /// ends the handshake.
    fn of_version_1(&self, error: Error, rest: &[CertificateDer<'_>]) -> Error {
        let is_unknown = matches!(
            error,
            Error::InvalidCertificate(CertificateError::UnknownIssuer)
        );
        match is_unknown && !rest.is_empty() && self.lenience == Lenience::Strict {
            true => Error::General(BETWEEN_VERSION_1.into()),
            false => error,
        }
    }
}

fn is_unknown_issuer(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => true,
        // A certificate that signed itself is an authority's to webpki.
        Error::InvalidCertificate(CertificateError::Other(other)) => {
            other.to_string().contains("CaUsedAsEndEntity")
        }
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
        let is_passed = |error: &Error| match self.lenience {
            Lenience::Strict => false,
            Lenience::UnknownIssuer => is_unknown_issuer(error),
            Lenience::Disregard => true,
        };
        match self.judge(end_entity, intermediates, now) {
            Err(error) if !is_passed(&error) => Err(error),
            _ => Ok(ClientCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        version1::verify_handshake_tls12(message, certificate, signed, &self.provider)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        version1::verify_handshake_tls13(message, certificate, signed, &self.provider)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Parts of a policy, as its digest tells them apart: an authority that is trusted is none that
/// clients are only told of.
const AUTHORITY: u8 = 1;
const HINT: u8 = 2;
const REVOCATION_LIST: u8 = 3;

fn add_part(digest: &mut Context, part: u8, content: &[u8]) {
    digest.update(&[part]);
    digest.update(&(content.len() as u64).to_be_bytes());
    digest.update(content);
}

/// Input of a load, and the list that its problems go to.
pub struct Loading<'l> {
    pub origin: &'l Origin,
    pub digest: &'l mut Context,
    pub files: &'l mut Files,
    pub problems: &'l mut Vec<LoadProblem>,
}

/// Revocation is checked as the site says; a list that is missing or out of date refuses, as
/// OpenSSL has it.
pub fn load(
    site: &SiteTls,
    provider: &Arc<CryptoProvider>,
    loading: &mut Loading<'_>,
) -> Option<Verifier> {
    let demand = site.client_certificates;
    let lenience = match demand {
        ClientCertificates::OptionalNoAuthority => Lenience::UnknownIssuer,
        ClientCertificates::Asked => Lenience::Disregard,
        _ => Lenience::Strict,
    };
    let mut authorities =
        loading.authorities(AUTHORITY, &site.client_ca, &site.client_checks.ca_folder)?;
    let quiet = loading.authorities(AUTHORITY, &site.client_checks.quiet_ca, &None)?;
    let told = authorities.clone();
    authorities.extend(quiet);
    if authorities.is_empty() && lenience == Lenience::Strict {
        let problem =
            "client certificates are asked for, and no authority to check them against is named";
        loading.problems.push(
            LoadProblem::error(loading.origin.clone(), problem.into())
                .with_help("name a file with `client-ca`"),
        );
        return None;
    }
    let named = loading.authorities(
        HINT,
        &site.client_checks.hint_file,
        &site.client_checks.hint_folder,
    )?;
    let shown = if named.is_empty() { &told } else { &named };
    let names = |all: &[CertificateDer<'static>]| {
        all.iter()
            .filter_map(|one| Names::of(one))
            .collect::<Vec<_>>()
    };
    let hints = names(shown)
        .into_iter()
        .map(|names| DistinguishedName::from(names.subject.clone()))
        .collect();
    let (strict, lists) = match authorities.is_empty() {
        true => (None, None),
        false => {
            let (strict, lists) = strict(site, &authorities, provider, loading)?;
            (Some(strict), lists)
        }
    };
    Some(Verifier {
        strict,
        provider: Arc::clone(provider),
        hints,
        mandatory: demand == ClientCertificates::Required,
        lenience,
        depth_max: site.client_checks.depth_max,
        authorities: names(&authorities),
        trusted: authorities,
        lists,
    })
}

fn strict(
    site: &SiteTls,
    authorities: &[CertificateDer<'static>],
    provider: &Arc<CryptoProvider>,
    loading: &mut Loading<'_>,
) -> Option<(Arc<dyn ClientCertVerifier>, Option<Lists>)> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        if let Err(error) = roots.add(authority.clone()) {
            loading.complain(format!("an authority can't be used: {error}"));
            return None;
        }
    }
    let (mut ders, mut own) = (Vec::new(), Vec::new());
    if site.client_checks.revocation != Revocation::Off {
        for path in site.client_crl.iter().cloned().chain(hashed(
            &site.client_checks.crl_folder,
            "r",
            loading,
        )?) {
            for der in loading.revocation_lists(&path)? {
                let list = loading.own_list(&path, &der, authorities, provider)?;
                ders.extend((!list.is_version_1()).then_some(der));
                own.push(list);
            }
        }
    }
    let has_version_1 = own.iter().any(List::is_version_1);
    let mut builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    if !ders.is_empty() {
        builder = builder.with_crls(ders).enforce_revocation_expiration();
        if matches!(site.client_checks.revocation, Revocation::Leaf { .. }) {
            builder = builder.only_check_end_entity_revocation();
        }
        // Of what its lists do not tell, those of version 1 do.
        if site.client_checks.revocation.takes_unlisted() || has_version_1 {
            builder = builder.allow_unknown_revocation_status();
        }
    }
    let built = builder.build();
    let built = built
        .map_err(|error| loading.complain(format!("client certificates can't be checked: {error}")))
        .ok()?;
    let lists = Lists {
        lists: own,
        revocation: site.client_checks.revocation,
    };
    Some((built, Some(lists).filter(|lists| !lists.lists.is_empty())))
}

impl Loading<'_> {
    fn complain(&mut self, problem: String) {
        self.problems
            .push(LoadProblem::error(self.origin.clone(), problem));
    }

    /// Reads the authorities of a file and of a folder's files. `None` if one is unusable.
    fn authorities(
        &mut self,
        part: u8,
        file: &Option<PathBuf>,
        folder: &Option<PathBuf>,
    ) -> Option<Vec<CertificateDer<'static>>> {
        let mut all = Vec::new();
        for path in file.iter().cloned().chain(hashed(folder, "", self)?) {
            let pem = self
                .files
                .read(&path, self.origin, "authorities", self.problems)?;
            let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
            let read = match read {
                Ok(read) => read,
                Err(error) => {
                    self.complain(format!(
                        "{} has an authority that can't be used: {error}",
                        path.display()
                    ));
                    return None;
                }
            };
            if read.is_empty() {
                let problem = LoadProblem::error(
                    self.origin.clone(),
                    format!("{} has no certificates", path.display()),
                );
                self.problems
                    .push(problem.with_help("authorities are given in PEM"));
                return None;
            }
            read.iter()
                .for_each(|certificate| add_part(self.digest, part, certificate));
            all.extend(read);
        }
        Some(all)
    }

    /// `None`: it can't be used.
    fn own_list(
        &mut self,
        path: &Path,
        der: &[u8],
        authorities: &[CertificateDer<'_>],
        provider: &CryptoProvider,
    ) -> Option<List> {
        let Some(list) = List::parse(der, authorities, provider) else {
            self.complain(format!(
                "{} has a revocation list that is not understood",
                path.display()
            ));
            return None;
        };
        if list.is_version_1() && !list.is_signed() {
            let problem = format!(
                "the revocation list in {} is not signed by the authority that it names",
                path.display()
            );
            let help = "list and authority belong together; signatures with MD5 and SHA-1 are not checked any more";
            self.problems
                .push(LoadProblem::error(self.origin.clone(), problem).with_help(help));
            return None;
        }
        Some(list)
    }

    fn revocation_lists(
        &mut self,
        path: &Path,
    ) -> Option<Vec<CertificateRevocationListDer<'static>>> {
        let pem = self
            .files
            .read(path, self.origin, "revocation lists", self.problems)?;
        let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&pem).collect();
        let Some(lists) = lists.ok().filter(|lists| !lists.is_empty()) else {
            self.complain(format!("{} has no revocation lists in PEM", path.display()));
            return None;
        };
        for list in &lists {
            add_part(self.digest, REVOCATION_LIST, list);
            if der::revocation_list_next_update(list).is_some_and(|until| until < unix_time::now())
            {
                let problem = format!(
                    "{} is out of date: client certificates of its authority are refused",
                    path.display()
                );
                self.problems
                    .push(LoadProblem::warning(self.origin.clone(), problem));
            }
        }
        Some(lists)
    }
}

/// The files of a folder that OpenSSL would look at: named by a hash, a dot, `kind`, and a number,
/// as `c_rehash` makes them.
fn hashed(folder: &Option<PathBuf>, kind: &str, loading: &mut Loading<'_>) -> Option<Vec<PathBuf>> {
    let Some(folder) = folder else {
        return Some(Vec::new());
    };
    let names = match saker_net::privileged::list(folder) {
        Ok(names) => names,
        Err(error) => {
            loading.complain(format!("{} can't be read: {error}", folder.display()));
            return None;
        }
    };
    let is_hashed = |path: &PathBuf| {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let number = name.split_once('.').filter(|(hash, _)| {
            hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        let number = number
            .and_then(|(_, end)| end.strip_prefix(kind))
            .unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let mut paths: Vec<PathBuf> = names
        .into_iter()
        .map(|name| folder.join(name))
        .filter(is_hashed)
        .collect();
    paths.sort();
    Some(paths)
}
