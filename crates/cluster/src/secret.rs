//! The secret that the servers of a cluster have in common, and keys derived from it.
//!
//! Called by: the server process, which reads it from a file; `clients` and `certificates`, which
//! sign and encrypt what they put on the engine.
//! Caveat: keys for different purposes are independent of each other (HMAC-SHA256 of the purpose,
//! as the expansion of HKDF, RFC 5869). Software that has the secret counts as a server of the cluster.
//! Out of scope: a change of the secret while servers run; all are restarted with the new one.

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hmac, rand,
};
use std::{fmt, sync::Arc};

/// Shorter secrets are refused.
pub const SECRET_BYTES_MIN: usize = 32;

/// Size of a code behind a signed text.
const CODE_BYTES: usize = 16;

/// A secret of all servers of a cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<[u8]>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// The secret in the content of a file, without white space around it. `None`: it is shorter
    /// than [`SECRET_BYTES_MIN`].
    pub fn from_file(content: &[u8]) -> Option<Secret> {
        let secret = content.trim_ascii();
        (secret.len() >= SECRET_BYTES_MIN).then(|| Secret(secret.into()))
    }

    /// A key for one purpose.
    pub fn key(&self, purpose: &str) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let code = hmac::sign(&key, purpose.as_bytes());
        std::array::from_fn(|at| code.as_ref().get(at).copied().unwrap_or_default())
    }

    /// Signs and verifies texts of one purpose.
    pub fn signer(&self, purpose: &str) -> Signer {
        Signer(hmac::Key::new(hmac::HMAC_SHA256, &self.key(purpose)))
    }

    /// Encrypts and decrypts values of one purpose.
    pub fn sealer(&self, purpose: &str) -> Sealer {
        Sealer(Arc::new(self.key(purpose)))
    }
}

/// Appends codes to texts, and checks them.
#[derive(Clone, Debug)]
pub struct Signer(hmac::Key);

impl Signer {
    pub fn sign(&self, text: &[u8]) -> Vec<u8> {
        let code = hmac::sign(&self.0, text);
        let code = code.as_ref().get(..CODE_BYTES).unwrap_or_default();
        [text, code].concat()
    }

    /// The text, if it was signed with the same key.
    pub fn verify<'t>(&self, signed: &'t [u8]) -> Option<&'t [u8]> {
        let (text, code) = signed.split_last_chunk::<CODE_BYTES>()?;
        let expected = hmac::sign(&self.0, text);
        let expected = expected.as_ref().get(..CODE_BYTES)?;
        aws_lc_rs::constant_time::verify_slices_are_equal(expected, code)
            .is_ok()
            .then_some(text)
    }
}

/// Encrypts values under their names (AES-256-GCM): a value that is moved to another name does not
/// open.
#[derive(Clone)]
pub struct Sealer(Arc<[u8; 32]>);

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

impl Sealer {
    /// `None`: the system gives no random bytes.
    pub fn seal(&self, name: &str, value: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let mut sealed = value.to_vec();
        self.cipher()?
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(name.as_bytes()),
                &mut sealed,
            )
            .ok()?;
        Some([&nonce[..], &sealed].concat())
    }

    /// The value, if it was encrypted under this name with the same secret.
    pub fn open(&self, name: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut rest = rest.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let value = self
            .cipher()?
            .open_in_place(nonce, Aad::from(name.as_bytes()), &mut rest)
            .ok()?;
        Some(value.to_vec())
    }

    fn cipher(&self) -> Option<LessSafeKey> {
        let key = UnboundKey::new(&AES_256_GCM, &*self.0).ok()?;
        Some(LessSafeKey::new(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(byte: u8) -> Secret {
        Secret::from_file(&[byte; SECRET_BYTES_MIN]).unwrap()
    }

    #[test]
    fn short_secrets_are_refused() {
        let text = |bytes: usize| format!(" {}\n", "a".repeat(bytes));
        assert!(Secret::from_file(text(SECRET_BYTES_MIN).as_bytes()).is_some());
        assert!(Secret::from_file(text(SECRET_BYTES_MIN - 1).as_bytes()).is_none());
        assert_eq!(format!("{:?}", secret(b'a')), "Secret");
        assert_ne!(secret(b'a').key("x"), secret(b'a').key("y"));
        assert_ne!(secret(b'a').key("x"), secret(b'b').key("x"));
    }

    #[test]
    fn every_bit_of_a_signed_text_counts() {
        let signer = secret(b'a').signer("bans");
        let signed = signer.sign(b"text");
        assert_eq!(signer.verify(&signed), Some(&b"text"[..]));
        assert_eq!(secret(b'a').signer("rates").verify(&signed), None);
        assert_eq!(secret(b'b').signer("bans").verify(&signed), None);
        for at in 0..signed.len() {
            let mut damaged = signed.clone();
            damaged[at] ^= 1;
            assert_eq!(signer.verify(&damaged), None);
            assert_eq!(signer.verify(&signed[..at]), None);
        }
    }

    #[test]
    fn values_open_under_their_names_alone() {
        let sealer = secret(b'a').sealer("certificates");
        let sealed = sealer.seal("a.example", b"private key").unwrap();
        assert!(!sealed.windows(7).any(|part| part == b"private"));
        assert_ne!(sealed, sealer.seal("a.example", b"private key").unwrap());
        let open = |name| sealer.open(name, &sealed);
        assert_eq!(open("a.example").as_deref(), Some(&b"private key"[..]));
        assert_eq!(open("b.example"), None);
        let other = secret(b'b').sealer("certificates");
        assert_eq!(other.open("a.example", &sealed), None);
        for at in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert_eq!(sealer.open("a.example", &damaged), None);
            assert_eq!(sealer.open("a.example", &sealed[..at]), None);
        }
    }
}
