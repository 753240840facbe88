//! Parts of the model that `[[stream]]` adds, until there is a model.
//!
//! Called by: `resolve/streams`, which makes them; `configuration`, which adds them.
//! Caveat: a stream that ends TLS is a site of the engine, which the host table of its listeners has.

use crate::model::{AccessLog, Address, DatagramListener, Listener, Model, Site, Stream};
use std::sync::Arc;

/// Parts of the model that streams add.
#[derive(Default)]
pub(crate) struct Streams {
    pub streams: Vec<Stream>,
    pub listeners: Vec<Listener>,
    pub datagrams: Vec<DatagramListener>,
    pub sites: Vec<Arc<Site>>,
    pub logs: Vec<AccessLog>,
}

impl Streams {
    /// Adds the streams to the model.
    pub fn add_to(self, model: &mut Model) {
        // A site that is on all listeners is on those of sites: a stream's certificates are its own.
        if !self.sites.is_empty() {
            let all = model.listeners.iter().map(|one| one.address.clone());
            let all: Vec<Address> = all.collect();
            for site in &mut model.sites {
                if site.listeners.is_empty() {
                    Arc::make_mut(site).listeners.clone_from(&all);
                }
            }
        }
        model.listeners.extend(self.listeners);
        model.sites.extend(self.sites);
        model.streams = self.streams.into();
        (model.datagrams, model.stream_logs) = (self.datagrams, self.logs);
    }
}
