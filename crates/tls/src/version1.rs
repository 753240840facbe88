//! Certificates of X.509 version 1, which have no extensions: `openssl x509 -req` made them for
//! decades where no extension file was named.
//!
//! Called by: the verifiers of clients and upstreams, and the loading of certificates, where
//! webpki, which reads version 3 only, can't help. Caveat: without extensions nothing says whether
//! a certificate is an authority's, so one of version 1 is never taken as a link of a chain. Only
//! an authority that the operator has named may have signed it. Out of scope: authorities of
//! version 1 that the operator names; webpki takes those.

use crate::der::{Der, INTEGER, SEQUENCE};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, PeerMisbehaved,
    client::danger::HandshakeSignatureValid,
    crypto::{
        CryptoProvider, verify_tls12_signature, verify_tls13_signature,
        verify_tls13_signature_with_raw_key,
    },
    pki_types::{CertificateDer, SubjectPublicKeyInfoDer},
};

const BIT_STRING: u8 = 0x03;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// `id-ce-nameConstraints`, 2.5.29.30.
const NAME_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x1e];

/// A certificate or a revocation list, taken apart as far as its signature goes (RFC 5280 sections
/// 4.1 and 5.1).
pub struct Signed<'a> {
    /// Signed bytes, with their DER header.
    message: &'a [u8],
    /// The content of the `AlgorithmIdentifier`.
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Signed<'a> {
    pub fn parse(der: &'a [u8]) -> Option<Signed<'a>> {
        let mut fields = Der(Der(der).expect(SEQUENCE)?);
        let message = fields.raw()?;
        let algorithm = fields.expect(SEQUENCE)?;
        let signature = bits(fields.expect(BIT_STRING)?)?;
        Some(Signed {
            message,
            algorithm,
            signature,
        })
    }

    /// Returns `true` if the owner of this key (a `SubjectPublicKeyInfo`) has signed it, with an
    /// algorithm that is good enough today.
    pub fn is_by(&self, public_key: &[u8], provider: &CryptoProvider) -> bool {
        let Some((kind, key)) = key_parts(public_key) else {
            return false;
        };
        let known = provider.signature_verification_algorithms.all.iter();
        let mut fitting = known.filter(|known| {
            known.signature_alg_id().as_ref() == self.algorithm
                && known.public_key_alg_id().as_ref() == kind
        });
        fitting.any(|known| {
            known
                .verify_signature(key, self.message, self.signature)
                .is_ok()
        })
    }
}

/// Parts of a `SubjectPublicKeyInfo`: the content of its algorithm, and the key.
fn key_parts(public_key: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut fields = Der(Der(public_key).expect(SEQUENCE)?);
    Some((fields.expect(SEQUENCE)?, bits(fields.expect(BIT_STRING)?)?))
}

/// Whole bytes only.
fn bits(content: &[u8]) -> Option<&[u8]> {
    content
        .split_first()
        .filter(|(unused, _)| **unused == 0)
        .map(|(_, bytes)| bytes)
}

/// The fields of a certificate from its serial number on, and whether it is of version 1.
fn fields(certificate: &[u8]) -> Option<(Der<'_>, bool)> {
    let mut fields = Der(Der(Der(certificate).expect(SEQUENCE)?).expect(SEQUENCE)?);
    // DER leaves the default out; some write it all the same.
    let version = fields.optional(VERSION);
    let is_first = version.is_none_or(|version| Der(version).expect(INTEGER) == Some(&[0]));
    Some((fields, is_first))
}

pub fn is_version_1(certificate: &[u8]) -> bool {
    fields(certificate).is_some_and(|(_, is_first)| is_first)
}

/// Without zeros before it.
pub fn serial(certificate: &[u8]) -> Option<&[u8]> {
    Some(without_zeros(fields(certificate)?.0.expect(INTEGER)?))
}

pub fn without_zeros(number: &[u8]) -> &[u8] {
    number
        .iter()
        .position(|byte| *byte != 0)
        .and_then(|at| number.get(at..))
        .unwrap_or_default()
}

/// The `SubjectPublicKeyInfo` of a certificate, with its head.
pub fn public_key(certificate: &[u8]) -> Option<&[u8]> {
    let mut fields = fields(certificate)?.0;
    fields.expect(INTEGER)?;
    // Algorithm, issuer, validity, subject.
    (0..4).try_for_each(|_| fields.expect(SEQUENCE).map(|_| ()))?;
    fields.raw()
}

/// Returns true if the authority limits the names below it, which is not checked here.
pub fn has_name_constraints(certificate: &[u8]) -> Option<bool> {
    let mut fields = fields(certificate)?.0;
    while !fields.0.is_empty() {
        let (tag, content) = fields.next()?;
        if tag != EXTENSIONS {
            continue;
        }
        let mut extensions = Der(Der(content).expect(SEQUENCE)?);
        while !extensions.0.is_empty() {
            if Der(extensions.expect(SEQUENCE)?).next()?.1 == NAME_CONSTRAINTS {
                return Some(true);
            }
        }
    }
    Some(false)
}

/// Checks a client's certificate of version 1: its time, and that one of these authorities has
/// signed it itself.
///
/// # Errors
/// Those that webpki has for certificates of version 3; one by an authority in between is told
/// apart in words.
pub fn verify(
    certificate: &[u8],
    authorities: &[CertificateDer<'_>],
    provider: &CryptoProvider,
    now_s: i64,
) -> Result<(), Error> {
    let bad = Error::InvalidCertificate(CertificateError::BadEncoding);
    let Some((facts, signed)) =
        crate::der::certificate(certificate).zip(Signed::parse(certificate))
    else {
        return Err(bad);
    };
    let is_named = |authority: &&CertificateDer<'_>| {
        crate::der::certificate(authority)
            .is_some_and(|authority| authority.subject == facts.issuer)
    };
    let has_signed = |authority: &CertificateDer<'_>| {
        public_key(authority).is_some_and(|key| signed.is_by(key, provider))
    };
    let mut named = authorities.iter().filter(is_named).peekable();
    if named.peek().is_none() {
        return Err(Error::InvalidCertificate(CertificateError::UnknownIssuer));
    }
    let Some(authority) = named.find(|authority| has_signed(authority)) else {
        return Err(Error::InvalidCertificate(CertificateError::BadSignature));
    };
    if has_name_constraints(authority) != Some(false) {
        let problem = "a certificate of X.509 version 1 can't be checked against the name constraints of its authority";
        return Err(Error::General(problem.into()));
    }
    match now_s {
        now_s if now_s < facts.not_before => {
            Err(Error::InvalidCertificate(CertificateError::NotValidYet))
        }
        now_s if now_s > facts.not_after => {
            Err(Error::InvalidCertificate(CertificateError::Expired))
        }
        _ => Ok(()),
    }
}

/// webpki's refusal of a link of version 1, in words.
pub fn named(error: Error) -> Error {
    match &error {
        Error::InvalidCertificate(CertificateError::Other(other)) if other.to_string().contains("UnsupportedCertVersion") => {
            Error::General("the chain has a certificate of X.509 version 1 that is to vouch for another: nothing says that it may".into())
        }
        _ => error,
    }
}

/// As rustls' function of this name, of version 1 as well.
pub fn verify_handshake_tls12(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    provider: &CryptoProvider,
) -> Result<HandshakeSignatureValid, Error> {
    let algorithms = &provider.signature_verification_algorithms;
    if !is_version_1(certificate) {
        return verify_tls12_signature(message, certificate, signed, algorithms);
    }
    let (kind, key) = public_key(certificate)
        .and_then(key_parts)
        .ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
    let fitting = algorithms
        .mapping
        .iter()
        .filter(|(scheme, _)| *scheme == signed.scheme)
        .flat_map(|(_, all)| all.iter());
    let mut fitting = fitting
        .filter(|known| known.public_key_alg_id().as_ref() == kind)
        .peekable();
    if fitting.peek().is_none() {
        return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
    }
    match fitting.any(|known| {
        known
            .verify_signature(key, message, signed.signature())
            .is_ok()
    }) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(Error::InvalidCertificate(CertificateError::BadSignature)),
    }
}

/// As rustls' function of this name, of version 1 as well.
pub fn verify_handshake_tls13(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    provider: &CryptoProvider,
) -> Result<HandshakeSignatureValid, Error> {
    let algorithms = &provider.signature_verification_algorithms;
    if !is_version_1(certificate) {
        return verify_tls13_signature(message, certificate, signed, algorithms);
    }
    let key =
        public_key(certificate).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
    verify_tls13_signature_with_raw_key(
        message,
        &SubjectPublicKeyInfoDer::from(key),
        signed,
        algorithms,
    )
}
