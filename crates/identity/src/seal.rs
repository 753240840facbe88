//! Texts that only this server can read and make: sealed with AES-256-GCM.
//!
//! Called by: `session` and `attempt`, whose texts are kept by clients.
//! Caveat: a text is bound to a context (purpose, provider, host), so a text that was sealed for one
//! can't be used for another, whatever shares the key. Nonces are random, which is good for 2^32
//! texts of a key (NIST SP 800-38D section 8.3).
//! Out of scope: age; the content has its time.

use crate::encoding::{base64url, from_base64url, sha256};
use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey},
    pbkdf2, rand,
};
use std::{fmt, num::NonZeroU32, sync::Arc};

const NONCE_BYTES: usize = 12;
/// Shortest text that a key is made of.
const KEY_BYTES_MIN: usize = 32;
const KEYS_MAX: usize = 8;
/// As many as Apache's mod_session_crypto has; `.htaccess` files may name passphrases, too.
const PASSPHRASE_ROUNDS: u32 = 4096;
/// Passphrases of a configuration make the same keys on every machine.
const PASSPHRASE_SALT: &[u8] = b"saker sealed session cookie";

/// Keys of a file, one per line: the first one seals, all of them open.
#[derive(Clone)]
pub struct SealKeys {
    keys: Arc<[RandomizedNonceKey]>,
    digest: [u8; 32],
}

impl fmt::Debug for SealKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealKeys({})", self.keys.len())
    }
}

impl PartialEq for SealKeys {
    fn eq(&self, other: &SealKeys) -> bool {
        self.digest == other.digest
    }
}

impl Eq for SealKeys {}

impl SealKeys {
    /// Reads a file of keys.
    ///
    /// # Errors
    /// Why it can't be used.
    pub fn parse(text: &[u8]) -> Result<SealKeys, String> {
        let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let mut keys = Vec::new();
        for line in lines.filter(|line| !line.is_empty()).take(KEYS_MAX) {
            if line.len() < KEY_BYTES_MIN {
                return Err(format!(
                    "a key has {} characters, and needs {KEY_BYTES_MIN} at least",
                    line.len()
                ));
            }
            let key = RandomizedNonceKey::new(&AES_256_GCM, &sha256(line));
            keys.push(key.map_err(|_| "the key can't be used".to_owned())?);
        }
        match keys.is_empty() {
            true => Err("it has no key".into()),
            false => Ok(SealKeys {
                keys: keys.into(),
                digest: sha256(text),
            }),
        }
    }

    /// Makes keys of passphrases: the first one seals, all of them open.
    ///
    /// # Errors
    /// There is none, or too many, or an empty one.
    pub fn of_passphrases(passphrases: &[impl AsRef<[u8]>]) -> Result<SealKeys, String> {
        if passphrases.is_empty() || passphrases.len() > KEYS_MAX {
            return Err(format!("1 to {KEYS_MAX} passphrases are needed"));
        }
        let mut text = Vec::new();
        for passphrase in passphrases.iter().map(AsRef::as_ref) {
            if passphrase.is_empty() {
                return Err("a passphrase is empty".into());
            }
            let mut key = [0; 32];
            pbkdf2::derive(
                pbkdf2::PBKDF2_HMAC_SHA256,
                NonZeroU32::new(PASSPHRASE_ROUNDS).unwrap_or(NonZeroU32::MIN),
                PASSPHRASE_SALT,
                passphrase,
                &mut key,
            );
            text.extend_from_slice(base64url(&key).as_bytes());
            text.push(b'\n');
        }
        SealKeys::parse(&text)
    }

    /// The text of a file with a new key. `None`: the system gives no random bytes.
    pub fn generate() -> Option<String> {
        let mut bytes = [0; 32];
        rand::fill(&mut bytes).ok()?;
        Some(format!("{}\n", base64url(&bytes)))
    }

    /// `None`: the system gives no random bytes.
    pub fn seal(&self, context: &[u8], text: &[u8]) -> Option<String> {
        let mut sealed = text.to_vec();
        let nonce = self
            .keys
            .first()?
            .seal_in_place_append_tag(Aad::from(context), &mut sealed)
            .ok()?;
        Some(base64url(&[nonce.as_ref().as_slice(), &sealed].concat()))
    }

    /// `None`: the text was not sealed with one of the keys, or for another context.
    pub fn open(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let sealed = from_base64url(sealed)?;
        let (nonce, rest) = sealed.split_at_checked(NONCE_BYTES)?;
        self.keys.iter().find_map(|key| {
            let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
            let mut rest = rest.to_vec();
            let opened = key
                .open_in_place(nonce, Aad::from(context), &mut rest)
                .ok()?;
            Some(opened.to_vec())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "0123456789abcdef0123456789abcdef";
    const OTHER: &str = "fedcba9876543210fedcba9876543210";

    #[test]
    fn only_the_same_key_and_context_open() {
        let keys = SealKeys::parse(ONE.as_bytes()).unwrap();
        let sealed = keys.seal(b"session a.example", b"text").unwrap();
        assert_ne!(
            keys.seal(b"session a.example", b"text"),
            Some(sealed.clone())
        );
        let open =
            |keys: &SealKeys, context: &[u8], text: &str| keys.open(context, text.as_bytes());
        assert_eq!(
            open(&keys, b"session a.example", &sealed).as_deref(),
            Some(&b"text"[..])
        );
        assert_eq!(open(&keys, b"session b.example", &sealed), None);
        let other = SealKeys::parse(OTHER.as_bytes()).unwrap();
        assert_eq!(open(&other, b"session a.example", &sealed), None);
        let both = SealKeys::parse(format!("{OTHER}\n{ONE}\n").as_bytes()).unwrap();
        assert!(open(&both, b"session a.example", &sealed).is_some());
        let newer = both.seal(b"x", b"text").unwrap();
        assert!(open(&keys, b"x", &newer).is_none() && open(&other, b"x", &newer).is_some());
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            // The last character has bits that do not count; decoding refuses those.
            assert_eq!(keys.open(b"session a.example", &changed), None, "{at}");
        }
        for odd in ["", "A", "=", "AAAAAAAAAAAAAAAA", "ä"] {
            assert_eq!(open(&keys, b"", odd), None, "{odd}");
        }
    }

    #[test]
    fn passphrases() {
        let of = |all: &[&str]| SealKeys::of_passphrases(all);
        let (one, both) = (of(&["one"]).unwrap(), of(&["two", "one"]).unwrap());
        let sealed = one.seal(b"c", b"text").unwrap();
        let open = |keys: &SealKeys, text: &str| keys.open(b"c", text.as_bytes()).is_some();
        assert!(open(&both, &sealed) && open(&of(&["one"]).unwrap(), &sealed));
        assert!(!open(&of(&["two"]).unwrap(), &sealed));
        assert!(!open(&one, &both.seal(b"c", b"text").unwrap()));
        assert!(of(&[]).is_err() && of(&[""]).is_err());
        assert!(of(&["p"; KEYS_MAX]).is_ok() && of(&["p"; KEYS_MAX + 1]).is_err());
    }

    #[test]
    fn files() {
        assert!(SealKeys::parse(b"\n \n").is_err());
        assert!(SealKeys::parse(&ONE.as_bytes()[1..]).is_err());
        assert!(SealKeys::parse(format!("{ONE}\nshort").as_bytes()).is_err());
        assert!(SealKeys::parse(SealKeys::generate().unwrap().as_bytes()).is_ok());
    }
}
