//! Keys that check signatures of tokens: JWK sets (RFC 7517), PEM files, shared secrets.
//!
//! Called by: the configuration, for files; the access phase, for sets that it has fetched.
//! Caveat: a key has a kind, and an algorithm of another kind is never tried with it. So a public
//! key can't become the secret of an HMAC, which is how tokens are forged where the token's own
//! header chooses (RFC 8725 section 2.1).
//! Out of scope: certificates of keys (`x5c`), encryption, P-521.

use crate::encoding::sha256;
use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse},
};
use serde_json::Value;
use std::{fmt, str::FromStr};

/// Keys of a set; the rest is left out.
const KEYS_MAX: usize = 64;
/// Shortest secret, as long as the output of its hash (RFC 7518 section 3.2).
const SECRET_BYTES_MIN: usize = 32;

/// The names of all algorithms that can be allowed.
pub const ALGORITHMS: [&str; 12] = [
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA", "HS256",
    "HS384", "HS512",
];

/// The algorithm of a name (RFC 7518 section 3.1); `none` is no algorithm.
pub fn algorithm(name: &str) -> Option<Algorithm> {
    Algorithm::from_str(name).ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rsa,
    P256,
    P384,
    Ed25519,
    Secret,
}

impl Kind {
    fn takes(self, algorithm: Algorithm) -> bool {
        match self {
            Kind::Rsa => algorithm.family() == AlgorithmFamily::Rsa,
            Kind::P256 => algorithm == Algorithm::ES256,
            Kind::P384 => algorithm == Algorithm::ES384,
            Kind::Ed25519 => algorithm == Algorithm::EdDSA,
            Kind::Secret => algorithm.family() == AlgorithmFamily::Hmac,
        }
    }
}

#[derive(Clone)]
pub(crate) struct Key {
    id: Option<String>,
    /// The one algorithm that it is for (`alg`).
    algorithm: Option<Algorithm>,
    kind: Kind,
    pub key: DecodingKey,
}

/// Keys of an issuer. Equal if they were read from the same bytes.
#[derive(Clone)]
pub struct KeySet {
    keys: Vec<Key>,
    digest: [u8; 32],
}

/// Without the keys, which may be secrets.
impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySet({} keys)", self.keys.len())
    }
}

impl PartialEq for KeySet {
    fn eq(&self, other: &KeySet) -> bool {
        self.digest == other.digest
    }
}

impl Eq for KeySet {}

impl KeySet {
    /// Reads public keys: a JWK set, one JWK, or PEM.
    ///
    /// # Errors
    /// Why there is no usable key.
    pub fn public(bytes: &[u8]) -> Result<KeySet, String> {
        let is_json = bytes.trim_ascii_start().starts_with(b"{");
        let keys = match is_json {
            true => of_jwks(bytes)?,
            false => of_pem(bytes)?,
        };
        match keys.is_empty() {
            true => Err("it has no public key that can check a signature".into()),
            false => Ok(KeySet {
                keys,
                digest: sha256(bytes),
            }),
        }
    }

    /// Reads a shared secret; a line break at its end does not count.
    ///
    /// # Errors
    /// Why the secret can't be used.
    pub fn secret(bytes: &[u8]) -> Result<KeySet, String> {
        let secret = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let secret = secret.strip_suffix(b"\r").unwrap_or(secret);
        if secret.len() < SECRET_BYTES_MIN {
            return Err(format!(
                "the secret has {} bytes, and needs {SECRET_BYTES_MIN} at least",
                secret.len()
            ));
        }
        if secret.starts_with(b"-----BEGIN") {
            return Err("this is a key in PEM form, not a secret".into());
        }
        Ok(KeySet {
            keys: vec![Key {
                id: None,
                algorithm: None,
                kind: Kind::Secret,
                key: DecodingKey::from_secret(secret),
            }],
            digest: sha256(bytes),
        })
    }

    /// True if the set has a key that the algorithm works with.
    pub fn suits(&self, algorithm: Algorithm) -> bool {
        self.keys.iter().any(|key| key.kind.takes(algorithm))
    }

    /// The keys that may have signed a token with this `alg` and `kid`.
    pub(crate) fn candidates<'k>(
        &'k self,
        algorithm: Algorithm,
        id: Option<&'k str>,
    ) -> impl Iterator<Item = &'k Key> {
        self.keys.iter().filter(move |key| {
            key.kind.takes(algorithm)
                && key.algorithm.is_none_or(|only| only == algorithm)
                && match (id, key.id.as_deref()) {
                    (Some(wanted), Some(id)) => wanted == id,
                    _ => true,
                }
        })
    }
}

fn of_jwks(bytes: &[u8]) -> Result<Vec<Key>, String> {
    let whole: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let list = match whole.get("keys") {
        Some(Value::Array(keys)) => keys.clone(),
        Some(_) => return Err("`keys` is no list".into()),
        None => vec![whole],
    };
    // Keys of unknown kinds are to be ignored (RFC 7517 section 5).
    Ok(list.iter().filter_map(of_jwk).take(KEYS_MAX).collect())
}

fn of_jwk(value: &Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(value.clone()).ok()?;
    let kind = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Kind::Rsa,
        AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
            EllipticCurve::P256 => Kind::P256,
            EllipticCurve::P384 => Kind::P384,
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
            Kind::Ed25519
        }
        // A secret does not belong among public keys.
        _ => return None,
    };
    let common = &jwk.common;
    let is_for_signatures = match (&common.public_key_use, &common.key_operations) {
        (Some(used), _) if *used != PublicKeyUse::Signature => false,
        (_, Some(operations)) => operations.contains(&KeyOperations::Verify),
        _ => true,
    };
    let algorithm = match &common.key_algorithm {
        None => None,
        // One that is not known is not ours to guess.
        Some(name) => Some(algorithm(&name.to_string())?),
    };
    is_for_signatures.then_some(())?;
    Some(Key {
        id: common.key_id.clone(),
        algorithm,
        kind,
        key: DecodingKey::from_jwk(&jwk).ok()?,
    })
}

fn of_pem(bytes: &[u8]) -> Result<Vec<Key>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "neither JSON nor PEM".to_owned())?;
    let mut keys = Vec::new();
    for block in text.split("-----BEGIN ").skip(1).take(KEYS_MAX) {
        let label = block.split("-----").next().unwrap_or_default();
        if label.contains("PRIVATE KEY") {
            return Err("it has a private key: give the public one".into());
        }
        let block = format!("-----BEGIN {block}");
        keys.push(of_pem_block(block.as_bytes()).ok_or_else(|| {
            format!("its block `{label}` is no public key of RSA, P-256, P-384, or Ed25519")
        })?);
    }
    match keys.is_empty() {
        true => Err("neither JSON nor PEM".into()),
        false => Ok(keys),
    }
}

fn of_pem_block(block: &[u8]) -> Option<Key> {
    let (kind, key) = if let Ok(key) = DecodingKey::from_rsa_pem(block) {
        (Kind::Rsa, key)
    } else if let Ok(key) = DecodingKey::from_ed_pem(block) {
        (Kind::Ed25519, key)
    } else {
        let key = DecodingKey::from_ec_pem(block).ok()?;
        // A point of the curve, uncompressed: 04, x, y.
        let kind = match key.try_get_as_bytes().ok()?.len() {
            65 => Kind::P256,
            97 => Kind::P384,
            _ => return None,
        };
        (kind, key)
    };
    Some(Key {
        id: None,
        algorithm: None,
        kind,
        key,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The P-256 key of RFC 7515 appendix A.3.
    pub const P256: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;

    #[test]
    fn algorithms_have_their_names() {
        assert!(ALGORITHMS.iter().all(|name| algorithm(name).is_some()));
        for name in ["none", "None", "", "rs256", "ES512", "HS1"] {
            assert!(algorithm(name).is_none(), "{name}");
        }
    }

    #[test]
    fn a_key_is_for_its_own_algorithms() {
        let keys = KeySet::public(P256.as_bytes()).unwrap();
        assert!(keys.suits(Algorithm::ES256));
        for other in [Algorithm::ES384, Algorithm::HS256, Algorithm::RS256] {
            assert!(!keys.suits(other), "{other:?}");
        }
        let secret = KeySet::secret(&[b'x'; 32]).unwrap();
        assert!(secret.suits(Algorithm::HS512) && !secret.suits(Algorithm::ES256));
    }

    #[test]
    fn sets_leave_out_what_can_not_check() {
        let set = |keys: &str| KeySet::public(format!("{{\"keys\":[{keys}]}}").as_bytes());
        assert_eq!(set(P256).unwrap().keys.len(), 1);
        let with = |more: &str| P256.replacen('{', &format!("{{{more},"), 1);
        for odd in [
            "{\"kty\":\"oct\",\"k\":\"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow\"}".to_owned(),
            "{\"kty\":\"new\"}".to_owned(),
            "7".to_owned(),
            with("\"use\":\"enc\""),
            with("\"key_ops\":[\"encrypt\"]"),
            with("\"alg\":\"ECDH-ES\""),
            P256.replace("P-256", "P-521"),
        ] {
            assert!(set(&odd).is_err(), "{odd}");
        }
        assert!(set(&with("\"use\":\"sig\",\"alg\":\"ES256\"")).is_ok());
        assert!(KeySet::public(b"{\"keys\":7}").is_err());
        assert!(KeySet::public(b"{").is_err());
    }

    #[test]
    fn secrets_are_long_enough() {
        assert!(KeySet::secret(&[b'x'; 31]).is_err());
        assert!(KeySet::secret(b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n").is_err());
        assert!(KeySet::secret(&[b'x'; 32]).is_ok());
        let pem = b"-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n";
        assert!(KeySet::secret(pem).is_err());
    }

    #[test]
    fn pem_files() {
        let private =
            "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END PRIVATE KEY-----\n";
        assert!(
            KeySet::public(private.as_bytes())
                .unwrap_err()
                .contains("private")
        );
        assert!(KeySet::public(b"hello").is_err());
        // The Ed25519 key of RFC 8410 section 10.1.
        let ed = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
        assert!(
            KeySet::public(ed.as_bytes())
                .unwrap()
                .suits(Algorithm::EdDSA)
        );
        assert_eq!(
            KeySet::public(ed.repeat(2).as_bytes()).unwrap().keys.len(),
            2
        );
    }

    #[test]
    fn a_kid_chooses() {
        let named = |id: &str| P256.replacen('{', &format!("{{\"kid\":\"{id}\","), 1);
        let set = KeySet::public(
            format!("{{\"keys\":[{},{},{P256}]}}", named("a"), named("b")).as_bytes(),
        )
        .unwrap();
        let count = |id: Option<&str>| set.candidates(Algorithm::ES256, id).count();
        assert_eq!((count(None), count(Some("a")), count(Some("c"))), (3, 2, 1));
    }
}
