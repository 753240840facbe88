//! Requests in 0-RTT (RFC 8470): what comes before the handshake is over may be somebody else's
//! copy of what a client sent once.
//!
//! What only reads is answered at once, and whoever is asked behind us is told by `Early-Data: 1`.
//! Everything else waits for the end of the handshake, which is one round trip away and which a
//! copy never sees; so no client has to ask twice.

use saker_http::RequestHead;

#[derive(Default)]
pub struct Early(pub(super) Vec<HeldRequest>);

pub struct HeldRequest {
    pub(super) stream: u64,
    pub(super) ends: bool,
    pub(super) head: RequestHead,
    pub(super) protocol: Option<Box<[u8]>>,
}

impl Early {
    pub fn holds(&self, stream: u64) -> bool {
        self.0.iter().any(|held| held.stream == stream)
    }

    pub fn forget(&mut self, stream: u64) {
        self.0.retain(|held| held.stream != stream);
    }
}
