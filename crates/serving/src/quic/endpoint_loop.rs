//! The loop of one UDP socket: receives, gives turns to connections with work, sends, and sleeps
//! until the next time limit.
//!
//! Called by: the event loop, as one task per worker and listener.
//! Caveat: all datagrams that are ready are received before the first turn, up to a bound, so that
//! a connection answers many datagrams in one send. While the send queue is full no connection
//! gets a turn, and clients slow down.

use super::{
    admission::WorkerAdmission,
    connection_slot::{ConnectionSlot, SlotContext},
    connection_wakers::ConnectionWakers,
    driver::Driver,
    endpoint_settings::EndpointSettings,
    metrics::{publish, publish_connection_stats},
};
use crate::worker::{Draining, Worker};
use saker_config::model::Address;
use saker_net::{Arrivals, BoundUdp, UdpSocket};
use saker_quic::{ConnectionStats, Endpoint, Id, Place, Settled, Unusable};
use saker_telemetry::{Metric, error_log, message};
use std::{
    cell::Cell,
    io,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};
use tokio::time::Sleep;

/// Batches taken in before turns are given, and rounds of turns before other tasks of the worker
/// have theirs.
const BATCHES_MAX: usize = 4;
const ROUNDS_MAX: usize = 4;

pub struct EndpointLoop<D> {
    worker: Rc<Worker>,
    address: Arc<Address>,
    is_closing: Rc<Cell<bool>>,
    endpoint: Endpoint<ConnectionSlot<D>>,
    terms: EndpointSettings,
    socket: UdpSocket,
    arrivals: Arrivals,
    wakers: ConnectionWakers,
    sleep: Pin<Box<Sleep>>,
    /// Time at which the sleep ends.
    wakes_at: Option<Instant>,
    is_full: bool,
    /// The last batch was as large as can be: the next one may come without a wake-up.
    was_full: bool,
    /// The draining state that connections have been notified of.
    drain_told: Draining,
    /// This endpoint's part of the worker's gauges.
    told: ConnectionStats,
    is_qlog_failure_said: bool,
}

impl<D: Driver> EndpointLoop<D> {
    /// Must be called within the worker's runtime.
    pub fn new(
        worker: &Rc<Worker>,
        address: &Arc<Address>,
        socket: BoundUdp,
        wakers: ConnectionWakers,
        is_closing: Rc<Cell<bool>>,
    ) -> Result<EndpointLoop<D>, Unusable> {
        let unusable = |error: io::Error| Unusable(error.to_string());
        let terms = EndpointSettings::of::<D>(worker, address)
            .ok_or_else(|| Unusable("the listener has no HTTP/3".into()))?;
        let shared = worker
            .shared
            .quic()
            .ok_or_else(|| Unusable("the system gives no random bytes".into()))?;
        let crypto = terms.crypto(shared)?;
        let socket = UdpSocket::register(socket).map_err(unusable)?;
        let place = Place {
            worker: worker.index,
            workers: worker.shared.counters.len(),
        };
        let endpoint = Endpoint::server(
            &terms.settings,
            &shared.secrets,
            crypto,
            place,
            socket.keeps_packets_whole(),
        );
        Ok(EndpointLoop {
            worker: Rc::clone(worker),
            address: Arc::clone(address),
            is_closing,
            endpoint,
            terms,
            socket,
            arrivals: Arrivals::default(),
            wakers,
            sleep: Box::pin(tokio::time::sleep_until(tokio::time::Instant::now())),
            wakes_at: None,
            is_full: false,
            was_full: false,
            drain_told: Draining::Nothing,
            told: ConnectionStats::default(),
            is_qlog_failure_said: false,
        })
    }

    /// Ready when the listener has been closed and the last connection is over, or the socket is
    /// broken.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.wakers.register(cx);
        for _ in 0..ROUNDS_MAX {
            let now = Instant::now();
            saker_net::clock::begin_turn();
            let Ok(has_received) = self.receive(cx, now) else {
                return Poll::Ready(());
            };
            self.collect(now);
            if !self.give_turns(cx, now) {
                return Poll::Pending;
            }
            publish(&self.endpoint.counts.take(), &self.worker.counters);
            publish_connection_stats(
                &self.endpoint.connection_stats,
                &mut self.told,
                &self.worker.counters,
            );
            if self.is_closing.get() && self.endpoint.is_empty() {
                return Poll::Ready(());
            }
            if !has_received && !self.endpoint.has_work() && self.is_asleep(cx) {
                return Poll::Pending;
            }
        }
        // Others are to have their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Closes all connections, and tells their clients as far as that is possible without waiting.
    pub fn cut(&mut self) {
        let now = Instant::now();
        let ids: Vec<Id> = self.endpoint.ids().collect();
        for id in ids {
            if let Some((connection, slot)) = self.endpoint.connection(id, now) {
                slot.cut(connection);
                self.endpoint.settle(id, now, &mut &self.socket);
            }
        }
    }

    /// Receives packets. Returns true if there were any.
    fn receive(&mut self, cx: &mut Context<'_>, now: Instant) -> io::Result<bool> {
        let mut has_received = false;
        let mut is_one = true;
        for _ in 0..BATCHES_MAX {
            match self.socket.poll_receive(cx, &mut self.arrivals) {
                Poll::Pending => break,
                Poll::Ready(Err(error)) => {
                    error_log::log(
                        &message::LISTENER_FAILED,
                        format_args!("{} (UDP): {error}", self.address),
                    );
                    return Err(error);
                }
                Poll::Ready(Ok(())) => {}
            }
            is_one &= !has_received && self.arrivals.is_one() && !self.was_full;
            self.was_full = self.arrivals.is_full();
            if !std::mem::replace(&mut has_received, true) {
                self.follow();
            }
            let (qlog, is_qlog_failure_said) = (
                self.terms.http3.qlog.as_deref(),
                &mut self.is_qlog_failure_said,
            );
            let mut admission = WorkerAdmission {
                worker: &self.worker,
                is_closing: self.is_closing.get(),
                qlog,
                is_qlog_failure_said,
            };
            for arrival in self.arrivals.iter() {
                self.endpoint
                    .receive(now, arrival, &mut admission, &mut &self.socket);
            }
            if !self.arrivals.is_full() {
                break;
            }
        }
        // Requests are handled when all datagrams have been read. Those after the first may be
        // younger than the wake-up.
        match is_one {
            _ if !has_received => {}
            true => self.worker.freshness.hear(),
            false => self.worker.freshness.look(),
        }
        Ok(has_received)
    }

    /// Follows a reload and changed certificates: new connections use the new settings.
    fn follow(&mut self) {
        if self.terms.is_current(&self.worker) {
            return;
        }
        let (Some(terms), Some(shared)) = (
            EndpointSettings::of::<D>(&self.worker, &self.address),
            self.worker.shared.quic(),
        ) else {
            return;
        };
        match terms.crypto(shared) {
            Ok(crypto) => self
                .endpoint
                .replace_server(&terms.settings, &shared.secrets, crypto),
            Err(error) => error_log::log(
                &message::CERTIFICATE_BAD,
                format_args!("{}, HTTP/3: {error}", self.address),
            ),
        }
        if *self.address != terms.address {
            self.address = Arc::new(terms.address.clone());
        }
        self.terms = terms;
        self.is_qlog_failure_said = false;
    }

    /// Collects connections whose timers have expired and those that were woken.
    fn collect(&mut self, now: Instant) {
        self.endpoint.expire(now);
        let endpoint = &mut self.endpoint;
        self.wakers.take(|id| endpoint.wake(id));
        let draining = self.worker.draining.get();
        if std::mem::replace(&mut self.drain_told, draining) != draining {
            endpoint.wake_all();
        }
    }

    /// `false`: the send queue is full, and the task is woken when it is not.
    fn give_turns(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        if self.is_full && !self.has_room_again(cx) {
            return false;
        }
        // A connection that wants another turn gets it in the next round.
        for _ in 0..self.endpoint.work_len() {
            let Some(id) = self.endpoint.next_with_work() else {
                break;
            };
            let again = self.give_turn(id, now);
            if self.endpoint.settle(id, now, &mut &self.socket) == Settled::Full {
                self.is_full = true;
                if again {
                    self.endpoint.wake(id);
                }
                if !self.has_room_again(cx) {
                    return false;
                }
            }
            if again {
                self.endpoint.wake(id);
            }
        }
        true
    }

    fn give_turn(&mut self, id: Id, now: Instant) -> bool {
        let host = SlotContext {
            worker: &self.worker,
            address: &self.address,
            acceptor: Some(&self.terms.acceptor),
        };
        let Some((connection, slot)) = self.endpoint.connection(id, now) else {
            return false;
        };
        let waker = slot
            .waker
            .get_or_insert_with(|| self.wakers.waker(id))
            .clone();
        slot.turn(&mut Context::from_waker(&waker), connection, &host)
    }

    fn has_room_again(&mut self, cx: &mut Context<'_>) -> bool {
        loop {
            match self.socket.poll_writable(cx) {
                Poll::Pending => return false,
                Poll::Ready(_) if self.endpoint.flush(&mut &self.socket) => {
                    self.is_full = false;
                    return true;
                }
                // A spurious wake-up.
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    self.worker.counters.increment(Metric::ClosedError);
                    return true;
                }
            }
        }
    }

    /// `false`: a time limit has been reached meanwhile.
    fn is_asleep(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(due) = self.endpoint.next_limit() else {
            return true;
        };
        if self.wakes_at != Some(due) {
            self.wakes_at = Some(due);
            self.sleep.as_mut().reset(due.into());
        }
        let is_up = self.sleep.as_mut().poll(cx).is_ready();
        if is_up {
            self.wakes_at = None;
        }
        !is_up
    }
}

impl<D> Drop for EndpointLoop<D> {
    fn drop(&mut self) {
        self.wakers.end();
    }
}
