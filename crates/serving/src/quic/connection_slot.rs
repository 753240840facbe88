//! A connection in the endpoint loop: in its handshake, with its driver, or closed.
//!
//! Called by: `endpoint_loop`, once per turn.
//! Caveat: the driver starts when the handshake is over, or, with early data of a client that has
//! proved its address by a token, when the server name is known. The limit on connections per
//! address is checked only then, because before that a spoofed address could use up another
//! client's share; rules by address and bans would hit it as well.

use super::driver::{Driver, Turn};
use crate::{
    admission::ConnectionPermit,
    request::{Http2Terms, Session},
    worker::Worker,
};
use saker_config::model::Address;
use saker_pipeline::Client;
use saker_quic::{Connection, Event, Lost};
use saker_telemetry::{Metric, error_log, message};
use saker_tls::{Acceptor, Agreed, PolicyDigest};
use std::{
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::Arc,
    task::{Context, Waker},
};

/// H3_NO_ERROR and H3_EXCESSIVE_LOAD (RFC 9114 section 8.1).
pub const NO_ERROR: u64 = 0x100;
const EXCESSIVE_LOAD: u64 = 0x107;

pub struct ConnectionSlot<D> {
    stage: Stage<D>,
    /// Made at its first turn.
    pub waker: Option<Waker>,
}

enum Stage<D> {
    Handshake(Option<ConnectionPermit>),
    Served(D),
    Over,
}

/// Facts shared by all connections of a listener.
pub struct SlotContext<'a> {
    pub worker: &'a Rc<Worker>,
    pub address: &'a Arc<Address>,
    pub acceptor: Option<&'a Acceptor>,
}

impl<D: Driver> ConnectionSlot<D> {
    pub fn new(permit: ConnectionPermit) -> ConnectionSlot<D> {
        ConnectionSlot {
            stage: Stage::Handshake(Some(permit)),
            waker: None,
        }
    }

    /// Runs a turn. Returns true if the connection wants another.
    pub fn turn(
        &mut self,
        cx: &mut Context<'_>,
        connection: &mut Connection,
        host: &SlotContext<'_>,
    ) -> bool {
        if let Stage::Handshake(permit) = &mut self.stage {
            match progress(connection, host) {
                Progress::None => return false,
                Progress::Failed => self.stage = Stage::Over,
                Progress::Begins => {
                    let session = permit
                        .take()
                        .and_then(|permit| session(connection, host, permit));
                    self.stage =
                        session.map_or(Stage::Over, |session| Stage::Served(D::new(session)));
                }
            }
        }
        match &mut self.stage {
            Stage::Served(driver) => match driver.turn(cx, connection) {
                Turn::Open => false,
                Turn::Again => true,
                Turn::Over => {
                    self.stage = Stage::Over;
                    false
                }
            },
            _ => {
                while connection.poll_event().is_some() {}
                false
            }
        }
    }

    /// The server ends now, whatever is open.
    pub fn cut(&mut self, connection: &mut Connection) {
        if !connection.is_closed() {
            connection.close(NO_ERROR, "");
        }
    }
}

enum Progress {
    None,
    Begins,
    Failed,
}

fn progress(connection: &mut Connection, host: &SlotContext<'_>) -> Progress {
    if connection.is_unproved_early_data() {
        return Progress::None;
    }
    while let Some(event) = connection.poll_event() {
        match event {
            Event::Hello if connection.has_early_data() => return Progress::Begins,
            Event::Established => return Progress::Begins,
            Event::Lost(lost) => {
                failed(connection, &lost, host);
                return Progress::Failed;
            }
            _ => {}
        }
    }
    Progress::None
}

fn failed(connection: &Connection, lost: &Lost, host: &SlotContext<'_>) {
    let counters = &host.worker.counters;
    counters.increment(Metric::TlsHandshakesFailed);
    counters.increment(if matches!(lost, Lost::Fault { .. }) {
        Metric::ClosedMalformed
    } else {
        Metric::ClosedByClient
    });
    if let Lost::Fault { code, reason } = lost {
        let client = client(connection, host);
        error_log::log_about(
            &message::TLS_HANDSHAKE_FAILED,
            &client,
            format_args!("QUIC error {code:#x}: {reason}"),
        );
    }
}

fn client(connection: &Connection, host: &SlotContext<'_>) -> Client {
    let (ip, port) = match &**host.address {
        Address::Tcp(address) => (connection.local().unwrap_or(address.ip()), address.port()),
        Address::Unix(_) => (IpAddr::from([0; 4]), 0),
    };
    let peer = connection.first_peer();
    let plain = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let mut client = Client::new(
        plain,
        SocketAddr::new(ip.to_canonical(), port),
        Arc::clone(host.address),
        true,
    );
    client.tls = true;
    client
}

/// `None`: the address has too many connections, and has been told.
fn session(
    connection: &mut Connection,
    host: &SlotContext<'_>,
    mut permit: ConnectionPermit,
) -> Option<Session> {
    let (worker, acceptor) = (host.worker, host.acceptor?);
    let mut client = client(connection, host);
    if let Err(error) = permit.admit(client.ip()) {
        error.tell(worker, &client);
        connection.close(EXCESSIVE_LOAD, "");
        return None;
    }
    let hello = connection.hello()?;
    let agreed = Agreed {
        server_name: hello.server_name,
        alpn: hello.alpn,
        suite: hello.suite?,
        group: hello.group,
        kind: hello.kind,
        client_certificates: hello.client_certificates,
        policy: PolicyDigest::from_bytes(hello.label),
        shown: hello.shown,
    };
    let info = acceptor.session_info_of_quic(agreed);
    worker.counters.increment(if info.resumed {
        Metric::TlsHandshakesResumed
    } else {
        Metric::TlsHandshakesFull
    });
    client.session = Some(Arc::new(info));
    let listeners = &worker.services().generation.model.listeners;
    let websockets = listeners
        .iter()
        .find(|listener| listener.address == **host.address)
        .is_none_or(|listener| listener.http2_websockets);
    let terms = Http2Terms {
        direct: false,
        upgrade: false,
        extended_connect: websockets,
    };
    Some(Session::new(Rc::clone(worker), client, permit, terms))
}
