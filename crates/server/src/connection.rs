//! What every open connection holds of the worker: its place among the connections, and its client's account.

use crate::worker::Worker;
use saker_pipeline::throttle::{AddressState, ConnectionGuard};
use saker_telemetry::Metric;
use std::{net::IpAddr, rc::Rc, sync::Arc};

/// A counted connection. Dropping it gives its place back.
pub struct Opened {
    worker: Rc<Worker>,
    /// Another has taken over the place.
    is_handed_over: bool,
    account: Option<ConnectionGuard>,
}

impl Opened {
    /// For a connection that `Shared::connections` has already admitted.
    pub fn new(worker: &Rc<Worker>) -> Opened {
        Opened { worker: Rc::clone(worker), is_handed_over: false, account: None }
    }

    /// The same place, from now on held by what is returned.
    pub fn hand_over(&mut self) -> Opened {
        self.is_handed_over = true;
        Opened { worker: Rc::clone(&self.worker), is_handed_over: false, account: self.account.take() }
    }

    /// Opens the client's account, where a limit or a throttle asks for one. `false`: the address has too many connections.
    pub fn admit(&mut self, address: IpAddr) -> bool {
        let services = self.worker.services();
        let max = services.generation.model.limits.connections_per_address_max;
        if max == 0 && !services.generation.throttles {
            return true;
        }
        let max = if max == 0 { u32::MAX } else { u32::try_from(max).unwrap_or(u32::MAX) };
        self.account = self.worker.shared.addresses.state(address).connect(max);
        self.account.is_some()
    }

    pub fn account(&self) -> Option<&Arc<AddressState>> {
        self.account.as_ref().map(ConnectionGuard::state)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.is_handed_over {
            return;
        }
        self.worker.shared.connections.leave();
        self.worker.counters.subtract(Metric::ConnectionsOpen, 1);
    }
}
