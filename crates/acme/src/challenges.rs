//! Answers to challenges that authorities request, and the destination of issued certificates.

use crate::shared_values;
use saker_cluster::SharedState;
use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc, OnceLock, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::Semaphore;

/// Path prefix that authorities request over plain HTTP (RFC 8555 section 8.3).
pub const HTTP01_PREFIX: &str = "/.well-known/acme-challenge/";

/// Longer tokens are never ours.
const TOKEN_BYTES_MAX: usize = 256;

/// Tokens that other servers of the cluster may know are of such lengths (RFC 8555 section 8.3: at
/// least 128 bits in base64url).
const SHARED_TOKEN_BYTES: std::ops::RangeInclusive<usize> = 22..=128;

/// Looks at the cluster's engine at a time, so that clients cannot keep it busy.
const LOOKS_MAX: usize = 8;

/// Answers to HTTP-01, shared with all workers. There are some for a few seconds now and then; a
/// look costs one load else.
#[derive(Debug, Default)]
pub struct Challenges {
    waiting: AtomicUsize,
    by_token: RwLock<HashMap<String, String>>,
    /// The servers of a cluster that order certificates together.
    shared: OnceLock<SharedChallenges>,
}

#[derive(Debug)]
struct SharedChallenges {
    state: SharedState,
    looks: Arc<Semaphore>,
}

/// The answer to a request for a challenge.
pub enum Challenge {
    /// There is none.
    Unknown,
    Known(String),
    /// Another server of the cluster may know it.
    Look(Pin<Box<dyn Future<Output = Option<String>>>>),
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

    /// Answers challenges of the other servers from now on; once.
    pub fn share(&self, state: SharedState) {
        let looks = Arc::new(Semaphore::new(LOOKS_MAX));
        let _ = self.shared.set(SharedChallenges { state, looks });
    }

    /// The answer for the path of a request, of this server or another one of its cluster.
    pub fn find(&self, path: &[u8]) -> Challenge {
        if let Some(found) = self.answer(path) {
            return Challenge::Known(found);
        }
        let Some((shared, name)) = self.shared.get().zip(shared_name(path)) else {
            return Challenge::Unknown;
        };
        match Arc::clone(&shared.looks).try_acquire_owned() {
            Ok(look) => {
                let state = shared.state.clone();
                Challenge::Look(Box::pin(async move {
                    let found = state.get(&name).await.ok().flatten();
                    drop(look);
                    found.and_then(|found| String::from_utf8(found).ok())
                }))
            }
            Err(_) => Challenge::Unknown,
        }
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

/// Name of the answer between servers.
fn shared_name(path: &[u8]) -> Option<String> {
    let token = path.strip_prefix(HTTP01_PREFIX.as_bytes())?;
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let is_valid = SHARED_TOKEN_BYTES.contains(&token.len()) && token.iter().all(is_token);
    let token = std::str::from_utf8(token).ok().filter(|_| is_valid)?;
    Some(shared_values::challenge_name(token))
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
