//! UDP addresses of stream servers, as the engine's datagrams need them.
//!
//! Called by: `worker_thread`, on the main thread's command.
//! Caveat: a session is counted as a connection, with the same limits.
//! Out of scope: sessions (`saker_stream_proxy::datagrams`).

use super::Streams;
use crate::{admission::ConnectionPermit, worker::Worker};
use saker_config::model::{Address, StreamServer};
use saker_net::BoundUdp;
use saker_pipeline::Client;
use saker_rate_limits::Counted;
use saker_stream_proxy::{
    Session, StreamContext,
    datagrams::{Admission, DatagramListening, DatagramServer},
};
use saker_telemetry::{Metric, error_log, message};
use std::{
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
};

/// Starts receiving on an address; `None`: it failed, which is logged.
pub fn listen(
    worker: &Rc<Worker>,
    address: Arc<Address>,
    socket: BoundUdp,
) -> Option<Rc<DatagramServer>> {
    let listening = Listening {
        worker: Rc::clone(worker),
        address: Arc::clone(&address),
    };
    match DatagramServer::start(Arc::clone(&address), socket, Box::new(listening)) {
        Ok(server) => Some(server),
        Err(error) => {
            let facts = format_args!("{address} (UDP): {error}");
            error_log::log(&message::LISTENER_FAILED, facts);
            None
        }
    }
}

/// An address, in its worker.
struct Listening {
    worker: Rc<Worker>,
    address: Arc<Address>,
}

impl Listening {
    fn streams(&self) -> Option<Rc<Streams>> {
        self.worker.streams()
    }
}

impl DatagramListening for Listening {
    fn context(&self) -> Option<Rc<StreamContext>> {
        Some(Rc::clone(&self.streams()?.context))
    }

    fn server(&self) -> Option<Arc<StreamServer>> {
        let services = self.worker.services();
        let all = &services.generation.model.datagrams;
        let known = all
            .iter()
            .find(|known| Address::Tcp(known.address) == *self.address)?;
        Some(Arc::clone(&known.server))
    }

    fn admit(&self, client: SocketAddr) -> Option<Admission> {
        let worker = &self.worker;
        let limits_max = worker.services().generation.model.limits.connections_max;
        let connections_max = worker.shared.connections_max(limits_max);
        if !worker.shared.connections.enter(connections_max) {
            return None;
        }
        worker.counters.increment(Metric::ConnectionsAccepted);
        worker.counters.add(Metric::ConnectionsOpen, 1);
        let mut permit = ConnectionPermit::new(worker);
        if let Err(error) = permit.admit(client.ip().to_canonical()) {
            let client = Client::new(client, client, Arc::clone(&self.address), false);
            error.tell(worker, &client);
            return None;
        }
        Some(Admission {
            number: worker.shared.sessions.fetch_add(1, Ordering::Relaxed),
            place: Counted::new(move || drop(permit)),
        })
    }

    fn refuse_preface(&self, peer: SocketAddr) {
        let counters = &self.worker.counters;
        counters.increment(Metric::ProxyPrefacesRefused);
        error_log::log_client(&message::PROXY_PREFACE_BAD, peer, format_args!("over UDP"));
    }

    fn log(&self, session: &mut Session) {
        if let Some(streams) = self.streams() {
            streams.log(session);
        }
    }
}
