//! Admission of QUIC connections: the server's connection limit.
//!
//! Called by: the endpoint, for each connection attempt.
//! Out of scope: the limit per address, which is checked when the address is validated
//! (`connection_slot`).

use super::{connection_slot::ConnectionSlot, driver::Driver, qlog_file};
use crate::{
    admission::ConnectionPermit,
    worker::{Draining, Worker},
};
use saker_net::steering;
use saker_quic::{Admission, Recording};
use saker_telemetry::Metric;
use std::{net::SocketAddr, path::Path, rc::Rc};

pub struct WorkerAdmission<'a> {
    pub worker: &'a Rc<Worker>,
    pub is_closing: bool,
    /// Directory of qlog files, and whether a failure to write there has been reported.
    pub qlog: Option<&'a Path>,
    pub is_qlog_failure_said: &'a mut bool,
}

impl<D: Driver> Admission<ConnectionSlot<D>> for WorkerAdmission<'_> {
    fn admit(&mut self, _: SocketAddr) -> Option<ConnectionSlot<D>> {
        let worker = self.worker;
        let connections_max = worker
            .shared
            .connections_max(worker.services().generation.model.limits.connections_max);
        if self.is_closing
            || worker.draining.get() == Draining::All
            || !worker.shared.connections.enter(connections_max)
        {
            return None;
        }
        worker.counters.increment(Metric::ConnectionsAccepted);
        worker.counters.add(Metric::ConnectionsOpen, 1);
        Some(ConnectionSlot::new(ConnectionPermit::new(worker)))
    }

    /// After an upgrade, clients whose first packets waited here for too long send them again, and the
    /// kernel leads those to the successor; a refusal would be the end. It can't where the id that a
    /// client chose passes for one of ours.
    fn is_for_another(&self, connection_id: &[u8]) -> bool {
        let quic = self.worker.shared.quic();
        self.worker.is_succeeded.get()
            && quic.is_some_and(|quic| !steering::is_signed(connection_id, quic.secrets.tag))
    }

    fn recording(&mut self, connection_id: &[u8]) -> Option<Recording> {
        qlog_file::open(self.qlog?, connection_id, self.is_qlog_failure_said)
    }
}
