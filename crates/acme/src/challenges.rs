//! Answers to challenges that authorities request, and the destination of issued certificates.

use std::{
    collections::HashMap,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Path prefix that authorities request over plain HTTP (RFC 8555 section 8.3).
pub const HTTP01_PREFIX: &str = "/.well-known/acme-challenge/";

/// Longer tokens are never ours.
const TOKEN_BYTES_MAX: usize = 256;

/// Answers to HTTP-01, shared with all workers. There are some for a few seconds now and then; a
/// look costs one load else.
#[derive(Debug, Default)]
pub struct Challenges {
    waiting: AtomicUsize,
    by_token: RwLock<HashMap<String, String>>,
}

impl Challenges {
    /// The body (`application/octet-stream`) of the answer for a token; `None` is 404, or the
    /// site's own.
    pub fn http01(&self, token: &str) -> Option<String> {
        if self.waiting.load(Ordering::Acquire) == 0 || token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        self.by_token
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(token)
            .cloned()
    }

    /// The same for the path of a request.
    pub fn answer(&self, path: &[u8]) -> Option<String> {
        let token = path.strip_prefix(HTTP01_PREFIX.as_bytes())?;
        self.http01(std::str::from_utf8(token).ok()?)
    }

    pub(crate) fn set(&self, token: &str, key_authorization: &str) {
        let mut by_token = self
            .by_token
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        by_token.insert(token.to_owned(), key_authorization.to_owned());
        self.waiting.store(by_token.len(), Ordering::Release);
    }

    pub(crate) fn clear(&self, token: &str) {
        let mut by_token = self
            .by_token
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        by_token.remove(token);
        self.waiting.store(by_token.len(), Ordering::Release);
    }
}

/// The server's certificates, as far as this crate changes them. Called on the main thread;
/// handshakes run meanwhile.
pub trait Installer: Send + Sync {
    /// Serves these names (`*.example.org` among them) with this chain from now on. The error
    /// describes an invalid chain, which is not kept.
    fn install(&self, names: &[String], chain_pem: &str, key_pem: &str) -> Result<(), String>;

    /// Stops serving these names with the chain installed for them. Names without one are ignored.
    fn uninstall(&self, names: &[String]);

    /// A handshake for `name` that offers `acme-tls/1` alone is answered with this certificate (RFC
    /// 8737 section 3). The key is PKCS #8 in DER. Its critical extension makes checks of
    /// certificates refuse it: rustls' `CertifiedKey::new`, not `from_der`.
    fn set_challenge(&self, name: &str, certificate_der: &[u8], key_der: &[u8]);

    fn clear_challenge(&self, name: &str);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_only_while_there_is_a_challenge() {
        let challenges = Challenges::default();
        let path = b"/.well-known/acme-challenge/abc";
        assert_eq!(challenges.answer(path), None);
        challenges.set("abc", "abc.thumb");
        assert_eq!(challenges.answer(path).as_deref(), Some("abc.thumb"));
        for other in [
            &b"/.well-known/acme-challenge/abcd"[..],
            b"/.well-known/acme-challenge/",
            b"/abc",
            b"/.well-known/acme-challenge/\xff",
        ] {
            assert_eq!(challenges.answer(other), None);
        }
        challenges.clear("abc");
        assert_eq!(challenges.answer(path), None);
    }

    #[test]
    fn long_tokens_are_not_looked_up() {
        let challenges = Challenges::default();
        let (edge, beyond) = ("a".repeat(TOKEN_BYTES_MAX), "a".repeat(TOKEN_BYTES_MAX + 1));
        challenges.set(&edge, "x");
        challenges.set(&beyond, "x");
        assert!(challenges.http01(&edge).is_some() && challenges.http01(&beyond).is_none());
    }
}
