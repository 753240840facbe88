//! State of the console: users, sessions, limits, event streams, and the change in progress.
//!
//! Called by: the supervisor, which owns it; everything in this crate.
//! Caveat: it lives on the main thread, so its parts are cells, and none is borrowed across an
//! `await`.

use crate::{
    log_in::LogInLimits,
    oidc_state::OidcState,
    passkey_store::Challenges,
    pending_change::Editor,
    sessions::{By, Identity, Sessions},
    users::Users,
};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    path::Path,
    rc::Rc,
    sync::Arc,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Event streams at a time.
pub const STREAMS_MAX: usize = 16;
/// Passwords that are verified at a time; each takes memory.
const VERIFICATIONS_MAX: usize = 1;
/// Look-ups, checks, and explanations at a time: each reads many files.
const LOOKS_MAX: usize = 2;

pub struct ConsoleState {
    pub(crate) users: RefCell<Users>,
    pub(crate) sessions: RefCell<Sessions>,
    pub(crate) limits: RefCell<LogInLimits>,
    /// Interval of the last one-time password, by user.
    pub(crate) used_codes: RefCell<HashMap<String, i64>>,
    /// Challenges for passkeys.
    pub(crate) challenges: RefCell<Challenges>,
    /// Log-in at the provider.
    pub(crate) oidc: OidcState,
    pub(crate) verifications: Arc<Semaphore>,
    looks: Arc<Semaphore>,
    pub(crate) editor: Editor,
    /// Number of the last warm-up of an owner, by site.
    pub(crate) site_jobs: RefCell<HashMap<String, u64>>,
    streams: Rc<Cell<usize>>,
}

impl Default for ConsoleState {
    fn default() -> ConsoleState {
        ConsoleState {
            users: RefCell::default(),
            sessions: RefCell::default(),
            limits: RefCell::default(),
            used_codes: RefCell::default(),
            challenges: RefCell::default(),
            oidc: OidcState::default(),
            verifications: Arc::new(Semaphore::new(VERIFICATIONS_MAX)),
            looks: Arc::new(Semaphore::new(LOOKS_MAX)),
            editor: Editor::default(),
            site_jobs: RefCell::default(),
            streams: Rc::default(),
        }
    }
}

impl ConsoleState {
    /// Makes a token for a link; `None`: the system gives no random bytes.
    pub fn make_link(&self, now_s: i64) -> Option<String> {
        self.sessions.borrow_mut().make_link(now_s)
    }

    /// The sessions, for the server after an upgrade. It goes over the control socket, which only
    /// the server's operator may use.
    pub fn hand_over(&self) -> serde_json::Value {
        self.sessions.borrow().hand_over()
    }

    /// Takes over the sessions of the server before an upgrade.
    pub fn take_over(&self, offered: &serde_json::Value) {
        self.sessions.borrow_mut().take_over(offered);
    }

    /// Reads the users file again if it has changed. After an error there are no users; log-in
    /// reports it.
    pub(crate) fn refresh_users(&self, path: &Path) -> Result<(), String> {
        let refreshed = self.users.borrow_mut().refresh(path);
        refreshed.map_err(|error| error.to_string())
    }

    /// Takes note of the provider in force.
    pub(crate) fn set_provider(&self, stamp: Option<[u8; 32]>) {
        self.sessions.borrow_mut().set_provider(stamp);
    }

    pub(crate) fn token_identity(&self, token: &str) -> Option<Identity> {
        let users = self.users.borrow();
        users.token(token).map(|account| Identity {
            name: account.name.clone(),
            role: account.role,
            site: account.site.clone(),
            is_account: true,
            by: By::Token,
        })
    }

    pub(crate) fn session_identity(&self, token: &str, now_s: i64) -> Option<Identity> {
        let mut sessions = self.sessions.borrow_mut();
        sessions.identity(token, &self.users.borrow(), now_s)
    }

    /// Waits for the permit to read many files.
    pub async fn look(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.looks).acquire_owned().await.ok()
    }

    /// A place for an event stream; `None`: there are too many.
    pub(crate) fn enter_stream(&self) -> Option<Counted> {
        Counted::enter(&self.streams, STREAMS_MAX)
    }
}

/// One of a bounded number, until it is dropped.
pub(crate) struct Counted(Rc<Cell<usize>>);

impl Counted {
    pub fn enter(count: &Rc<Cell<usize>>, max: usize) -> Option<Counted> {
        if count.get() >= max {
            return None;
        }
        count.set(count.get() + 1);
        Some(Counted(Rc::clone(count)))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_bounded() {
        let state = ConsoleState::default();
        let permits: Vec<_> = (0..LOOKS_MAX)
            .map(|_| Arc::clone(&state.looks).try_acquire_owned())
            .collect();
        assert!(permits.iter().all(Result::is_ok));
        assert!(Arc::clone(&state.looks).try_acquire_owned().is_err());
    }

    #[test]
    fn streams_are_bounded() {
        let state = ConsoleState::default();
        let mut open: Vec<_> = (0..STREAMS_MAX)
            .filter_map(|_| state.enter_stream())
            .collect();
        assert_eq!(open.len(), STREAMS_MAX);
        assert!(state.enter_stream().is_none());
        open.pop();
        assert!(state.enter_stream().is_some());
    }
}
