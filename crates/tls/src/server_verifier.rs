//! Whether the server at the other end is the one that was meant: who vouches for it, its name, its
//! time.
//!
//! rustls' verifier (webpki) judges where an authority has to vouch. Around it stands what mod_ssl
//! lets an operator turn off one by one: the authority (SSLProxyVerify), the name
//! (SSLProxyCheckPeerName), the time (SSLProxyCheckPeerExpire). That the server owns the key of the
//! certificate is checked in any case. Difficulty: webpki reads names of the extension only, while
//! certificates of a house's own authority often have none but the common name.

use crate::{
    der::{self, CertificateFacts},
    version1,
};
use rustls::{
    CertificateError, DigitallySignedStruct, Error, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use std::{sync::Arc, time::Duration};

const UPSTREAM_VERSION_1: &str = "the upstream's certificate is of X.509 version 1, which can't be checked against an authority: \
                                  make one of version 3 (openssl x509 -extfile …), or do not verify it";

#[derive(Debug)]
pub struct ServerVerifier {
    /// `None`: anybody's word will do.
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
    checks_name: bool,
    checks_time: bool,
}

impl ServerVerifier {
    pub fn new(
        chain: Option<Arc<WebPkiServerVerifier>>,
        provider: Arc<CryptoProvider>,
        checks_name: bool,
        checks_time: bool,
    ) -> ServerVerifier {
        ServerVerifier {
            chain,
            provider,
            checks_name,
            checks_time,
        }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let facts = der::certificate(certificate)
            .ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
        if let Some(chain) = &self.chain {
            let at = if self.checks_time {
                now
            } else {
                within(&facts, now)
            };
            match chain.verify_server_cert(certificate, others, name, ocsp, at) {
                // The last that it looks at, and looked at again below.
                Ok(_) | Err(Error::InvalidCertificate(CertificateError::NotValidForName)) => {}
                Err(Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                    ..
                })) => {}
                Err(_) if version1::is_version_1(certificate) => {
                    return Err(Error::General(UPSTREAM_VERSION_1.into()));
                }
                Err(error) => return Err(version1::named(error)),
            }
        }
        if self.checks_time {
            check_time(&facts, now)?;
        }
        if self.checks_name {
            check_name(certificate, &facts, name)?;
        }
        Ok(ServerCertVerified::assertion())
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

/// The time nearest to now at which the certificate was good.
fn within(facts: &CertificateFacts, now: UnixTime) -> UnixTime {
    let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let at = now_s.min(facts.not_after).max(facts.not_before);
    UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(at).unwrap_or(0)))
}

fn check_time(facts: &CertificateFacts, now: UnixTime) -> Result<(), Error> {
    let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
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

/// RFC 9525; a certificate without names of its own goes by its common name, as with mod_ssl.
fn check_name(
    certificate: &CertificateDer<'_>,
    facts: &CertificateFacts,
    name: &ServerName<'_>,
) -> Result<(), Error> {
    let refused = Error::InvalidCertificate(CertificateError::NotValidForName);
    if facts.dns_names.is_empty() && facts.addresses.is_empty() {
        let own = der::common_name(&facts.subject).unwrap_or_default();
        return if is_called(&own, &name.to_str()) {
            Ok(())
        } else {
            Err(refused)
        };
    }
    verify_server_name(&ParsedCertificate::try_from(certificate)?, name)
}

/// RFC 9525 section 6.3: a star stands for one whole label, the first.
fn is_called(own: &str, name: &str) -> bool {
    match own.strip_prefix("*.") {
        Some(parent) => name
            .split_once('.')
            .is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(parent)),
        None => own.eq_ignore_ascii_case(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_names() {
        assert!(is_called("a.example", "A.example") && is_called("*.example", "a.example"));
        for (own, name) in [
            ("a.example", "b.example"),
            ("*.example", "a.b.example"),
            ("*.example", "example"),
            ("", "a"),
        ] {
            assert!(!is_called(own, name), "{own} {name}");
        }
    }

    #[test]
    fn the_nearest_time() {
        let facts = CertificateFacts {
            not_before: 100,
            not_after: 200,
            issuer: Vec::new(),
            subject: Vec::new(),
            dns_names: Vec::new(),
            addresses: Vec::new(),
        };
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        assert_eq!(
            [50, 150, 250].map(|now| within(&facts, at(now)).as_secs()),
            [100, 150, 200]
        );
        assert_eq!(
            [99, 100, 200, 201].map(|now| check_time(&facts, at(now)).is_ok()),
            [false, true, true, false]
        );
    }
}
