//! State of log-ins at the provider, which one request leaves to the next.
//!
//! Called by: `state`, which owns it; `oidc`.
//! Caveat: keys are this process's: a log-in that is under way does not go on over an upgrade.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use saker_identity::{SealKeys, provider::Provider};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

/// Metadata, with the stamp of its settings and the time of its fetching.
pub type Known = ([u8; 32], u64, Rc<Provider>);

/// The keys of log-ins under way, and the provider's metadata.
pub struct OidcState {
    /// `None`: the system gives no random bytes.
    pub keys: Option<SealKeys>,
    /// By the stamp of the settings.
    pub known: RefCell<Option<Known>>,
    pub failed_ms: Cell<Option<u64>>,
    pub fetching: tokio::sync::Mutex<()>,
}

impl Default for OidcState {
    fn default() -> OidcState {
        let mut key = [0; 48];
        let filled = aws_lc_rs::rand::fill(&mut key);
        OidcState {
            keys: filled
                .ok()
                .and_then(|()| SealKeys::parse(STANDARD.encode(key).as_bytes()).ok()),
            known: RefCell::default(),
            failed_ms: Cell::default(),
            fetching: tokio::sync::Mutex::default(),
        }
    }
}
