//! Verification of the certificates that servers present to us, behind rustls' trait.
//!
//! Called by: every TLS client of ours (upstreams, LDAP directories, test clients). Each has a
//! [`CertificatePolicy`] of its own; signatures and the list of schemes are the same for all.
//! Caveat: a policy decides about the certificate only. The server always has to prove possession
//! of the certificate's key, even if the policy accepts any certificate.
//! Out of scope: authorities and names that a policy trusts, certificates of clients.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

use rustls::{
    CertificateError, DigitallySignedStruct, Error, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{self, CryptoProvider},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use std::{fmt, sync::Arc};

/// Decides about the certificate of a server.
pub trait CertificatePolicy: fmt::Debug + Send + Sync {
    /// Checks the certificate, before the server has proved possession of its key.
    ///
    /// # Errors
    /// The reason for which the handshake ends.
    fn check(&self, presented: &Presented<'_>) -> Result<(), Error>;

    /// Verifies the server's signature in a TLS 1.2 handshake.
    ///
    /// # Errors
    /// The signature is not valid, or the certificate's key is not supported.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
        provider: &CryptoProvider,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &provider.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    /// Verifies the server's signature in a TLS 1.3 handshake.
    ///
    /// # Errors
    /// The signature is not valid, or the certificate's key is not supported.
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
        provider: &CryptoProvider,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &provider.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }
}

/// Certificate of a server, and the circumstances under which it was presented.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    pub certificate: &'a CertificateDer<'a>,
    pub intermediates: &'a [CertificateDer<'a>],
    /// Name or address of the server that we meant to reach.
    pub name: &'a ServerName<'a>,
    /// Stapled response; empty if there is none.
    pub ocsp_response: &'a [u8],
    pub now: UnixTime,
}

/// Result of a chain check: the certificate was issued by a trusted authority.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainVerified {
    /// Set if the certificate is for another name.
    pub name_error: Option<Error>,
}

impl Presented<'_> {
    /// Verifies the path to a trusted authority at the time `at`. A certificate for another name
    /// passes with a `name_error`.
    ///
    /// # Errors
    /// webpki's reason for rejecting the certificate.
    pub fn verify_chain(
        &self,
        verifier: &WebPkiServerVerifier,
        at: UnixTime,
    ) -> Result<ChainVerified, Error> {
        let verified = verifier.verify_server_cert(
            self.certificate,
            self.intermediates,
            self.name,
            self.ocsp_response,
            at,
        );
        match verified {
            Ok(_) => Ok(ChainVerified { name_error: None }),
            // webpki checks the name last, so everything else is good.
            Err(Error::InvalidCertificate(
                error @ (CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. }),
            )) => Ok(ChainVerified {
                name_error: Some(Error::InvalidCertificate(error)),
            }),
            Err(error) => Err(error),
        }
    }
}

/// rustls' verifier for a policy.
#[derive(Debug)]
pub struct ServerVerifier<P> {
    policy: P,
    provider: Arc<CryptoProvider>,
}

impl<P: CertificatePolicy> ServerVerifier<P> {
    /// Verifier to pass to `with_custom_certificate_verifier`. `provider`: the configuration's.
    pub fn new(policy: P, provider: Arc<CryptoProvider>) -> Arc<ServerVerifier<P>> {
        Arc::new(ServerVerifier { policy, provider })
    }
}

impl<P: CertificatePolicy> ServerCertVerifier for ServerVerifier<P> {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.policy.check(&Presented {
            certificate,
            intermediates,
            name,
            ocsp_response,
            now,
        })?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.policy
            .verify_tls12_signature(message, certificate, signed, &self.provider)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.policy
            .verify_tls13_signature(message, certificate, signed, &self.provider)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};
    use rustls::{RootCertStore, crypto::aws_lc_rs};

    /// Accepts certificates of one authority, for the right name.
    #[derive(Debug)]
    struct OneAuthority(Arc<WebPkiServerVerifier>);

    impl CertificatePolicy for OneAuthority {
        fn check(&self, presented: &Presented<'_>) -> Result<(), Error> {
            let verified = presented.verify_chain(&self.0, presented.now)?;
            verified.name_error.map_or(Ok(()), Err)
        }
    }

    fn self_signed(name: &str) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn chain_and_name_are_told_apart() {
        let (trusted, foreign) = (self_signed("a.example"), self_signed("a.example"));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        let builder = WebPkiServerVerifier::builder_with_provider(
            Arc::new(roots),
            Arc::<CryptoProvider>::clone(&provider),
        );
        let chain = builder.build().unwrap();
        let verifier = ServerVerifier::new(OneAuthority(Arc::clone(&chain)), provider);
        let outcome = |certificate: &CertificateDer<'_>, name: &'static str| {
            let name = ServerName::try_from(name).unwrap();
            let now = UnixTime::now();
            let presented = Presented {
                certificate,
                intermediates: &[],
                name: &name,
                ocsp_response: &[],
                now,
            };
            let name_error = presented.verify_chain(&chain, now).map(|it| it.name_error);
            let verified = verifier.verify_server_cert(certificate, &[], &name, &[], now);
            assert_eq!(verified.is_ok(), name_error == Ok(None));
            name_error
        };
        assert_eq!(outcome(&trusted, "a.example"), Ok(None));
        assert!(matches!(
            outcome(&trusted, "b.example"),
            Ok(Some(Error::InvalidCertificate(_)))
        ));
        assert!(outcome(&foreign, "a.example").is_err());
        assert!(outcome(&foreign, "b.example").is_err());
    }
}
