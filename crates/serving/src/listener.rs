//! Accepting TCP and Unix connections: one task per listener and worker.
//!
//! Called by: `worker_thread`, on the main thread's command.
//! Caveat: when descriptors or the connection limit run out, the queue waits in the kernel, and a
//! short sleep keeps the loop from spinning.
//! Out of scope: what becomes of a connection (`accept`).

use crate::{accept, admission::ConnectionPermit, freshness::ReadOrigin, worker::Worker};
use saker_config::model::Address;
use saker_net::{Accepted, BoundSocket, Listener, PeerAddress};
use saker_telemetry::{Metric, error_log, message};
use std::{
    cell::Cell,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::sync::Notify;

/// Connections taken before other tasks of the worker get their turn.
const ACCEPTS_PER_TURN: usize = 64;
/// Pause when there is nothing to accept with.
const PAUSE: Duration = Duration::from_millis(50);

pub struct WorkerListener {
    pub address: Arc<Address>,
    closed: Cell<bool>,
    /// Connections in the queue are another process's.
    leaves_queue: Cell<bool>,
    wake: Notify,
}

impl WorkerListener {
    pub fn close(&self) {
        self.closed.set(true);
        self.wake.notify_one();
    }

    /// Accepts nothing from now on: another process accepts from the same queue.
    pub fn leave(&self) {
        self.leaves_queue.set(true);
        self.close();
    }
}

pub fn start(
    worker: &Rc<Worker>,
    address: Arc<Address>,
    socket: BoundSocket,
) -> Option<Rc<WorkerListener>> {
    let listener = match Listener::register(socket) {
        Ok(listener) => listener,
        Err(error) => {
            error_log::log(
                &message::LISTENER_FAILED,
                format_args!("{address}: {error}"),
            );
            return None;
        }
    };
    let handle = Rc::new(WorkerListener {
        address,
        closed: Cell::new(false),
        leaves_queue: Cell::new(false),
        wake: Notify::new(),
    });
    tokio::task::spawn_local(accept_loop(Rc::clone(worker), Rc::clone(&handle), listener));
    Some(handle)
}

async fn accept_loop(worker: Rc<Worker>, handle: Rc<WorkerListener>, listener: Listener) {
    let mut paused = false;
    while !handle.closed.get() {
        tokio::select! {
            ready = listener.readable() => if ready.is_err() { break },
            () = handle.wake.notified() => continue,
        }
        if handle.leaves_queue.get() {
            break;
        }
        match accept_some(&worker, &handle, &listener) {
            Turn::Again => {
                resumed(&mut paused);
                tokio::task::yield_now().await;
            }
            Turn::Empty => resumed(&mut paused),
            Turn::Exhausted(error) => {
                if !std::mem::replace(&mut paused, true) {
                    worker.counters.increment(Metric::AcceptPauses);
                    error_log::log(&message::ACCEPT_PAUSED, format_args!("{error}"));
                }
                tokio::time::sleep(PAUSE).await;
            }
            Turn::Full => {
                if !std::mem::replace(&mut paused, true) {
                    error_log::log(
                        &message::CONNECTION_LIMIT,
                        format_args!("{} open", worker.shared.connections.now()),
                    );
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    // Connections that arrived until now are still served; only then does the kernel refuse new
    // ones. Those in systemd's queue stay there.
    while !listener.is_inherited()
        && !handle.leaves_queue.get()
        && matches!(accept_some(&worker, &handle, &listener), Turn::Again)
    {}
}

fn resumed(paused: &mut bool) {
    if std::mem::replace(paused, false) {
        error_log::log(&message::ACCEPT_RESUMED, format_args!(""));
    }
}

enum Turn {
    /// There may be more.
    Again,
    Empty,
    /// No descriptors, no memory.
    Exhausted(io::Error),
    /// `limits.connections` is reached.
    Full,
}

fn accept_some(worker: &Rc<Worker>, handle: &WorkerListener, listener: &Listener) -> Turn {
    let connections_max = worker
        .shared
        .connections_max(worker.services().generation.model.limits.connections_max);
    for _ in 0..ACCEPTS_PER_TURN {
        if !worker.shared.connections.enter(connections_max) {
            return Turn::Full;
        }
        match listener.try_accept() {
            Ok(accepted) => take(worker, handle, accepted),
            Err(error) => {
                worker.shared.connections.leave();
                return match error.kind() {
                    io::ErrorKind::WouldBlock => Turn::Empty,
                    io::ErrorKind::Interrupted => Turn::Again,
                    _ => Turn::Exhausted(error),
                };
            }
        }
    }
    Turn::Again
}

/// Takes a connection that `connections` has counted already.
fn take(worker: &Rc<Worker>, handle: &WorkerListener, accepted: Accepted) {
    worker.counters.increment(Metric::ConnectionsAccepted);
    worker.counters.add(Metric::ConnectionsOpen, 1);
    let permit = ConnectionPermit::new(worker);
    let address = match accepted.peer {
        PeerAddress::Ip(address) => address,
        PeerAddress::Unix => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    };
    let local = local_address(&handle.address, &accepted);
    let origin = if accepted.by_wake_up {
        ReadOrigin::WakeUp
    } else {
        ReadOrigin::Unknown
    };
    accept::start(
        worker,
        permit,
        (accepted.stream, origin),
        address,
        local,
        Arc::clone(&handle.address),
    );
}

/// Asks the kernel only where the listener stands for several addresses.
fn local_address(listener: &Address, accepted: &Accepted) -> SocketAddr {
    match listener {
        Address::Tcp(address) if address.ip().is_unspecified() => accepted
            .stream
            .local_address()
            .ok()
            .flatten()
            .unwrap_or(*address),
        Address::Tcp(address) => *address,
        Address::Unix(_) => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    }
}
