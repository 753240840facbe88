//! Waiting of a multiplexed connection: which limit runs, and what wakes the connection.
//!
//! Called by: the drivers, at the end of a turn.

use super::{
    exchanges::Exchanges,
    limit::{Limit, Over, Pressure},
};
use crate::request::Cause;
use saker_telemetry::{error_log, message};
use std::task::Context;

/// Time without requests after which an idle connection gives back the memory of earlier requests.
const REST_AFTER_MS: u64 = 2_000;

impl Exchanges {
    /// Sets the limit that applies, and sees to it that the connection is woken by whatever it
    /// waits for. Something: a limit is over, and the connection has been woken already.
    pub fn wait(&mut self, cx: &mut Context<'_>, pressure: Pressure) -> Option<Over> {
        let limit = self.limit_now(pressure);
        let progress = std::mem::take(&mut self.progress);
        if self.deadline.is_over() && limit == self.limit && !progress {
            cx.waker().wake_by_ref();
            return Some(self.over(limit));
        }
        if limit != self.limit || (progress && limit != Limit::Head) {
            self.limit = limit;
            match self.limit_ms(limit) {
                Some(limit_ms) => self.deadline.arm(now_ms() + limit_ms),
                None => self.deadline.disarm(),
            }
        }
        self.completions.register(cx);
        self.deadline.register(cx);
        if self.wakeups.register(cx) || !self.completions.is_empty() {
            cx.waker().wake_by_ref();
        }
        None
    }

    /// Suspends the limit until the next turn sets one.
    pub fn rest_from_limits(&mut self) {
        self.limit = Limit::None;
        self.deadline.disarm();
    }

    fn limit_now(&self, pressure: Pressure) -> Limit {
        match pressure {
            Pressure::Write => return Limit::Write,
            Pressure::Head => return Limit::Head,
            Pressure::None => {}
        }
        if self.streams.is_empty() {
            return if self.limit == Limit::Resting {
                Limit::Resting
            } else {
                Limit::Idle
            };
        }
        debug_assert_eq!(
            self.sending,
            self.streams
                .values()
                .filter(|stream| stream.pieces.is_some())
                .count()
        );
        debug_assert_eq!(
            self.waiting,
            self.streams.values().filter(|stream| stream.waits).count()
        );
        // Those that wait are held up by us.
        if self.sending > self.waiting {
            Limit::Window
        } else {
            Limit::None
        }
    }

    fn limit_ms(&self, limit: Limit) -> Option<u64> {
        let services = self.session.worker.services();
        let limits = self.session.limits(&services.generation);
        match limit {
            Limit::None => None,
            Limit::Idle => Some(limits.keep_alive_timeout_ms.min(REST_AFTER_MS)),
            Limit::Resting => Some(limits.keep_alive_timeout_ms.saturating_sub(REST_AFTER_MS)),
            Limit::Head => Some(limits.head_timeout_ms),
            Limit::Write | Limit::Window => Some(limits.write_timeout_ms),
        }
    }

    /// A request has come: the time without one is over, and must not end while the answer is made.
    pub(super) fn end_idleness(&mut self) {
        if matches!(self.limit, Limit::Idle | Limit::Resting) {
            self.rest_from_limits();
        }
    }

    /// Handles an expired limit. An idle connection rests first, if there is time for that.
    fn over(&mut self, limit: Limit) -> Over {
        if limit == Limit::Idle
            && let Some(left_ms) = self.limit_ms(Limit::Resting).filter(|left_ms| *left_ms > 0)
        {
            self.streams.shrink_to_fit();
            self.limit = Limit::Resting;
            self.deadline.arm(now_ms() + left_ms);
            return Over::Rest;
        }
        let client = &*self.session.connection;
        let cause = match limit {
            Limit::None | Limit::Idle | Limit::Resting => Cause::Idle,
            Limit::Head => Cause::HeadTimeout,
            Limit::Write | Limit::Window => Cause::WriteTimeout,
        };
        match cause {
            Cause::HeadTimeout => {
                error_log::log_about(&message::HEAD_TIMEOUT, client, format_args!(""))
            }
            Cause::WriteTimeout => {
                error_log::log_about(&message::WRITE_TIMEOUT, client, format_args!(""))
            }
            Cause::Idle => error_log::log_about(&message::IDLE_TIMEOUT, client, format_args!("")),
            _ => {}
        }
        Over::End(cause, limit)
    }
}

fn now_ms() -> u64 {
    saker_net::clock::turn_ms()
}
