//! Chains that webpki does not follow and OpenSSL does: a trusted certificate that signed itself and
//! is presented as it is, and certificates of X.509 version 1, also below authorities in between.
//!
//! Called by: the verifiers of clients and upstreams, for what webpki refuses or does not read.
//! Caveat: everything that is not understood refuses. An authority in between is of version 3, says
//! that it is one, and limits no names; signatures are checked for a bounded number of times,
//! because a peer may send any certificates.
//! Out of scope: revocation, possession of the key, names.

use crate::{
    der::{self, CertificateFacts},
    version1::{self, Signed, has_name_constraints, public_key},
};
use rustls::{CertificateError, Error, crypto::CryptoProvider, pki_types::CertificateDer};
use x509_parser::{
    certificate::X509Certificate,
    extensions::{KeyUsage, ParsedExtension},
    x509::X509Version,
};

/// Authorities between a certificate and a trusted one.
const BETWEEN_MAX: u32 = 6;
/// Signatures checked for one chain.
const SIGNATURES_MAX: u32 = 32;

/// Use of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Client,
    Server,
}

/// Returns true if the certificate is one of the trusted, signed itself, and may be used so now.
pub fn is_trusted_itself(
    certificate: &[u8],
    trusted: &[CertificateDer<'_>],
    purpose: Purpose,
    now_s: i64,
) -> bool {
    if !trusted.iter().any(|one| **one == *certificate) {
        return false;
    }
    let Some((parsed, facts)) = der::parse(certificate).zip(der::certificate(certificate)) else {
        return false;
    };
    let may_sign = |usage: &KeyUsage| {
        usage.digital_signature()
            || usage.key_agreement()
            || purpose == Purpose::Server && usage.key_encipherment()
    };
    facts.subject == facts.issuer
        && is_in_time(&facts, now_s)
        && serves(&parsed, purpose)
        && key_usage(&parsed, may_sign)
}

/// Checks a certificate of version 1: its time, and that a trusted authority has signed it, or one of
/// those in between.
///
/// # Errors
/// Those that webpki has for certificates of version 3.
pub fn verify_version_1(
    certificate: &[u8],
    between: &[CertificateDer<'_>],
    trusted: &[CertificateDer<'_>],
    provider: &CryptoProvider,
    (purpose, now_s): (Purpose, i64),
) -> Result<(), Error> {
    let direct = version1::verify(certificate, trusted, provider, now_s);
    let is_unknown = matches!(
        direct,
        Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
    );
    if !is_unknown || between.is_empty() {
        return direct;
    }
    let facts = der::certificate(certificate)
        .ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
    let mut search = Search {
        between,
        trusted,
        provider,
        purpose,
        now_s,
        signatures_left: SIGNATURES_MAX,
    };
    match now_s {
        _ if !search.reaches_trusted(certificate, 0) => direct,
        now_s if now_s < facts.not_before => {
            Err(Error::InvalidCertificate(CertificateError::NotValidYet))
        }
        now_s if now_s > facts.not_after => {
            Err(Error::InvalidCertificate(CertificateError::Expired))
        }
        _ => Ok(()),
    }
}

/// A search for a path from a certificate to a trusted one.
struct Search<'a> {
    between: &'a [CertificateDer<'a>],
    trusted: &'a [CertificateDer<'a>],
    provider: &'a CryptoProvider,
    purpose: Purpose,
    now_s: i64,
    signatures_left: u32,
}

impl Search<'_> {
    /// `below`: authorities in between, so far.
    fn reaches_trusted(&mut self, certificate: &[u8], below: u32) -> bool {
        let Some((facts, signed)) = der::certificate(certificate).zip(Signed::parse(certificate))
        else {
            return false;
        };
        for authority in self.trusted {
            if has_subject(authority, &facts.issuer)
                && has_name_constraints(authority) == Some(false)
                && self.has_signed(authority, &signed)
            {
                return true;
            }
        }
        if below == BETWEEN_MAX {
            return false;
        }
        for authority in self.between {
            if has_subject(authority, &facts.issuer)
                && vouches(authority, below, self.purpose, self.now_s)
                && self.has_signed(authority, &signed)
                && self.reaches_trusted(authority, below + 1)
            {
                return true;
            }
        }
        false
    }

    fn has_signed(&mut self, authority: &[u8], signed: &Signed<'_>) -> bool {
        let Some(left) = self.signatures_left.checked_sub(1) else {
            return false;
        };
        self.signatures_left = left;
        public_key(authority).is_some_and(|key| signed.is_by(key, self.provider))
    }
}

fn has_subject(certificate: &[u8], subject: &[u8]) -> bool {
    der::certificate(certificate).is_some_and(|facts| facts.subject == subject)
}

fn is_in_time(facts: &CertificateFacts, now_s: i64) -> bool {
    (facts.not_before..=facts.not_after).contains(&now_s)
}

/// Returns true if a certificate is that of an authority which may sign now, with so many others
/// below it (RFC 5280 section 6.1.4).
fn vouches(certificate: &[u8], below: u32, purpose: Purpose, now_s: i64) -> bool {
    let Some((parsed, facts)) = der::parse(certificate).zip(der::certificate(certificate)) else {
        return false;
    };
    let is_authority = match parsed.basic_constraints() {
        Ok(Some(found)) => {
            let fits = |most: u32| most >= below;
            found.value.ca && found.value.path_len_constraint.is_none_or(fits)
        }
        _ => false,
    };
    let is_known = |extension: &ParsedExtension<'_>| {
        matches!(
            extension,
            ParsedExtension::BasicConstraints(_)
                | ParsedExtension::KeyUsage(_)
                | ParsedExtension::ExtendedKeyUsage(_)
                | ParsedExtension::SubjectAlternativeName(_)
        )
    };
    let mut critical = parsed.extensions().iter().filter(|one| one.critical);
    parsed.version == X509Version::V3
        && is_authority
        && matches!(parsed.name_constraints(), Ok(None))
        && critical.all(|one| is_known(one.parsed_extension()))
        && is_in_time(&facts, now_s)
        && serves(&parsed, purpose)
        && key_usage(&parsed, |usage| usage.key_cert_sign())
}

/// Returns true if the extended key usage allows for the purpose, or there is none.
fn serves(certificate: &X509Certificate<'_>, purpose: Purpose) -> bool {
    match certificate.extended_key_usage() {
        Ok(None) => true,
        Ok(Some(found)) => {
            let usage = found.value;
            usage.any
                || match purpose {
                    Purpose::Client => usage.client_auth,
                    Purpose::Server => usage.server_auth,
                }
        }
        Err(_) => false,
    }
}

fn key_usage(certificate: &X509Certificate<'_>, allows: impl Fn(&KeyUsage) -> bool) -> bool {
    match certificate.key_usage() {
        Ok(None) => true,
        Ok(Some(found)) => allows(found.value),
        Err(_) => false,
    }
}
