//! Parameters that a handshake agreed on.

use crate::{
    client_hello::canonical_name,
    client_verification::{ClientVerification, Judged},
    offered::Offered,
    policy::{Policy, PolicyDigest},
    provider::suite_names,
};
use rustls::{
    CipherSuite, HandshakeKind, NamedGroup, ProtocolVersion, pki_types::CertificateDer,
    server::UnbufferedServerConnection, sign::CertifiedKey,
};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Tls12,
    Tls13,
}

impl Version {
    /// As logs and `SSL_PROTOCOL` write it.
    pub fn name(self) -> &'static str {
        match self {
            Version::Tls12 => "TLSv1.2",
            Version::Tls13 => "TLSv1.3",
        }
    }
}

#[derive(Clone, Debug)]
pub struct SessionInfo {
    /// In lower case, without a dot at its end.
    pub server_name: Option<String>,
    pub alpn: Option<Vec<u8>>,
    pub version: Version,
    /// IANA's name.
    pub cipher: &'static str,
    pub cipher_openssl: &'static str,
    /// Key exchange; of a session resumed under TLS 1.2 there is none.
    pub group: Option<&'static str>,
    pub resumed: bool,
    /// The client had to say hello twice.
    pub retried: bool,
    /// Leaf first, DER; checked against the site's authorities (see the next). Empty: the client
    /// showed none.
    pub client_certificates: Vec<CertificateDer<'static>>,
    pub client_verification: ClientVerification,
    /// Length of the chain to the authority that vouches; 1: it has signed the certificate itself.
    pub client_depth: u32,
    /// Why a certificate that the client has shown counts as none.
    pub client_refusal: Option<Box<str>>,
    /// Requirements that the handshake met; only requests for sites with the same requirements are
    /// served. `None` for an ACME challenge, which serves none.
    pub policy: Option<PolicyDigest>,
    /// Certificate presented to the client.
    pub(crate) shown: Option<Arc<CertifiedKey>>,
    /// Suites and groups that the client offered; not told of QUIC's handshakes.
    pub offered: Option<Box<Offered>>,
}

/// Parameters negotiated by QUIC's handshake.
#[derive(Debug)]
pub struct Agreed {
    pub server_name: Option<String>,
    pub alpn: Option<Vec<u8>>,
    pub suite: CipherSuite,
    pub group: Option<NamedGroup>,
    pub kind: Option<HandshakeKind>,
    pub client_certificates: Vec<CertificateDer<'static>>,
    /// Policy of the configuration that the handshake was made with.
    pub policy: PolicyDigest,
    /// See [`crate::take_shown`].
    pub shown: Option<Arc<CertifiedKey>>,
}

impl SessionInfo {
    /// `None` if the handshake is not over.
    pub(crate) fn new(
        connection: &UnbufferedServerConnection,
        (server_name, offered): (Option<&str>, Offered),
        shown: Option<Arc<CertifiedKey>>,
        policy: Option<&Policy>,
    ) -> Option<SessionInfo> {
        let certificates = connection.peer_certificates().unwrap_or_default().to_vec();
        let (client_certificates, judged) = judged(certificates, policy);
        let (cipher, cipher_openssl) = suite_names(connection.negotiated_cipher_suite()?.suite());
        Some(SessionInfo {
            server_name: server_name.map(str::to_owned),
            alpn: connection.alpn_protocol().map(<[u8]>::to_vec),
            version: match connection.protocol_version()? {
                ProtocolVersion::TLSv1_2 => Version::Tls12,
                _ => Version::Tls13,
            },
            cipher,
            cipher_openssl,
            group: connection
                .negotiated_key_exchange_group()
                .map(|group| group_name(group.name())),
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            retried: connection.handshake_kind() == Some(HandshakeKind::FullWithHelloRetryRequest),
            client_certificates,
            client_verification: judged.verification,
            client_depth: judged.depth,
            client_refusal: judged.refusal,
            policy: policy.map(|policy| policy.digest),
            shown,
            offered: Some(Box::new(offered)),
        })
    }

    /// Converts the result of a handshake made by QUIC, under TLS 1.3. `policy`: the one with the
    /// negotiated digest, if it still exists.
    pub(crate) fn of_quic(agreed: Agreed, policy: Option<&Policy>) -> SessionInfo {
        let (client_certificates, judged) = judged(agreed.client_certificates, policy);
        let (cipher, cipher_openssl) = suite_names(agreed.suite);
        SessionInfo {
            server_name: agreed.server_name.as_deref().map(canonical_name),
            alpn: agreed.alpn,
            version: Version::Tls13,
            cipher,
            cipher_openssl,
            group: agreed.group.map(group_name),
            resumed: agreed.kind == Some(HandshakeKind::Resumed),
            retried: agreed.kind == Some(HandshakeKind::FullWithHelloRetryRequest),
            client_certificates,
            client_verification: judged.verification,
            client_depth: judged.depth,
            client_refusal: judged.refusal,
            policy: Some(agreed.policy),
            shown: agreed.shown,
            offered: None,
        }
    }

    /// The server's own, DER.
    pub fn server_certificate(&self) -> Option<&[u8]> {
        self.shown.as_ref()?.cert.first().map(AsRef::as_ref)
    }
}

/// A certificate that counts as none is not told of: nothing may take its names for the client's.
fn judged(
    certificates: Vec<CertificateDer<'static>>,
    policy: Option<&Policy>,
) -> (Vec<CertificateDer<'static>>, Judged) {
    let judged = policy
        .map(|policy| policy.judged(&certificates))
        .unwrap_or_default();
    let certificates = if judged.verification == ClientVerification::None {
        Vec::new()
    } else {
        certificates
    };
    (certificates, judged)
}

fn group_name(group: NamedGroup) -> &'static str {
    match group {
        NamedGroup::X25519MLKEM768 => "X25519MLKEM768",
        NamedGroup::X25519 => "X25519",
        NamedGroup::secp256r1 => "secp256r1",
        NamedGroup::secp384r1 => "secp384r1",
        _ => "unknown",
    }
}
