//! Admission of connections: limits per server and per client address, bans, and the permit that
//! an open connection holds.
//!
//! Called by: listeners (TCP and QUIC); every session keeps its [`ConnectionPermit`].
//! Caveat: the limit per address is checked once the address is known to be the client's own:
//! after the PROXY preface, and after the QUIC handshake.
//! Out of scope: limits on requests, which are the session's and the pipeline's.

use crate::worker::{Draining, Worker};
use saker_abuse::violation;
use saker_pipeline::{Client, Generation};
use saker_rate_limits::{AddressState, ConnectionGuard};
use saker_telemetry::{Metric, error_log, message};
use std::{
    net::IpAddr,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
};

/// Reason why a new connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionError {
    Banned,
    /// Denied by a list of the server.
    Denied,
    /// The address has too many.
    Connections,
}

impl AdmissionError {
    /// Counts it and logs it.
    pub fn tell(self, worker: &Worker, client: &Client) {
        let (metric, rule) = match self {
            AdmissionError::Banned => (Metric::ClosedBanned, "ban"),
            AdmissionError::Denied => (Metric::ClosedDenied, "deny"),
            AdmissionError::Connections => {
                (Metric::ClosedPerAddressLimit, "connections_per_address")
            }
        };
        worker.counters.increment(metric);
        if self == AdmissionError::Connections {
            error_log::log_about(&message::ADDRESS_CONNECTION_LIMIT, client, format_args!(""));
        }
        error_log::log_about(
            &message::CLIENT_REFUSED,
            client,
            format_args!("address={} rule={rule} site=-", client.ip()),
        );
    }
}

/// A counted connection. Dropping it releases its place.
pub struct ConnectionPermit {
    worker: Rc<Worker>,
    /// Another has taken over the place.
    is_handed_over: bool,
    /// It was accepted after the server was asked to stop.
    is_late: bool,
    account: Option<ConnectionGuard>,
}

impl ConnectionPermit {
    /// Creates the permit of a connection that `Shared::connections` has already admitted.
    pub fn new(worker: &Rc<Worker>) -> ConnectionPermit {
        let is_late = worker.draining.get() != Draining::Nothing;
        if is_late {
            worker
                .shared
                .late_connections
                .fetch_add(1, Ordering::Relaxed);
        }
        ConnectionPermit {
            worker: Rc::clone(worker),
            is_handed_over: false,
            is_late,
            account: None,
        }
    }

    /// Hands the place over to the returned permit.
    pub fn hand_over(&mut self) -> ConnectionPermit {
        self.is_handed_over = true;
        ConnectionPermit {
            worker: Rc::clone(&self.worker),
            is_handed_over: false,
            is_late: self.is_late,
            account: self.account.take(),
        }
    }

    /// Returns true if the connection has to end as soon as it is idle.
    pub fn is_draining(&self) -> bool {
        match self.worker.draining.get() {
            Draining::Nothing => false,
            Draining::Earlier => !self.is_late,
            Draining::All => true,
        }
    }

    /// Checks bans and limits, and opens the client's account where a limit needs one.
    pub fn admit(&mut self, address: IpAddr) -> Result<(), AdmissionError> {
        let worker = Rc::clone(&self.worker);
        let services = worker.services();
        let (generation, neighbours) = (&services.generation, &worker.shared.abuse);
        let now_s = saker_net::clock::turn_s();
        if neighbours.bans.contains(address, now_s) {
            return Err(AdmissionError::Banned);
        }
        let guard = &generation.model.guard;
        // The clients of a trusted proxy are admitted one by one, with their requests.
        let is_proxy = generation.model.server.trusted_proxies.trusts(address);
        if !is_proxy && !guard.admittance.admits(address) {
            return Err(AdmissionError::Denied);
        }
        let max = generation.model.limits.connections_per_address_max;
        if max == 0 && !generation.throttles {
            return Ok(());
        }
        let is_exempt = is_proxy || generation.is_exempt(address);
        let max = if max == 0 || is_exempt {
            u32::MAX
        } else {
            u32::try_from(max).unwrap_or(u32::MAX)
        };
        let state = neighbours.addresses.state(address);
        let connected = state.connect(max);
        let soft_max = guard.connections_soft_max;
        if soft_max != 0 && !is_exempt {
            let over_ms = state.over_soft_ms(soft_max, saker_net::clock::turn_ms());
            if over_ms.is_some_and(|over_ms| over_ms > guard.grace_ms) {
                violation::ban(&neighbours.bans, guard, address, now_s, "connections_soft");
                return Err(AdmissionError::Banned);
            }
        }
        self.account = Some(connected.ok_or(AdmissionError::Connections)?);
        Ok(())
    }

    /// Returns whether the client has more connections than it may keep open without requests.
    pub fn is_over_soft(&self, generation: &Generation) -> bool {
        let max = generation.model.guard.connections_soft_max;
        max != 0
            && self
                .account
                .as_ref()
                .is_some_and(|account| u64::from(account.state().connections()) > max)
    }

    pub fn account(&self) -> Option<&Arc<AddressState>> {
        self.account.as_ref().map(ConnectionGuard::state)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        if self.is_handed_over {
            return;
        }
        if self.is_late {
            self.worker
                .shared
                .late_connections
                .fetch_sub(1, Ordering::Relaxed);
        }
        self.worker.shared.connections.leave();
        self.worker.counters.subtract(Metric::ConnectionsOpen, 1);
    }
}
