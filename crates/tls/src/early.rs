//! Sessions that clients may come back to with early data (RFC 8446 section 8): remembered by the server, each good once.
//!
//! A ticket that the server has forgotten nothing of could be shown again with a copy of the early data (section 8.1); a session that is taken
//! out when it is used can't. So QUIC's sessions are kept here, by all workers together, where early data is allowed. Bounded by count; who
//! is put out makes a full handshake. A session is its policy's, so that no site takes one that another site gave.

use crate::policy::PolicyDigest;
use rustls::{
    ServerConfig,
    server::{ProducesTickets, ServerSessionMemoryCache, StoresServerSessions},
};
use std::{fmt, sync::Arc};

/// At some 500 bytes each.
const SESSIONS_MAX: usize = 8192;
/// The only other value that QUIC knows than none (RFC 9001 section 4.6.1).
const EARLY_BYTES_MAX: u32 = u32::MAX;

/// Of the process; reloads hand it on.
#[derive(Clone)]
pub struct EarlySessions(Arc<dyn StoresServerSessions>);

impl Default for EarlySessions {
    fn default() -> Self {
        EarlySessions(ServerSessionMemoryCache::new(SESSIONS_MAX))
    }
}

impl fmt::Debug for EarlySessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EarlySessions").finish_non_exhaustive()
    }
}

impl EarlySessions {
    pub(crate) fn apply(&self, policy: PolicyDigest, config: &mut ServerConfig) {
        config.session_storage = Arc::new(OfPolicy { sessions: Arc::clone(&self.0), policy });
        config.ticketer = Arc::new(NoTickets);
        config.max_early_data_size = EARLY_BYTES_MAX;
    }
}

#[derive(Debug)]
struct OfPolicy {
    sessions: Arc<dyn StoresServerSessions>,
    policy: PolicyDigest,
}

impl OfPolicy {
    fn key(&self, session: &[u8]) -> Vec<u8> {
        [self.policy.as_bytes(), session].concat()
    }
}

impl StoresServerSessions for OfPolicy {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.sessions.put(self.key(&key), value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.sessions.get(&self.key(key))
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.sessions.take(&self.key(key))
    }

    fn can_cache(&self) -> bool {
        self.sessions.can_cache()
    }
}

#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_good_once_and_for_its_policy_alone() {
        let sessions = EarlySessions::default();
        let of = |byte| OfPolicy { sessions: Arc::clone(&sessions.0), policy: PolicyDigest::of(&[byte]) };
        let (one, other) = (of(1), of(2));
        assert!(one.can_cache() && one.put(b"key".to_vec(), b"session".to_vec()));
        assert_eq!(other.take(b"key"), None);
        assert_eq!(one.get(b"key").as_deref(), Some(&b"session"[..]));
        assert_eq!(one.take(b"key").as_deref(), Some(&b"session"[..]));
        assert_eq!(one.take(b"key"), None);
    }
}
