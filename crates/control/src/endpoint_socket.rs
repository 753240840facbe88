//! A TCP socket for operators (metrics, console) that changes with the configuration.
//!
//! Called by: the start and each reload, which bind it; the endpoint's loop, which accepts.
//! Caveat: binding comes before a configuration is put in force, because it may fail; a successor
//! binds the same address while its predecessor still serves it.
//! Out of scope: what is served, and to whom.

use saker_config::model::Origin;
use saker_net::{Bind, BindOptions};
use std::{
    cell::RefCell,
    io,
    net::{SocketAddr, TcpListener},
    os::fd::AsFd,
    rc::Rc,
    time::Duration,
};
use tokio::{net::TcpStream, sync::Notify};

/// Pause after a failed accept: no descriptor may be left.
const PAUSE: Duration = Duration::from_millis(100);
const BACKLOG: u32 = 64;

/// The socket of an endpoint.
#[derive(Default)]
pub struct EndpointSocket {
    bound: RefCell<Option<Bound>>,
    changed: Notify,
}

struct Bound {
    /// As configured; the port may be 0.
    address: SocketAddr,
    listener: TcpListener,
    /// Made when the first connection is waited for.
    accepting: Option<Rc<tokio::net::TcpListener>>,
}

/// A socket that a new configuration wants.
pub enum PreparedSocket {
    /// The one that is bound already, or none.
    Same,
    New(Option<(SocketAddr, TcpListener)>),
}

impl EndpointSocket {
    /// Binds the address if it is another one than before. `table`: the section of the
    /// configuration, for the error.
    pub fn prepare(
        &self,
        address: Option<SocketAddr>,
        table: &str,
        origin: &Origin,
    ) -> Result<PreparedSocket, String> {
        if self.address() == address {
            return Ok(PreparedSocket::Same);
        }
        let Some(address) = address else {
            return Ok(PreparedSocket::New(None));
        };
        let listener = bind(address).map_err(|error| {
            format!("{origin}: cannot listen on {address} for {table}: {error}\n")
        })?;
        Ok(PreparedSocket::New(Some((address, listener))))
    }

    pub fn put_in_force(&self, prepared: PreparedSocket) {
        if let PreparedSocket::New(socket) = prepared {
            let bound = socket.map(|(address, listener)| Bound {
                address,
                listener,
                accepting: None,
            });
            *self.bound.borrow_mut() = bound;
            self.changed.notify_one();
        }
    }

    /// The configured address.
    pub fn address(&self) -> Option<SocketAddr> {
        self.bound.borrow().as_ref().map(|bound| bound.address)
    }

    /// The address with the port that the kernel has chosen, for port 0.
    pub fn local_address(&self) -> Option<SocketAddr> {
        let bound = self.bound.borrow();
        bound.as_ref()?.listener.local_addr().ok()
    }

    /// Takes no more connections.
    pub fn close(&self) {
        *self.bound.borrow_mut() = None;
        self.changed.notify_one();
    }

    /// Waits for a connection to the current address.
    pub async fn accept(&self) -> (TcpStream, SocketAddr) {
        loop {
            let Some(listener) = self.accepting() else {
                self.changed.notified().await;
                continue;
            };
            let accepted = tokio::select! {
                () = self.changed.notified() => continue,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok(accepted) => return accepted,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    fn accepting(&self) -> Option<Rc<tokio::net::TcpListener>> {
        let mut bound = self.bound.borrow_mut();
        let bound = bound.as_mut()?;
        if bound.accepting.is_none() {
            let listener = bound.listener.try_clone().ok()?;
            bound.accepting = tokio::net::TcpListener::from_std(listener)
                .ok()
                .map(Rc::new);
        }
        bound.accepting.clone()
    }
}

/// Another server's socket or one of this server's may have the address already, or a part of it.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let options = BindOptions {
        backlog: BACKLOG,
        reuse_port: true,
        shares: true,
        ..BindOptions::default()
    };
    let socket = saker_net::bind(Bind::Tcp(address), options)?;
    Ok(socket.as_fd().try_clone_to_owned()?.into())
}
