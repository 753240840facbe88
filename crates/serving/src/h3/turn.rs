//! One turn of a connection: everything that a wake-up may concern, once; and the end of a
//! connection.
//!
//! Called by: `driver`, for each wake-up.

use super::connection::{Connection, Ending};
use crate::{
    mux::{Limit, Over, Pressure, Wire as _},
    quic::Turn,
    request::Cause,
};
use saker_http3::{ErrorCode, Outgoing};
use saker_quic::{Lost, Written};
use saker_telemetry::{Metric, error_log, message};
use std::task::Context;

/// Content made for one connection before others have their turn.
const TURN_BYTES_MAX: u64 = 1 << 20;
/// A head that has not come whole is the client's fault only after so long: packets are lost, too.
const HEAD_GRACE_MS: u64 = 1_000;
/// Round trips after GOAWAY in which the client may receive it and earlier requests may arrive.
const LINGER_ROUND_TRIPS: u32 = 2;
const LINGER_MS_MAX: u64 = 1_000;

impl Connection {
    /// Runs as far as that goes without waiting. `cx` is to give the connection another turn.
    pub fn turn(&mut self, cx: &mut Context<'_>, quic: &mut saker_quic::Connection) -> Turn {
        self.out.left = self.out.made + TURN_BYTES_MAX;
        if let Some(lost) = self.take_events(quic) {
            self.lost(&lost);
            return Turn::Over;
        }
        let (exchanges, mut wire) = self.with_wire(quic);
        exchanges.take_completions(&mut wire);
        exchanges.pump(cx, &mut wire);
        let is_full = !wire.has_room();
        self.read_on(quic);
        self.out.flush(quic);
        self.go_away(cx, quic);
        self.say_control(quic);
        if self.has_ended(cx, quic) {
            return Turn::Over;
        }
        self.wait(cx, quic);
        let again = is_full
            || !self.out.resumed.is_empty()
            || self
                .ending
                .as_ref()
                .is_some_and(|ending| !ending.is_graceful);
        if again { Turn::Again } else { Turn::Open }
    }

    /// Sends the pending bytes of our control, encoder, and decoder streams.
    fn say_control(&mut self, quic: &mut saker_quic::Connection) {
        if !self.machine.has_outgoing() {
            return;
        }
        for (place, which) in self.control.iter_mut().zip(Outgoing::ALL) {
            if self.machine.outgoing(which).is_empty() {
                continue;
            }
            if place.is_none() {
                *place = quic.open(false);
                place
                    .iter()
                    .for_each(|stream| quic.prioritize(*stream, CONTROL_PRIORITY));
            }
            let Some(stream) = *place else { continue };
            // After a partial write QUIC reports when there is room again.
            while let Written::Bytes(bytes @ 1..) = quic.write(stream, self.machine.outgoing(which))
            {
                self.machine.sent(which, bytes);
            }
        }
    }

    fn lost(&mut self, lost: &Lost) {
        let counters = &self.exchanges.session.worker.counters;
        let cause = match lost {
            Lost::TimedOut => Cause::Idle,
            Lost::ClosedByPeer { .. } | Lost::AbortedByPeer { .. } | Lost::Reset => Cause::Gone,
            Lost::ByUs => self
                .ending
                .as_ref()
                .map_or(Cause::Done, |ending| ending.cause),
            Lost::Fault { code, reason } => {
                counters.increment(Metric::Http3ConnectionErrors);
                error_log::log_about(
                    &message::HTTP3_ERROR,
                    &*self.exchanges.session.connection,
                    format_args!("QUIC error {code}: {reason}"),
                );
                Cause::Rejected
            }
        };
        counters.increment(cause.metric());
    }

    /// Sends GOAWAY when the connection is to end: at once, and a final one a round trip later,
    /// when all earlier requests have arrived (RFC 9114 section 5.2).
    fn go_away(&mut self, cx: &mut Context<'_>, quic: &saker_quic::Connection) {
        let session = &mut self.exchanges.session;
        if self.final_goaway_ms.is_none()
            && (self.out.wants_shut_down || session.is_draining() || session.is_banned())
        {
            self.machine.shut_down();
            self.final_goaway_ms = Some(saker_net::clock::turn_ms() + linger_ms(quic));
        }
        let Some(due_ms) = self.final_goaway_ms.filter(|_| self.machine.is_announced()) else {
            return;
        };
        if due_ms > saker_net::clock::turn_ms() {
            return self.wake_at(due_ms, cx);
        }
        self.machine.shut_down();
    }

    /// Closes the connection when it is time. QUIC's close discards bytes in flight, so everything
    /// must have arrived before.
    fn has_ended(&mut self, cx: &mut Context<'_>, quic: &mut saker_quic::Connection) -> bool {
        if self.ending.is_none()
            && self.machine.is_finished()
            && self.exchanges.is_empty()
            && self.has_arrived(quic)
        {
            self.end_gently(Cause::Done, quic);
        }
        let Some(ending) = &self.ending else {
            return false;
        };
        let (cause, code, due_ms) = (ending.cause, ending.code, ending.due_ms);
        if ending.is_graceful && due_ms > saker_net::clock::turn_ms() {
            self.wake_at(due_ms, cx);
            return false;
        }
        quic.close(code.into(), "");
        self.exchanges
            .session
            .worker
            .counters
            .increment(cause.metric());
        true
    }

    fn wake_at(&mut self, due_ms: u64, cx: &Context<'_>) {
        let deadlines = &self.exchanges.session.worker.deadlines;
        let deadline = self.deadline.get_or_insert_with(|| deadlines.add());
        deadline.arm(due_ms);
        deadline.register(cx);
    }

    fn has_arrived(&self, quic: &mut saker_quic::Connection) -> bool {
        self.out.is_empty() && quic.streams_undelivered() <= self.control.iter().flatten().count()
    }

    /// GOAWAY, and some time for it (RFC 9114 section 5.2).
    fn end_gently(&mut self, cause: Cause, quic: &saker_quic::Connection) {
        self.machine.go_away();
        let due_ms = saker_net::clock::turn_ms() + linger_ms(quic);
        self.ending = Some(Ending {
            cause,
            code: ErrorCode::NoError,
            is_graceful: true,
            due_ms,
        });
    }

    fn wait(&mut self, cx: &mut Context<'_>, quic: &mut saker_quic::Connection) {
        let pressure = self.pressure();
        match self.exchanges.wait(cx, pressure) {
            None => {}
            Some(Over::Rest) => self.trim(),
            Some(Over::End(cause, limit)) => {
                self.exchanges.rest_from_limits();
                match limit {
                    Limit::Head => self.end_now(cause, ErrorCode::RequestIncomplete),
                    Limit::Write | Limit::Window => self.end_now(cause, ErrorCode::ExcessiveLoad),
                    Limit::None | Limit::Idle | Limit::Resting => {
                        self.end_gently(cause, quic);
                        self.wake_at(saker_net::clock::turn_ms(), cx);
                        self.say_control(quic);
                    }
                }
            }
        }
    }

    fn end_now(&mut self, cause: Cause, code: ErrorCode) {
        self.ending = Some(Ending {
            cause,
            code,
            is_graceful: false,
            due_ms: 0,
        });
    }

    fn pressure(&self) -> Pressure {
        let late_ms = saker_net::clock::turn_ms().saturating_sub(HEAD_GRACE_MS);
        if self.out.is_held_up() {
            Pressure::Write
        } else if self
            .incoming
            .values()
            .any(|incoming| !incoming.has_head && incoming.began_ms <= late_ms)
        {
            Pressure::Head
        } else {
            Pressure::None
        }
    }

    fn trim(&mut self) {
        self.machine.trim();
        self.out.trim();
        self.incoming.shrink_to_fit();
        self.chunks = Default::default();
    }
}

/// Some round trips.
fn linger_ms(quic: &saker_quic::Connection) -> u64 {
    let linger_ms = (quic.rtt() * LINGER_ROUND_TRIPS).as_millis();
    u64::try_from(linger_ms)
        .unwrap_or(u64::MAX)
        .clamp(1, LINGER_MS_MAX)
}

/// Sent before all responses.
const CONTROL_PRIORITY: i32 = 100;

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(deadline) = &self.deadline {
            self.exchanges.session.worker.deadlines.remove(deadline);
        }
    }
}
