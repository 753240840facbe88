//! Passkeys: verification of what authenticators sign (W3C Web Authentication Level 3).
//!
//! Called by: `passkey_pages`, for adding one and for logging in.
//! Caveat: attestation is not asked for, so that the key is the one that the browser names; it is
//! trusted because the user who adds it is logged in. The authenticator must have verified the user
//! (PIN or biometrics), so that a passkey stands for a password and a second factor.
//! Out of scope: keys other than ECDSA with P-256 and Ed25519, which every authenticator has one
//! of.

use crate::users::sha256;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ED25519, UnparsedPublicKey};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// Beginning of a public key for ECDSA with P-256, before its point (RFC 5480).
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const P256_BYTES: usize = 65;
/// Beginning of a public key for Ed25519 (RFC 8410).
const ED25519_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
const ED25519_BYTES: usize = 32;
/// Longest id of a credential (section 4).
const ID_BYTES_MAX: usize = 1_023;
/// Bits of the flags in authenticator data (section 6.1).
const USER_PRESENT: u8 = 1;
const USER_VERIFIED: u8 = 1 << 2;
const ATTESTED: u8 = 1 << 6;
/// Hash of the relying party, flags, and counter.
const DATA_BYTES_MIN: usize = 37;
/// The model of an authenticator.
const AAGUID_BYTES: usize = 16;

/// The console, as browsers know it.
#[derive(Clone, Debug)]
pub struct Party {
    /// Host name without a port.
    pub id: String,
    /// Scheme, host, and port.
    pub origin: String,
}

/// A public key, by the kind of its signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicKey {
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// An answer of a browser, decoded.
#[derive(Clone, Debug, Default)]
pub struct Response {
    pub id: Vec<u8>,
    pub client_data: Vec<u8>,
    pub authenticator_data: Vec<u8>,
    /// Signature of an assertion.
    pub signature: Vec<u8>,
    /// SubjectPublicKeyInfo of a new passkey.
    pub public_key: Vec<u8>,
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo.
    pub fn parse(info: &[u8]) -> Option<PublicKey> {
        let of_length = |key: &[u8], length| (key.len() == length).then(|| key.to_vec());
        if let Some(key) = info.strip_prefix(&P256_PREFIX[..]) {
            let key = of_length(key, P256_BYTES)?;
            return (key.first() == Some(&4)).then_some(PublicKey::P256(key));
        }
        let key = info.strip_prefix(&ED25519_PREFIX[..])?;
        of_length(key, ED25519_BYTES).map(PublicKey::Ed25519)
    }

    pub fn to_json(&self) -> Value {
        let (kind, key) = match self {
            PublicKey::P256(key) => ("p256", key),
            PublicKey::Ed25519(key) => ("ed25519", key),
        };
        json!({ "kind": kind, "key": URL_SAFE_NO_PAD.encode(key) })
    }

    pub fn from_json(value: &Value) -> Option<PublicKey> {
        let key = URL_SAFE_NO_PAD.decode(value["key"].as_str()?).ok()?;
        match value["kind"].as_str()? {
            "p256" => Some(PublicKey::P256(key)),
            "ed25519" => Some(PublicKey::Ed25519(key)),
            _ => None,
        }
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            PublicKey::P256(key) => {
                let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key);
                key.verify(message, signature).is_ok()
            }
            PublicKey::Ed25519(key) => {
                let key = UnparsedPublicKey::new(&ED25519, key);
                key.verify(message, signature).is_ok()
            }
        }
    }
}

/// Verifies a new passkey (section 7.1), and returns its key and its counter.
pub fn verify_new(
    response: &Response,
    party: &Party,
    challenge: &str,
) -> Result<(PublicKey, u32), String> {
    check_client_data(&response.client_data, ("webauthn.create", challenge), party)?;
    let data = &response.authenticator_data;
    let (flags, counter) = check_data(data, party)?;
    if flags & ATTESTED == 0 || attested_id(data) != Some(&response.id[..]) {
        return Err("the authenticator names no such passkey".to_owned());
    }
    let key = PublicKey::parse(&response.public_key);
    key.map(|key| (key, counter))
        .ok_or_else(|| "keys of this kind are not supported".to_owned())
}

/// Verifies an assertion (section 7.2), and returns the new counter.
pub fn verify_assertion(
    response: &Response,
    party: &Party,
    challenge: &str,
    (key, counter): (&PublicKey, u32),
) -> Result<u32, String> {
    check_client_data(&response.client_data, ("webauthn.get", challenge), party)?;
    let (_, new) = check_data(&response.authenticator_data, party)?;
    let mut signed = response.authenticator_data.clone();
    signed.extend_from_slice(&sha256(&response.client_data));
    if !key.verifies(&signed, &response.signature) {
        return Err("the signature is wrong".to_owned());
    }
    // Passkeys that are synchronized between devices do not count.
    match (counter, new) {
        (0, 0) => Ok(0),
        (counter, new) if new > counter => Ok(new),
        _ => Err("the passkey may have been copied: its counter went back".to_owned()),
    }
}

fn check_client_data(
    bytes: &[u8],
    (kind, challenge): (&str, &str),
    party: &Party,
) -> Result<(), String> {
    let data: Value = serde_json::from_slice(bytes).map_err(|_| "this is not client data")?;
    if data["type"] != kind || data["challenge"] != challenge {
        return Err("the answer is to another question".to_owned());
    }
    if data["origin"] != party.origin.as_str() || data["crossOrigin"] == true {
        return Err("the answer is from another site".to_owned());
    }
    Ok(())
}

/// Flags and counter of authenticator data, which is about this party and a verified user.
fn check_data(data: &[u8], party: &Party) -> Result<(u8, u32), String> {
    let short = || "authenticator data is too short".to_owned();
    let head = data.get(..DATA_BYTES_MIN).ok_or_else(short)?;
    let (hash, rest) = head.split_at(32);
    if hash != sha256(party.id.as_bytes()) {
        return Err("the passkey is another site's".to_owned());
    }
    let (flags, counter) = rest.split_first().ok_or_else(short)?;
    if flags & USER_PRESENT == 0 || flags & USER_VERIFIED == 0 {
        return Err("the authenticator has not verified the user".to_owned());
    }
    let counter = counter.try_into().map(u32::from_be_bytes);
    Ok((*flags, counter.map_err(|_| short())?))
}

/// The id of the credential in authenticator data.
fn attested_id(data: &[u8]) -> Option<&[u8]> {
    let credential = data.get(DATA_BYTES_MIN + AAGUID_BYTES..)?;
    let length = usize::from(u16::from_be_bytes(credential.get(..2)?.try_into().ok()?));
    match length {
        1..=ID_BYTES_MAX => credential.get(2..2 + length),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use aws_lc_rs::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
    };

    fn party() -> Party {
        Party {
            id: "localhost".into(),
            origin: "https://localhost:7080".into(),
        }
    }

    fn client_data(kind: &str, challenge: &str, origin: &str) -> Vec<u8> {
        json!({ "type": kind, "challenge": challenge, "origin": origin })
            .to_string()
            .into_bytes()
    }

    fn data(id: &str, flags: u8, counter: u32, credential: &[u8]) -> Vec<u8> {
        let mut data = sha256(id.as_bytes()).to_vec();
        data.push(flags);
        data.extend(counter.to_be_bytes());
        if !credential.is_empty() {
            data.extend([0; AAGUID_BYTES]);
            data.extend((credential.len() as u16).to_be_bytes());
            data.extend(credential);
        }
        data
    }

    fn created(flags: u8, public_key: Vec<u8>) -> Response {
        Response {
            id: b"one".to_vec(),
            client_data: client_data("webauthn.create", "c", "https://localhost:7080"),
            authenticator_data: data("localhost", flags, 0, b"one"),
            public_key,
            ..Response::default()
        }
    }

    #[test]
    fn new_passkeys() {
        let ed25519 = [&ED25519_PREFIX[..], &[7; 32]].concat();
        let p256 = [&P256_PREFIX[..], &[4; 65]].concat();
        for key in [&ed25519, &p256] {
            let (key, counter) =
                verify_new(&created(0x45, key.clone()), &party(), "c").expect("good");
            assert_eq!(PublicKey::from_json(&key.to_json()), Some(key));
            assert_eq!(counter, 0);
        }
        let other = |change: fn(&mut Response)| {
            let mut response = created(0x45, [&ED25519_PREFIX[..], &[7; 32]].concat());
            change(&mut response);
            verify_new(&response, &party(), "c")
        };
        for change in [
            (|one| one.id = b"two".to_vec()) as fn(&mut Response),
            |one| one.authenticator_data[32] = 0x05,
            |one| one.authenticator_data[32] = 0x41,
            |one| one.authenticator_data[32] = 0x44,
            |one| one.authenticator_data.truncate(54),
            |one| one.authenticator_data.truncate(36),
            |one| one.authenticator_data[0] ^= 1,
            |one| one.client_data = client_data("webauthn.get", "c", "https://localhost:7080"),
            |one| one.client_data = client_data("webauthn.create", "d", "https://localhost:7080"),
            |one| one.client_data = client_data("webauthn.create", "c", "https://localhost:7081"),
            |one| one.client_data = client_data("webauthn.create", "c", "http://localhost:7080"),
            |one| one.client_data = b"{}".to_vec(),
            |one| one.client_data.clear(),
            |one| one.public_key.truncate(43),
            |one| one.public_key.push(0),
            |one| one.public_key[8] ^= 1,
        ] {
            assert!(other(change).is_err());
        }
    }

    #[test]
    fn assertions() {
        let random = SystemRandom::new();
        let document =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document.as_ref())
            .expect("a key");
        let key = PublicKey::P256(pair.public_key().as_ref().to_vec());
        let sign = |origin: &str, id: &str, flags, counter| {
            let client_data = client_data("webauthn.get", "c", origin);
            let authenticator_data = data(id, flags, counter, &[]);
            let mut signed = authenticator_data.clone();
            signed.extend(sha256(&client_data));
            let signature = pair
                .sign(&random, &signed)
                .expect("signed")
                .as_ref()
                .to_vec();
            Response {
                client_data,
                authenticator_data,
                signature,
                ..Response::default()
            }
        };
        let own = "https://localhost:7080";
        let verify = |response: &Response, counter| {
            verify_assertion(response, &party(), "c", (&key, counter))
        };
        assert_eq!(verify(&sign(own, "localhost", 5, 3), 2), Ok(3));
        assert_eq!(verify(&sign(own, "localhost", 5, 0), 0), Ok(0));
        assert!(verify(&sign(own, "localhost", 5, 2), 2).is_err(), "a copy");
        assert!(verify(&sign(own, "localhost", 5, 0), 2).is_err(), "a copy");
        assert!(
            verify(&sign(own, "localhost", 1, 3), 2).is_err(),
            "not verified"
        );
        assert!(
            verify(&sign(own, "evil.example", 5, 3), 2).is_err(),
            "another party"
        );
        assert!(
            verify(&sign("https://evil.example", "localhost", 5, 3), 2).is_err(),
            "another origin"
        );
        let good = sign(own, "localhost", 5, 3);
        assert!(
            verify_assertion(&good, &party(), "d", (&key, 2)).is_err(),
            "another challenge"
        );
        let mut forged = good.clone();
        forged.authenticator_data[36] = 9;
        assert!(verify(&forged, 2).is_err());
        forged = good.clone();
        forged.signature.clear();
        assert!(verify(&forged, 2).is_err());
        let seed = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a key");
        let other = PublicKey::Ed25519(seed.public_key().as_ref().to_vec());
        assert!(verify_assertion(&good, &party(), "c", (&other, 2)).is_err());
        let mut signed = good.authenticator_data.clone();
        signed.extend(sha256(&good.client_data));
        let by_other = Response {
            signature: seed.sign(&signed).as_ref().to_vec(),
            ..good
        };
        assert_eq!(
            verify_assertion(&by_other, &party(), "c", (&other, 2)),
            Ok(3)
        );
    }
}
