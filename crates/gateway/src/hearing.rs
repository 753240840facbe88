//! A request that has been told, or is being told, and its answer: over a connection of its own, or
//! on a stream of a shared one.

use crate::{
    conversation::{Conversation, Said, TURN_BYTES_MAX},
    failure::Failure,
    hints::Hints,
    http2::Talk,
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

pub enum Hearing {
    Connection(Box<Conversation>),
    Stream(Box<Talk>),
}

impl Hearing {
    /// The next thing that is said. Tells content while it waits.
    pub fn poll_said(&mut self, cx: &mut Context<'_>) -> Poll<Result<Said, Failure>> {
        match self {
            Hearing::Connection(conversation) => conversation.poll_said(cx),
            Hearing::Stream(talk) => talk.poll_said(cx),
        }
    }

    /// From here on early hints are passed on.
    pub fn pass_hints(&mut self, hints: Hints) {
        match self {
            Hearing::Connection(conversation) => conversation.hints = hints,
            Hearing::Stream(talk) => talk.hints = hints,
        }
    }

    /// Reads and discards the rest of the response, within its time limits and the size limit.
    pub async fn hear_out(&mut self) {
        let (mut heard, mut turn) = (0, 0);
        while let Ok(said @ (Said::Content(_) | Said::Trailers(_))) =
            poll_fn(|cx| self.poll_said(cx)).await
        {
            let bytes = if let Said::Content(content) = said {
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
            Hearing::Connection(conversation) => conversation.pause(),
            Hearing::Stream(talk) => talk.pause(),
        }
    }

    /// Listening goes on.
    pub fn resume(&self) {
        match self {
            Hearing::Connection(conversation) => conversation.resume(),
            Hearing::Stream(talk) => talk.resume(),
        }
    }

    /// The request's content is over, or not wanted any more.
    pub fn has_told_all(&self) -> bool {
        match self {
            Hearing::Connection(conversation) => conversation.has_told_all(),
            Hearing::Stream(talk) => talk.has_told_all(),
        }
    }

    /// True if the request may be told to the same once more, on a fresh connection.
    pub fn may_tell_again(&self, failure: &Failure, is_idempotent: bool) -> bool {
        let is_unheard = match self {
            Hearing::Connection(conversation) => conversation.is_unheard(),
            Hearing::Stream(talk) => talk.is_unheard(),
        };
        matches!(failure, Failure::Unprocessed)
            || matches!(failure, Failure::Broken(_) | Failure::Io(_)) && is_unheard && is_idempotent
    }

    /// The client's content, to be told to another; `None` if some of it is gone.
    pub fn take_content(&mut self) -> Option<Box<dyn RequestBody>> {
        match self {
            Hearing::Connection(conversation) => conversation.take_content(),
            Hearing::Stream(talk) => talk.take_content(),
        }
    }

    /// After a change of protocol: the connection itself. `held` is dropped with it.
    pub fn into_tunnel(self, held: Box<dyn Any>) -> Option<ProgramTunnel> {
        match self {
            Hearing::Connection(conversation) => conversation.into_tunnel(held),
            // A stream does not change its protocol.
            Hearing::Stream(_) => None,
        }
    }
}
