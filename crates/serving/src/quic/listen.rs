//! UDP listeners of a worker.
//!
//! Called by: `worker_thread`, on the main thread's command.
//! Caveat: a closed listener accepts no new connections and serves existing ones until they end,
//! because their packets still arrive at its socket.

use super::{connection_wakers::ConnectionWakers, driver::Driver, endpoint_loop::EndpointLoop};
use crate::worker::Worker;
use saker_config::model::{Address, Http3};
use saker_net::BoundUdp;
use saker_telemetry::{error_log, message};
use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::Rc,
    sync::Arc,
};

/// The worker's handle of an endpoint loop.
pub struct QuicListener {
    pub address: Arc<Address>,
    port: u16,
    is_closing: Rc<Cell<bool>>,
    wakers: ConnectionWakers,
    cut: Box<dyn Fn()>,
}

impl QuicListener {
    /// Stops accepting connections; open ones are drained by the worker.
    pub fn close(&self) {
        self.is_closing.set(true);
        self.wakers.wake_loop();
    }

    /// The worker's draining has changed: connections look at it.
    pub fn look(&self) {
        self.wakers.wake_loop();
    }

    /// `Alt-Svc` value for clients over TCP (RFC 9114 section 3.1.1); `None`: HTTP/3 is not
    /// advertised.
    pub fn alt_svc(&self, http3: &Http3) -> Option<String> {
        let lifetime_s = http3.advertised_s.filter(|_| !self.is_closing.get())?;
        Some(format!("h3=\":{}\"; ma={lifetime_s}", self.port))
    }

    /// The worker ends now.
    pub fn cut(&self) {
        (self.cut)();
    }
}

pub fn start<D: Driver>(
    worker: &Rc<Worker>,
    address: Arc<Address>,
    socket: BoundUdp,
) -> Option<Rc<QuicListener>> {
    let port = socket.local_address().map_or(0, |actual| actual.port());
    let (wakers, is_closing) = (ConnectionWakers::default(), Rc::<Cell<bool>>::default());
    let turns = match EndpointLoop::<D>::new(
        worker,
        &address,
        socket,
        wakers.clone(),
        Rc::clone(&is_closing),
    ) {
        Ok(turns) => Rc::new(RefCell::new(turns)),
        Err(error) => {
            error_log::log(
                &message::LISTENER_FAILED,
                format_args!("{address} (UDP): {error}"),
            );
            return None;
        }
    };
    let to_cut = Rc::downgrade(&turns);
    let cut = Box::new(move || {
        if let Some(turns) = to_cut.upgrade()
            && let Ok(mut turns) = turns.try_borrow_mut()
        {
            turns.cut();
        }
    });
    tokio::task::spawn_local(poll_fn(move |cx| turns.borrow_mut().poll(cx)));
    Some(Rc::new(QuicListener {
        address,
        port,
        is_closing,
        wakers,
        cut,
    }))
}
