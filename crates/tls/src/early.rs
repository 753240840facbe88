//! Sessions that clients may come back to with early data (RFC 8446 section 8): remembered by the
//! server, each good once.
//!
//! A ticket that the server has forgotten nothing of could be shown again with a copy of the early
//! data (section 8.1); a session that is taken out when it is used can't. So QUIC's sessions are
//! kept here, by all workers together, where early data is allowed. Bounded by count; who is put
//! out makes a full handshake. A session is its policy's, so that no site takes one that another
//! site gave; and that of what clients were told they may send (transport parameters, SETTINGS),
//! which they go by in early data: after a change they are asked for a full handshake, since early
//! data must not meet smaller limits than it was made for (RFC 9000 section 7.4.1, RFC 9114 section
//! 7.2.4.2).

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

/// Sessions of the process that permit early data; reloads hand them on.
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
    /// `promises`: all that clients remember of us with a session, in whatever form.
    pub(crate) fn apply(&self, policy: PolicyDigest, promises: &[u8], config: &mut ServerConfig) {
        config.session_storage = Arc::new(OfTerms::new(&self.0, policy, promises));
        config.ticketer = Arc::new(NoTickets);
        config.max_early_data_size = EARLY_BYTES_MAX;
    }
}

#[derive(Debug)]
struct OfTerms {
    sessions: Arc<dyn StoresServerSessions>,
    terms: PolicyDigest,
}

impl OfTerms {
    fn new(
        sessions: &Arc<dyn StoresServerSessions>,
        policy: PolicyDigest,
        promises: &[u8],
    ) -> OfTerms {
        OfTerms {
            sessions: Arc::clone(sessions),
            terms: PolicyDigest::of(&[policy.as_bytes(), promises].concat()),
        }
    }

    fn key(&self, session: &[u8]) -> Vec<u8> {
        [self.terms.as_bytes(), session].concat()
    }
}

impl StoresServerSessions for OfTerms {
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
    fn a_session_is_good_once_and_for_its_terms_alone() {
        let sessions = EarlySessions::default();
        let of =
            |byte, promises: &[u8]| OfTerms::new(&sessions.0, PolicyDigest::of(&[byte]), promises);
        let one = of(1, b"128 streams");
        assert!(one.can_cache() && one.put(b"key".to_vec(), b"session".to_vec()));
        assert_eq!(of(2, b"128 streams").take(b"key"), None);
        assert_eq!(
            of(1, b"64 streams").take(b"key"),
            None,
            "promised more than is kept"
        );
        assert_eq!(
            of(1, b"128 streams").get(b"key").as_deref(),
            Some(&b"session"[..]),
            "after a reload that changed nothing of it"
        );
        assert_eq!(one.take(b"key").as_deref(), Some(&b"session"[..]));
        assert_eq!(one.take(b"key"), None);
    }
}
