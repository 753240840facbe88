//! Secrets that all workers of a process share, so that a client may reach any of them: keys of
//! tokens, of stateless resets, and of connection ids, and the set of used tokens.
//!
//! All are derived from one secret that lives as long as the process: reloads hand it on.
//!
//! Out of scope: a secret on disk. After a restart, clients learn of the loss by timeout, as they
//! do with TCP behind a firewall, and there is nothing on disk to steal.

use aws_lc_rs::{
    hkdf::{self, HKDF_SHA256, Prk},
    hmac, rand,
};
use quinn_proto::{TokenLog, TokenReuseError};
use std::{
    collections::HashSet,
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

const SECRET_BYTES: usize = 64;
/// Tokens of NEW_TOKEN frames are good for so long.
pub const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Used tokens that are remembered, at 16 bytes and some each; more are not believed.
const USED_TOKENS_MAX: usize = 1 << 17;

/// Secrets of the process. Cheap to clone.
#[derive(Clone)]
pub struct Secrets {
    pub(crate) reset: Arc<hmac::Key>,
    pub(crate) tokens: Arc<Prk>,
    pub(crate) used: Arc<UsedTokens>,
    pub(crate) ids: IdKey,
    /// Mark of the process in its connection ids.
    pub tag: u16,
}

impl Secrets {
    /// `None`: the system gives no random bytes.
    pub fn random() -> Option<Secrets> {
        let (mut secret, mut tag) = ([0; SECRET_BYTES], [0; 2]);
        rand::fill(&mut secret).ok()?;
        rand::fill(&mut tag).ok()?;
        let (for_resets, for_tokens) = secret.split_at(SECRET_BYTES / 2);
        Some(Secrets {
            reset: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, for_resets)),
            tokens: Arc::new(
                hkdf::Salt::new(HKDF_SHA256, b"saker quic tokens").extract(for_tokens),
            ),
            used: Arc::default(),
            ids: IdKey(RandomState::new()),
            tag: u16::from_be_bytes(tag),
        })
    }
}

/// Checksum in the last bytes of our connection ids. Not cryptography: forging one yields a reset
/// of at most 40 bytes, and no more of these than the endpoint's rate allows.
#[derive(Clone)]
pub(crate) struct IdKey(RandomState);

impl IdKey {
    pub fn signature(&self, bytes: &[u8]) -> [u8; 2] {
        let mut hasher = self.0.build_hasher();
        hasher.write(bytes);
        let [first, second, ..] = hasher.finish().to_be_bytes();
        [first, second]
    }
}

/// RFC 9000 section 8.1.4: tokens are to be used once. Two generations, each for a token's
/// lifetime.
#[derive(Default)]
pub(crate) struct UsedTokens(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    now: HashSet<u128>,
    before: HashSet<u128>,
    turned_at: Option<SystemTime>,
}

impl TokenLog for UsedTokens {
    fn check_and_insert(
        &self,
        nonce: u128,
        _issued: SystemTime,
        lifetime: Duration,
    ) -> Result<(), TokenReuseError> {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generations.turn(SystemTime::now(), lifetime);
        let is_known =
            generations.before.contains(&nonce) || generations.now.len() >= USED_TOKENS_MAX;
        if is_known || !generations.now.insert(nonce) {
            Err(TokenReuseError)
        } else {
            Ok(())
        }
    }
}

impl Generations {
    fn turn(&mut self, now: SystemTime, lifetime: Duration) {
        let turned_at = *self.turned_at.get_or_insert(now);
        if now
            .duration_since(turned_at)
            .is_ok_and(|age| age >= lifetime)
        {
            self.before = std::mem::take(&mut self.now);
            self.turned_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_once() {
        let used = UsedTokens::default();
        assert!(
            used.check_and_insert(7, SystemTime::now(), TOKEN_LIFETIME)
                .is_ok()
        );
        assert!(
            used.check_and_insert(7, SystemTime::now(), TOKEN_LIFETIME)
                .is_err()
        );
        assert!(
            used.check_and_insert(8, SystemTime::now(), TOKEN_LIFETIME)
                .is_ok()
        );
    }

    #[test]
    fn used_tokens_are_remembered_for_a_lifetime_and_bounded() {
        let mut generations = Generations::default();
        let start = SystemTime::now();
        generations.turn(start, TOKEN_LIFETIME);
        generations.now.insert(1);
        generations.turn(start + TOKEN_LIFETIME, TOKEN_LIFETIME);
        assert!(generations.before.contains(&1));
        generations.turn(start + TOKEN_LIFETIME * 2, TOKEN_LIFETIME);
        assert!(!generations.before.contains(&1));
        let used = UsedTokens::default();
        used.0.lock().unwrap().now = (0..USED_TOKENS_MAX as u128).collect();
        assert!(
            used.check_and_insert(u128::MAX, SystemTime::now(), TOKEN_LIFETIME)
                .is_err()
        );
    }
}
