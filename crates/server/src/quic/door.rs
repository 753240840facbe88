//! Who may come in over UDP: the server's limit on connections. The limit per address is asked when the address is proved (`guest`).

use super::{Driver, guest::Guest};
use crate::{connection::Opened, worker::Worker};
use saker_quic::Door;
use saker_telemetry::Metric;
use std::{net::SocketAddr, rc::Rc};

pub struct WorkersDoor<'a> {
    pub worker: &'a Rc<Worker>,
    pub is_closing: bool,
}

impl<D: Driver> Door<Guest<D>> for WorkersDoor<'_> {
    fn admit(&mut self, _: SocketAddr) -> Option<Guest<D>> {
        let worker = self.worker;
        let connections_max = worker.shared.connections_max(worker.services().generation.model.limits.connections_max);
        if self.is_closing || worker.draining.get() || !worker.shared.connections.enter(connections_max) {
            return None;
        }
        worker.counters.increment(Metric::ConnectionsAccepted);
        worker.counters.add(Metric::ConnectionsOpen, 1);
        Some(Guest::new(Opened::new(worker)))
    }
}
