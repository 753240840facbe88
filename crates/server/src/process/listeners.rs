//! Listening sockets of the whole process: bound by the main thread, one descriptor per worker.
//!
//! TCP sockets share an address by SO_REUSEPORT, so that the kernel spreads connections over the workers; Unix sockets and sockets that
//! systemd handed over exist once, and each worker gets a duplicate.

use saker_config::model::{Address, Listener};
use saker_net::{Bind, BindOptions, BoundSocket, LocalAddress};
use saker_telemetry::{error_log, message};
use std::{collections::HashMap, io, net::SocketAddr, sync::Arc};

#[derive(Default)]
pub struct Listeners {
    /// From systemd, not yet asked for by a configuration.
    activated: HashMap<Address, BoundSocket>,
    bound: Vec<Bound>,
}

struct Bound {
    address: Arc<Address>,
    /// One per worker, until handed out.
    sockets: Vec<BoundSocket>,
    /// Kept for its file, which is removed at the end.
    unix: Option<BoundSocket>,
}

impl Listeners {
    /// Takes what a socket unit opened; it is used for listeners of the same address.
    pub fn adopt_activated(&mut self) {
        for socket in saker_net::systemd::activated_sockets() {
            match socket.local_address() {
                Ok(LocalAddress::Ip(address)) => drop(self.activated.insert(Address::Tcp(address), socket)),
                Ok(LocalAddress::Unix(path)) => drop(self.activated.insert(Address::Unix(path), socket)),
                Err(error) => error_log::log(&message::LISTENER_FAILED, format_args!("socket activation: {error}")),
            }
        }
    }

    /// Binds what is new. Binds all or nothing: the error names every address that failed.
    pub fn bind_all(&mut self, listeners: &[Listener], workers: usize) -> Result<Vec<Arc<Address>>, String> {
        let new: Vec<&Listener> = listeners.iter().filter(|listener| !self.has(&listener.address)).collect();
        let mut bound = Vec::new();
        let mut failures = Vec::new();
        for listener in new {
            match self.bind(listener, listeners, workers) {
                Ok(one) => bound.push(one),
                Err(error) => failures.push(format!("{}: cannot listen on {}: {error}\n", listener.origin, listener.address)),
            }
        }
        if !failures.is_empty() {
            return Err(failures.concat());
        }
        let added = bound.iter().map(|one| Arc::clone(&one.address)).collect();
        self.bound.extend(bound);
        Ok(added)
    }

    /// The sockets of a listener, one per worker, to be handed out. Empty if they were handed out before.
    pub fn take(&mut self, address: &Address) -> Vec<BoundSocket> {
        let found = self.bound.iter_mut().find(|one| *one.address == *address);
        found.map(|one| std::mem::take(&mut one.sockets)).unwrap_or_default()
    }

    /// Forgets listeners that are not in `keep`, and returns them.
    pub fn remove_all_but(&mut self, keep: &[Listener]) -> Vec<Arc<Address>> {
        let stays = |one: &Bound| keep.iter().any(|listener| listener.address == *one.address);
        let (kept, gone): (Vec<Bound>, Vec<Bound>) = std::mem::take(&mut self.bound).into_iter().partition(stays);
        self.bound = kept;
        gone.iter().map(|one| Arc::clone(&one.address)).collect()
    }

    pub fn addresses(&self) -> Vec<Arc<Address>> {
        self.bound.iter().map(|one| Arc::clone(&one.address)).collect()
    }

    fn has(&self, address: &Address) -> bool {
        self.bound.iter().any(|one| *one.address == *address)
    }

    fn bind(&mut self, listener: &Listener, all: &[Listener], workers: usize) -> io::Result<Bound> {
        let address = Arc::new(listener.address.clone());
        if let Some(socket) = self.activated.remove(&listener.address) {
            return Ok(Bound { address, sockets: duplicates(&socket, workers)?, unix: None });
        }
        let mut options = BindOptions { backlog: listener.backlog, defer_accept: true, reuse_port: true, v6_only: false };
        match &listener.address {
            Address::Tcp(tcp) => {
                options.v6_only = has_ipv4_twin(tcp, all);
                refuse_if_taken(*tcp, options)?;
                let sockets = (0..workers).map(|_| saker_net::bind(Bind::Tcp(*tcp), options)).collect::<io::Result<_>>()?;
                Ok(Bound { address, sockets, unix: None })
            }
            Address::Unix(path) => {
                let socket =
                    saker_net::bind(Bind::Unix(path, listener.mode), BindOptions { reuse_port: false, defer_accept: false, ..options })?;
                Ok(Bound { address, sockets: duplicates(&socket, workers)?, unix: Some(socket) })
            }
        }
    }
}

impl Bound {
    fn remove_file(&self) {
        if let Some(socket) = &self.unix {
            let _ = socket.unlink();
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.remove_file();
    }
}

fn duplicates(socket: &BoundSocket, workers: usize) -> io::Result<Vec<BoundSocket>> {
    (0..workers).map(|_| socket.try_clone()).collect()
}

/// SO_REUSEPORT would let a second server of the same user share the port without a word, each getting some of the connections. A
/// bind without it fails where anybody listens already.
fn refuse_if_taken(address: SocketAddr, options: BindOptions) -> io::Result<()> {
    saker_net::bind(Bind::Tcp(address), BindOptions { reuse_port: false, ..options }).map(drop)
}

/// `[::]:80` takes IPv4 too, unless the configuration has an IPv4 listener of that port.
fn has_ipv4_twin(address: &SocketAddr, all: &[Listener]) -> bool {
    all.iter().any(|other| matches!(&other.address, Address::Tcp(other) if other.is_ipv4() && other.port() == address.port()))
}
