//! Secrets that all workers of a process share, so that a client may reach any of them: keys of
//! tokens, of stateless resets, and of connection ids, and the set of used tokens.
//!
//! All are random and live as long as the process: reloads hand them on. An upgrade hands on the
//! secret of tokens and the used ones; not those of resets and connection ids, because a reset by
//! the new process would end connections that the old one still has.
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

const RESET_SECRET_BYTES: usize = 32;
const TOKEN_SECRET_BYTES: usize = 32;
/// Tokens of NEW_TOKEN frames are good for so long.
pub const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Used tokens that are remembered, at 16 bytes and some each; more are not believed.
const USED_TOKENS_MAX: usize = 1 << 17;

/// Secrets of the process. Cheap to clone.
#[derive(Clone)]
pub struct Secrets {
    pub(crate) reset: Arc<hmac::Key>,
    pub(crate) tokens: Arc<Prk>,
    token_secret: [u8; TOKEN_SECRET_BYTES],
    pub(crate) used: Arc<UsedTokens>,
    pub(crate) ids: IdKey,
    /// Mark of the process in its connection ids.
    pub tag: u16,
}

impl Secrets {
    /// `None`: the system gives no random bytes.
    pub fn random() -> Option<Secrets> {
        let mut for_resets = [0; RESET_SECRET_BYTES];
        let (mut token_secret, mut tag) = ([0; TOKEN_SECRET_BYTES], [0; 2]);
        rand::fill(&mut for_resets).ok()?;
        rand::fill(&mut token_secret).ok()?;
        rand::fill(&mut tag).ok()?;
        Some(Secrets {
            reset: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &for_resets)),
            tokens: tokens_of(&token_secret),
            token_secret,
            used: Arc::default(),
            ids: IdKey(RandomState::new()),
            tag: u16::from_be_bytes(tag),
        })
    }

    /// Returns what makes and judges tokens, for the process that takes over.
    pub fn tokens(&self) -> TokenState {
        let used = self.used.0.lock().unwrap_or_else(PoisonError::into_inner);
        TokenState {
            secret: self.token_secret,
            used: used.now.iter().copied().collect(),
            used_before: used.before.iter().copied().collect(),
            turned_at: used.turned_at,
        }
    }

    /// Goes on with the tokens of the process before. Returns false if there are more used ones
    /// than are remembered; nothing changes then.
    pub fn continue_tokens(&mut self, before: TokenState) -> bool {
        if before.used.len() > USED_TOKENS_MAX || before.used_before.len() > USED_TOKENS_MAX {
            return false;
        }
        self.token_secret = before.secret;
        self.tokens = tokens_of(&before.secret);
        let now = SystemTime::now();
        self.used = Arc::new(UsedTokens(Mutex::new(Generations {
            now: before.used.into_iter().collect(),
            before: before.used_before.into_iter().collect(),
            turned_at: before.turned_at.map(|at| at.min(now)),
        })));
        true
    }
}

/// Address tokens of a process, as the one that takes over goes on with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenState {
    pub secret: [u8; TOKEN_SECRET_BYTES],
    /// Numbers of tokens that were shown, in two generations.
    pub used: Vec<u128>,
    pub used_before: Vec<u128>,
    pub turned_at: Option<SystemTime>,
}

fn tokens_of(secret: &[u8]) -> Arc<Prk> {
    Arc::new(hkdf::Salt::new(HKDF_SHA256, b"saker quic tokens").extract(secret))
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
    fn tokens_go_on_in_another_process() {
        let (before, mut after) = (Secrets::random().unwrap(), Secrets::random().unwrap());
        let show = |secrets: &Secrets, nonce| {
            let now = SystemTime::now();
            secrets.used.check_and_insert(nonce, now, TOKEN_LIFETIME)
        };
        assert!(show(&before, 1).is_ok());
        assert_ne!(before.tokens().secret, after.tokens().secret);
        assert!(after.continue_tokens(before.tokens()));
        assert_eq!(after.tokens(), before.tokens());
        assert!(show(&after, 1).is_err() && show(&after, 2).is_ok());
        let too_many = TokenState {
            used: (0..=USED_TOKENS_MAX as u128).collect(),
            ..before.tokens()
        };
        let mut other = Secrets::random().unwrap();
        assert!(!other.continue_tokens(too_many));
        assert_ne!(other.tokens().secret, before.tokens().secret);
        // A clock that has stepped back must not keep them for longer than a lifetime.
        let ahead = TokenState {
            turned_at: Some(SystemTime::now() + TOKEN_LIFETIME),
            ..before.tokens()
        };
        assert!(other.continue_tokens(ahead));
        assert!(other.tokens().turned_at.unwrap() <= SystemTime::now());
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
