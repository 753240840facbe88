//! Cipher suites and key exchange groups: the model's words for rustls' values, and their order.
//!
//! AES-128-GCM comes first: it is the cheapest where the processor has AES. A client that puts
//! ChaCha20 first has no such processor and gets what it asks for, unless the configuration names
//! ciphers. Absent on purpose: suites without forward secrecy and CBC.

use rustls::{
    SupportedCipherSuite,
    crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs},
};
use saker_config::model::{CipherSuite, Group};

const DEFAULT_CIPHERS: [CipherSuite; 9] = [
    CipherSuite::Tls13Aes128Gcm,
    CipherSuite::Tls13Aes256Gcm,
    CipherSuite::Tls13ChaCha20,
    CipherSuite::EcdheEcdsaAes128Gcm,
    CipherSuite::EcdheRsaAes128Gcm,
    CipherSuite::EcdheEcdsaAes256Gcm,
    CipherSuite::EcdheRsaAes256Gcm,
    CipherSuite::EcdheEcdsaChaCha20,
    CipherSuite::EcdheRsaChaCha20,
];

const DEFAULT_GROUPS: [Group; 4] = [
    Group::X25519MlKem768,
    Group::X25519,
    Group::Secp256r1,
    Group::Secp384r1,
];

/// Empty lists stand for the default ones.
pub fn provider(ciphers: &[CipherSuite], groups: &[Group]) -> CryptoProvider {
    let ciphers = if ciphers.is_empty() {
        &DEFAULT_CIPHERS
    } else {
        ciphers
    };
    CryptoProvider {
        cipher_suites: ciphers.iter().copied().map(suite).collect(),
        kx_groups: groups_or_default(groups)
            .iter()
            .copied()
            .map(group)
            .collect(),
        ..aws_lc_rs::default_provider()
    }
}

pub fn groups_or_default(groups: &[Group]) -> &[Group] {
    if groups.is_empty() {
        &DEFAULT_GROUPS
    } else {
        groups
    }
}

fn suite(suite: CipherSuite) -> SupportedCipherSuite {
    use aws_lc_rs::cipher_suite as its;
    match suite {
        CipherSuite::Tls13Aes128Gcm => its::TLS13_AES_128_GCM_SHA256,
        CipherSuite::Tls13Aes256Gcm => its::TLS13_AES_256_GCM_SHA384,
        CipherSuite::Tls13ChaCha20 => its::TLS13_CHACHA20_POLY1305_SHA256,
        CipherSuite::EcdheEcdsaAes128Gcm => its::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::EcdheEcdsaAes256Gcm => its::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::EcdheEcdsaChaCha20 => its::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        CipherSuite::EcdheRsaAes128Gcm => its::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::EcdheRsaAes256Gcm => its::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::EcdheRsaChaCha20 => its::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    }
}

fn group(group: Group) -> &'static dyn SupportedKxGroup {
    match group {
        Group::X25519MlKem768 => aws_lc_rs::kx_group::X25519MLKEM768,
        Group::X25519 => aws_lc_rs::kx_group::X25519,
        Group::Secp256r1 => aws_lc_rs::kx_group::SECP256R1,
        Group::Secp384r1 => aws_lc_rs::kx_group::SECP384R1,
    }
}

/// Named group code points (RFC 8446 section 4.2.7 and its registry).
pub fn group_code(group: Group) -> u16 {
    match group {
        Group::X25519MlKem768 => 0x11ec,
        Group::X25519 => 0x001d,
        Group::Secp256r1 => 0x0017,
        Group::Secp384r1 => 0x0018,
    }
}

/// The IANA name and OpenSSL's, which Apache's logs and `SSL_CIPHER` use.
pub fn suite_names(suite: rustls::CipherSuite) -> (&'static str, &'static str) {
    use rustls::CipherSuite as Of;
    match suite {
        Of::TLS13_AES_128_GCM_SHA256 => ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
        Of::TLS13_AES_256_GCM_SHA384 => ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
        Of::TLS13_CHACHA20_POLY1305_SHA256 => (
            "TLS_CHACHA20_POLY1305_SHA256",
            "TLS_CHACHA20_POLY1305_SHA256",
        ),
        Of::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => (
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ),
        Of::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => (
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
        ),
        Of::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => (
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
        ),
        Of::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => (
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            "ECDHE-RSA-AES128-GCM-SHA256",
        ),
        Of::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => (
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            "ECDHE-RSA-AES256-GCM-SHA384",
        ),
        Of::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => (
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            "ECDHE-RSA-CHACHA20-POLY1305",
        ),
        _ => ("unknown", "unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_and_group_is_what_it_says() {
        let all = provider(&[], &[]);
        assert_eq!(all.cipher_suites.len(), 9);
        for suite in &all.cipher_suites {
            assert_ne!(suite_names(suite.suite()).0, "unknown");
        }
        for group in DEFAULT_GROUPS {
            assert_eq!(u16::from(super::group(group).name()), group_code(group));
        }
    }

    #[test]
    fn a_choice_keeps_its_order() {
        let chosen = provider(
            &[CipherSuite::Tls13ChaCha20, CipherSuite::EcdheRsaAes128Gcm],
            &[Group::Secp384r1, Group::X25519],
        );
        let names: Vec<_> = chosen
            .cipher_suites
            .iter()
            .map(|suite| suite_names(suite.suite()).1)
            .collect();
        assert_eq!(
            names,
            [
                "TLS_CHACHA20_POLY1305_SHA256",
                "ECDHE-RSA-AES128-GCM-SHA256"
            ]
        );
        let groups: Vec<_> = chosen
            .kx_groups
            .iter()
            .map(|group| u16::from(group.name()))
            .collect();
        assert_eq!(groups, [0x18, 0x1d]);
    }
}
