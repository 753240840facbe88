//! A request that has been told, or is being told, and its answer: over a connection of its own, or
//! on a stream of a shared one.

use crate::{
    connection_exchange::ConnectionExchange,
    exchange_context::{TURN_BYTES_MAX, UpstreamEvent},
    failure::Failure,
    hints::Hints,
    http2::StreamExchange,
    tunnel::ProgramTunnel,
};
use saker_pipeline::RequestBody;
use std::{
    any::Any,
    future::poll_fn,
    task::{Context, Poll},
};

/// Size limit for draining a response that has been replaced; beyond it the connection is closed.
const UNWANTED_BYTES_MAX: usize = 16 << 20;

pub enum UpstreamExchange {
    Connection(Box<ConnectionExchange>),
    Stream(Box<StreamExchange>),
}

impl UpstreamExchange {
    /// The next thing that is said. Tells content while it waits.
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<UpstreamEvent, Failure>> {
        match self {
            UpstreamExchange::Connection(exchange) => exchange.poll_event(cx),
            UpstreamExchange::Stream(exchange) => exchange.poll_event(cx),
        }
    }

    /// Tells content without listening. `cx` is woken when more of it may be told.
    pub fn tell(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        match self {
            UpstreamExchange::Connection(exchange) => exchange.tell_only(cx),
            UpstreamExchange::Stream(exchange) => exchange.tell_only(cx),
        }
    }

    /// From here on early hints are passed on.
    pub fn pass_hints(&mut self, hints: Hints) {
        match self {
            UpstreamExchange::Connection(exchange) => exchange.hints = hints,
            UpstreamExchange::Stream(exchange) => exchange.hints = hints,
        }
    }

    /// Reads and discards the rest of the response, within its time limits and the size limit.
    pub async fn drain(&mut self) {
        let (mut heard, mut turn) = (0, 0);
        while let Ok(said @ (UpstreamEvent::Content(_) | UpstreamEvent::Trailers(_))) =
            poll_fn(|cx| self.poll_event(cx)).await
        {
            let bytes = if let UpstreamEvent::Content(content) = said {
                content.len()
            } else {
                0
            };
            (heard, turn) = (heard + bytes, turn + bytes);
            if heard > UNWANTED_BYTES_MAX {
                return;
            }
            if turn >= TURN_BYTES_MAX {
                turn = 0;
                tokio::task::yield_now().await;
            }
        }
    }

    /// Stops the timeout while the response isn't being read: that isn't the upstream's silence.
    pub fn pause(&self) {
        match self {
            UpstreamExchange::Connection(exchange) => exchange.pause(),
            UpstreamExchange::Stream(exchange) => exchange.pause(),
        }
    }

    /// The same, and wakes `cx` after that time.
    pub fn pause_for(&self, cx: &Context<'_>, after_ms: u64) {
        match self {
            UpstreamExchange::Connection(exchange) => exchange.pause_for(cx, after_ms),
            UpstreamExchange::Stream(exchange) => exchange.pause_for(cx, after_ms),
        }
    }

    /// Listening goes on.
    pub fn resume(&self) {
        match self {
            UpstreamExchange::Connection(exchange) => exchange.resume(),
            UpstreamExchange::Stream(exchange) => exchange.resume(),
        }
    }

    /// The request's content is over, or not wanted any more.
    pub fn has_told_all(&self) -> bool {
        match self {
            UpstreamExchange::Connection(exchange) => exchange.has_told_all(),
            UpstreamExchange::Stream(exchange) => exchange.has_told_all(),
        }
    }

    /// True if the request may be told to the same once more, on a fresh connection.
    pub fn may_tell_again(&self, failure: &Failure, is_idempotent: bool) -> bool {
        let is_unheard = match self {
            UpstreamExchange::Connection(exchange) => exchange.is_unheard(),
            UpstreamExchange::Stream(exchange) => exchange.is_unheard(),
        };
        matches!(failure, Failure::Unprocessed)
            || matches!(failure, Failure::Broken(_) | Failure::Io(_)) && is_unheard && is_idempotent
    }

    /// The client's content, to be told to another; `None` if some of it is gone.
    pub fn take_content(&mut self) -> Option<Box<dyn RequestBody>> {
        match self {
            UpstreamExchange::Connection(exchange) => exchange.take_content(),
            UpstreamExchange::Stream(exchange) => exchange.take_content(),
        }
    }

    /// After a change of protocol: the connection itself. `held` is dropped with it.
    pub fn into_tunnel(self, held: Box<dyn Any>) -> Option<ProgramTunnel> {
        match self {
            UpstreamExchange::Connection(exchange) => exchange.into_tunnel(held),
            // A stream does not change its protocol.
            UpstreamExchange::Stream(_) => None,
        }
    }
}
