//! Policy for certificates of upstreams: authority, name, and time.
//!
//! rustls' verifier (webpki) decides where a trusted authority is required. Around it stands what
//! mod_ssl lets an operator turn off one by one: the authority (SSLProxyVerify), the name
//! (SSLProxyCheckPeerName), the time (SSLProxyCheckPeerExpire). Possession of the certificate's key
//! is checked in any case.
//!
//! Caveat: webpki reads names of the extension only, while certificates of an organization's own
//! authority often have none but the common name.

use crate::{
    chain_depth::{Names, depth},
    der::{self, CertificateFacts},
    unfollowed::{self, Purpose},
    upstream_revocation::OldLists,
    version1,
};
use rustls::{
    CertificateError, DigitallySignedStruct, Error,
    client::{WebPkiServerVerifier, danger::HandshakeSignatureValid, verify_server_name},
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use saker_tls_verifier::{CertificatePolicy, Presented};
use std::{sync::Arc, time::Duration};

const CHAIN_TOO_LONG: &str = "the upstream's certificate chain is longer than allowed";

/// Authorities, whole, and the algorithms for their signatures.
pub type Trusted = (Vec<CertificateDer<'static>>, Arc<CryptoProvider>);

#[derive(Debug)]
pub struct UpstreamPolicy {
    /// `None` if any authority is accepted.
    pub chain: Option<Arc<WebPkiServerVerifier>>,
    /// The authorities, whole, for what webpki does not follow; `None` where lists are in force that
    /// it alone reads.
    pub trusted: Option<Trusted>,
    /// Lists that `chain` does not know.
    pub old_lists: Option<OldLists>,
    pub checks_name: bool,
    pub checks_time: bool,
    /// The longest chain, and the authorities that it is counted to.
    pub depth_max: Option<(u32, Vec<Names>)>,
}

impl UpstreamPolicy {
    /// Checks what webpki does not: see `unfollowed`. `None`: its own error counts.
    fn unfollowed(&self, presented: &Presented<'_>, at: UnixTime) -> Option<Result<(), Error>> {
        let (trusted, provider) = self.trusted.as_ref()?;
        let now_s = i64::try_from(at.as_secs()).unwrap_or(i64::MAX);
        let (certificate, between) = (presented.certificate, presented.intermediates);
        if unfollowed::is_trusted_itself(certificate, trusted, Purpose::Server, now_s) {
            return Some(Ok(()));
        }
        version1::is_version_1(certificate).then(|| {
            let about = (Purpose::Server, now_s);
            unfollowed::verify_version_1(certificate, between, trusted, provider, about)
        })
    }
}

impl CertificatePolicy for UpstreamPolicy {
    fn check(&self, presented: &Presented<'_>) -> Result<(), Error> {
        let (certificate, now) = (presented.certificate, presented.now);
        let facts = der::certificate(certificate)
            .ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))?;
        if let Some(chain) = &self.chain {
            let at = if self.checks_time {
                now
            } else {
                within(&facts, now)
            };
            // The name is checked below.
            match presented.verify_chain(chain, at) {
                Ok(_) => {}
                Err(error) => self
                    .unfollowed(presented, at)
                    .unwrap_or(Err(version1::named(error)))?,
            }
            self.old_lists
                .as_ref()
                .map_or(Ok(()), |lists| lists.check(presented))?;
            if let Some((max, authorities)) = &self.depth_max
                && depth(authorities, certificate, presented.intermediates) > *max
            {
                return Err(Error::General(CHAIN_TOO_LONG.into()));
            }
        }
        if self.checks_time {
            check_time(&facts, now)?;
        }
        if self.checks_name {
            check_name(certificate, &facts, presented.name)?;
        }
        Ok(())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
        provider: &CryptoProvider,
    ) -> Result<HandshakeSignatureValid, Error> {
        version1::verify_handshake_tls12(message, certificate, signed, provider)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
        provider: &CryptoProvider,
    ) -> Result<HandshakeSignatureValid, Error> {
        version1::verify_handshake_tls13(message, certificate, signed, provider)
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
