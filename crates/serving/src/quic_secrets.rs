//! Secrets and sessions of QUIC that all workers share and reloads keep.
//!
//! Called by: `shared`, which makes them when first needed; endpoints.

use saker_quic::{Secrets, TokenState};
use saker_tls::EarlySessions;

/// QUIC state of the process: shared by all workers, and kept across reloads.
pub struct QuicShared {
    pub secrets: Secrets,
    pub sessions: EarlySessions,
}

impl QuicShared {
    /// `None`: the system gives no random bytes.
    pub fn new() -> Option<QuicShared> {
        Some(QuicShared {
            secrets: Secrets::random()?,
            sessions: EarlySessions::default(),
        })
    }

    /// Beside a process that has this tag: packets must not be led to it by chance. `tokens`: those
    /// of that process.
    pub fn beside(tag: u16, tokens: Option<TokenState>) -> Option<QuicShared> {
        let mut shared = QuicShared::new()?;
        shared.secrets.tag = tag.wrapping_add(1);
        if let Some(tokens) = tokens {
            // More used ones than are remembered can only come from a broken process.
            let _ = shared.secrets.continue_tokens(tokens);
        }
        Some(shared)
    }
}
