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
    server::{ProducesTickets, StoresServerSessions},
};
use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// At some 500 bytes each.
const SESSIONS_MAX: usize = 8192;
/// The only other value that QUIC knows than none (RFC 9001 section 4.6.1).
const EARLY_BYTES_MAX: u32 = u32::MAX;

/// Sessions of the process that permit early data; reloads hand them on, and so do upgrades.
#[derive(Clone, Default)]
pub struct EarlySessions(Arc<SessionStore>);

impl fmt::Debug for EarlySessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EarlySessions").finish_non_exhaustive()
    }
}

impl EarlySessions {
    /// Takes all sessions out, the oldest first, for the process that takes over. They are good in
    /// one process only, or early data could be shown to both.
    pub fn take_all(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut known = self.0.lock();
        let order = std::mem::take(&mut known.order);
        let mut sessions = std::mem::take(&mut known.sessions);
        let taken = order.into_iter().filter_map(|key| {
            let session = sessions.remove(&key)?;
            Some((key, session))
        });
        taken.collect()
    }

    /// Goes on with the sessions of the process before, the oldest first.
    pub fn continue_with(&self, sessions: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) {
        sessions.into_iter().for_each(|(key, session)| {
            self.0.put(key, session);
        });
    }

    /// `promises`: all that clients remember of us with a session, in whatever form.
    pub(crate) fn apply(&self, policy: PolicyDigest, promises: &[u8], config: &mut ServerConfig) {
        let sessions = Arc::clone(&self.0) as Arc<dyn StoresServerSessions>;
        config.session_storage = Arc::new(OfTerms::new(&sessions, policy, promises));
        config.ticketer = Arc::new(NoTickets);
        config.max_early_data_size = EARLY_BYTES_MAX;
    }
}

/// Bounded; the oldest makes room.
#[derive(Default)]
struct SessionStore(Mutex<KnownSessions>);

#[derive(Default)]
struct KnownSessions {
    sessions: HashMap<Vec<u8>, Vec<u8>>,
    /// Keys by age, also of sessions that have been taken out.
    order: VecDeque<Vec<u8>>,
}

impl SessionStore {
    fn lock(&self) -> MutexGuard<'_, KnownSessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SessionStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionStore").finish_non_exhaustive()
    }
}

impl StoresServerSessions for SessionStore {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let mut known = self.lock();
        let KnownSessions { sessions, order } = &mut *known;
        if sessions.insert(key.clone(), value).is_none() {
            order.push_back(key);
        }
        while sessions.len() > SESSIONS_MAX {
            let Some(oldest) = order.pop_front() else {
                break;
            };
            sessions.remove(&oldest);
        }
        if order.len() > 2 * SESSIONS_MAX {
            order.retain(|key| sessions.contains_key(key));
        }
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.lock().sessions.get(key).cloned()
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.lock().sessions.remove(key)
    }

    fn can_cache(&self) -> bool {
        true
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
        let store = Arc::clone(&sessions.0) as Arc<dyn StoresServerSessions>;
        let of = |byte, promises: &[u8]| OfTerms::new(&store, PolicyDigest::of(&[byte]), promises);
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

    fn session(number: usize) -> (Vec<u8>, Vec<u8>) {
        (number.to_be_bytes().to_vec(), b"session".to_vec())
    }

    #[test]
    fn the_oldest_makes_room() {
        let sessions = EarlySessions::default();
        sessions.continue_with((0..=SESSIONS_MAX).map(session));
        assert_eq!(sessions.0.get(&session(0).0), None);
        assert!(sessions.0.get(&session(1).0).is_some());
        // Those that were taken out are forgotten, too.
        for number in 0..5 * SESSIONS_MAX {
            sessions.continue_with([session(number)]);
            sessions.0.take(&session(number).0);
        }
        assert!(sessions.0.lock().order.len() <= 2 * SESSIONS_MAX);
    }

    #[test]
    fn sessions_are_good_in_one_process_only() {
        let (before, after) = (EarlySessions::default(), EarlySessions::default());
        before.continue_with((0..3).map(session));
        assert!(before.0.take(&session(1).0).is_some());
        let taken = before.take_all();
        assert_eq!(taken, [session(0), session(2)]);
        assert_eq!(before.0.take(&session(0).0), None);
        after.continue_with(taken);
        assert!(after.0.take(&session(0).0).is_some() && after.0.take(&session(1).0).is_none());
    }
}
