//! Requests in 0-RTT data (RFC 8470) that wait for the end of the handshake, because they may be
//! replays.
//!
//! Called by: `ask`.
//! Caveat: safe requests are answered at once, and upstreams are told by `Early-Data: 1`. All
//! others wait one round trip for the end of the handshake, which a replay never reaches; so no
//! client has to repeat a request.

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
