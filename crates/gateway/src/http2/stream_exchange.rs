//! One request on a stream, and its answer: what `connection_exchange` is for protocols with a connection
//! per request.
//!
//! Both directions go on at once and independently of each other, as gRPC needs it: content is told
//! when it comes and there is room for it, whatever the answer does.

use super::link::{Lost, Stream, StreamEvent};
use crate::{
    exchange_context::{ExchangeContext, IdleLimit, UpstreamEvent},
    failure::Failure,
    hints::Hints,
};
use saker_cgi::{Broken, Fault, response::INTERIM_COUNT_MAX};
use saker_http::Status;
use saker_net::clock;
use saker_pipeline::{AttemptCounts, Chunk, NoBody, RequestBody};
use std::{
    io,
    rc::Rc,
    task::{Context, Poll},
};

pub struct StreamExchange {
    stream: Stream,
    /// `None`: its end has been sent, or it is no longer wanted.
    content: Option<Box<dyn RequestBody>>,
    untold: Option<Chunk>,
    has_taken_content: bool,
    has_heard: bool,
    has_head: bool,
    limit: IdleLimit,
    pub hints: Hints,
    hint_count: usize,
    passes_trailers: bool,
    counts: Option<Rc<AttemptCounts>>,
}

impl StreamExchange {
    pub fn new(
        stream: Stream,
        content: Box<dyn RequestBody>,
        has_content: bool,
        timeout_ms: u64,
        (context, counts): (&ExchangeContext, Option<Rc<AttemptCounts>>),
    ) -> StreamExchange {
        let content = has_content.then_some(content);
        StreamExchange {
            stream,
            content,
            untold: None,
            has_taken_content: false,
            has_heard: false,
            has_head: false,
            limit: IdleLimit::new(context, timeout_ms),
            hints: Hints::default(),
            hint_count: 0,
            passes_trailers: true,
            counts,
        }
    }

    /// `passes`: trailers of the request go on.
    pub fn with_trailers(self, passes: bool) -> StreamExchange {
        StreamExchange {
            passes_trailers: passes,
            ..self
        }
    }

    /// The next thing that the server says. Tells content while it waits.
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<UpstreamEvent, Failure>> {
        let has_told = self.tell(cx)?;
        let has_hints = self.pass_hints();
        let heard = self.stream.input.borrow_mut().heard.pop_front();
        if has_told || has_hints || heard.is_some() {
            self.limit.push();
        }
        match heard {
            Some(heard) => Poll::Ready(self.said(heard)),
            None if self.limit.is_over() => {
                self.stream.link.suspect(self.limit.timeout_ms);
                Poll::Ready(Err(Failure::Timeout))
            }
            None => {
                self.stream.input.borrow_mut().register(cx);
                self.limit.register(cx);
                Poll::Pending
            }
        }
    }

    /// Tells content without listening. `cx` is woken when more of it may be told.
    pub fn tell_only(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        self.tell(cx)?;
        self.stream.input.borrow_mut().register(cx);
        Ok(())
    }

    pub fn pause(&self) {
        self.limit.end();
    }

    /// The same, and wakes `cx` after that time.
    pub fn pause_for(&self, cx: &Context<'_>, after_ms: u64) {
        self.limit.look_again(cx, after_ms);
    }

    pub fn resume(&self) {
        self.limit.push();
    }

    /// The request's content is over, or not wanted any more.
    pub fn has_told_all(&self) -> bool {
        self.content.is_none()
    }

    /// True if the server can't have begun with this request, as far as we can tell: the connection
    /// had ended before it.
    pub fn is_unheard(&self) -> bool {
        !self.has_heard && self.stream.is_reused
    }

    /// The client's content, to be told to another; `None` if some of it is gone.
    pub fn take_content(&mut self) -> Option<Box<dyn RequestBody>> {
        match self.has_taken_content {
            true => None,
            false => Some(self.content.take().unwrap_or_else(|| Box::new(NoBody))),
        }
    }

    /// Says whether any have come that count as progress: endless ones would outlast any limit.
    fn pass_hints(&mut self) -> bool {
        let come = std::mem::take(&mut self.stream.input.borrow_mut().hints);
        come.iter()
            .for_each(|fields| self.hints.pass(Status::EARLY_HINTS, fields));
        self.has_heard |= !come.is_empty();
        self.hint_count = self.hint_count.saturating_add(come.len());
        !come.is_empty() && self.hint_count <= INTERIM_COUNT_MAX as usize
    }

    fn said(&mut self, heard: StreamEvent) -> Result<UpstreamEvent, Failure> {
        self.has_heard |= !matches!(heard, StreamEvent::Lost(_));
        Ok(match heard {
            StreamEvent::Head(head) => {
                // From here on both talk, as slowly as the one time limit lets them.
                self.has_head = true;
                self.content
                    .iter_mut()
                    .for_each(|content| content.take_time());
                UpstreamEvent::Head(head)
            }
            StreamEvent::Content(content) => {
                self.stream.release(content.len());
                if let Some(counts) = &self.counts {
                    AttemptCounts::add(&counts.content_bytes, content.len());
                    AttemptCounts::add(&counts.received_bytes, content.len());
                }
                UpstreamEvent::Content(Chunk::from(content))
            }
            StreamEvent::Trailers(fields) => UpstreamEvent::Trailers(fields),
            StreamEvent::End => {
                self.limit.end();
                self.counts
                    .iter()
                    .for_each(|counts| counts.ended_ns.set(Some(clock::monotonic_precise_ns())));
                (self.content, self.untold) = (None, None);
                UpstreamEvent::End
            }
            StreamEvent::Lost(lost) => return Err(self.failure(lost)),
        })
    }

    fn failure(&self, lost: Lost) -> Failure {
        match lost {
            Lost::Unprocessed if !self.has_taken_content && !self.has_heard => Failure::Unprocessed,
            Lost::Unprocessed => Failure::Reset(saker_http2::ErrorCode::RefusedStream),
            Lost::Reset(code) => Failure::Reset(code),
            Lost::Fault(reason) => Failure::Broken(Broken::at(Fault::Malformed, reason.as_bytes())),
            Lost::Io(kind) => Failure::Io(io::Error::from(kind)),
        }
    }

    /// Tells as much content as there is and may be told. Says whether anything went.
    fn tell(&mut self, cx: &mut Context<'_>) -> Result<bool, Failure> {
        let mut has_told = false;
        while self.untold.is_some() || self.content.is_some() {
            if !self.stream.is_open() {
                // What it says about it is heard instead.
                (self.content, self.untold) = (None, None);
                break;
            }
            if !self.stream.has_room() {
                break;
            }
            if let Some(chunk) = self.untold.take() {
                let told = self.stream.send(chunk.bytes());
                self.counts
                    .iter()
                    .for_each(|counts| AttemptCounts::add(&counts.sent_bytes, told));
                self.untold = (told < chunk.len()).then(|| chunk.slice(told..chunk.len()));
                has_told |= told > 0;
                continue;
            }
            let Some(content) = &mut self.content else {
                break;
            };
            match content.poll_chunk(cx) {
                Poll::Ready(Some(Ok(chunk))) => {
                    self.has_taken_content |= !chunk.is_empty();
                    self.untold = Some(chunk).filter(|chunk| !chunk.is_empty());
                }
                Poll::Ready(None) => {
                    let trailers = content.trailers().filter(|_| self.passes_trailers);
                    self.stream.end(trailers);
                    self.content = None;
                    has_told = true;
                }
                Poll::Ready(Some(Err(error))) => return Err(Failure::Client(error)),
                Poll::Pending => {
                    // The server is not to blame for a client that takes its time before it has
                    // answered.
                    if !self.has_head {
                        self.limit.push();
                    }
                    break;
                }
            }
        }
        Ok(has_told)
    }
}
