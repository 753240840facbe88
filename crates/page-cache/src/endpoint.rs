//! The listener that a request of the cache's own pretends to have come through.
//!
//! Called by: `replay_request`, and the server for warm-ups.
//! Caveat: sites are selected by listener, so a page fetched through another one is another page.
//! Out of scope: opening connections; such requests never leave the process.

use saker_config::model::Address;
use saker_pipeline::Client;
use std::{net::SocketAddr, sync::Arc};

/// A listener, as a client of it would be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerEndpoint {
    /// The address by which sites know the listener.
    pub listener: Arc<Address>,
    pub local: SocketAddr,
    pub tls: bool,
    /// True if a proxy in front terminates TLS.
    pub secure: bool,
}

impl ListenerEndpoint {
    pub fn client(&self) -> Client {
        let address = match self.local {
            SocketAddr::V4(_) => SocketAddr::from(([127, 0, 0, 1], 0)),
            SocketAddr::V6(_) => SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 0)),
        };
        let mut client = Client::new(address, self.local, Arc::clone(&self.listener), self.secure);
        client.tls = self.tls;
        client
    }
}
