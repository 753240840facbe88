//! x

use saker_config::model::Address;
use saker_pipeline::Client;
use std::{net::SocketAddr, sync::Arc};

/// As if a client had come that way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerEndpoint {
    /// As sites know the listener.
    pub listener: Arc<Address>,
    pub local: SocketAddr,
    pub tls: bool,
    /// Whether a proxy before us ends TLS.
    pub secure: bool,
}

impl ListenerEndpoint {
    pub fn client(&self) -> Client {
        let ours = match self.local {
            SocketAddr::V4(_) => SocketAddr::from(([127, 0, 0, 1], 0)),
            SocketAddr::V6(_) => SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 0)),
        };
        let mut client = Client::new(ours, self.local, Arc::clone(&self.listener), self.secure);
        client.tls = self.tls;
        client
    }
}
