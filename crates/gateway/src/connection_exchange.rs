//! One request told to a program and its answer heard, both at once, whatever the protocol.
//!
//! Used by the handler up to the response's head, and by the spool from there on. The difficulty is
//! that each side may get ahead, stop, or end at any moment: a program that answers without reading
//! the request is heard; one that is written to in vain is heard first, because it may have said
//! why; and what was promised (Content-Length) is counted for all protocols alike.

use crate::{
    codecs::Codec,
    exchange_context::{ExchangeContext, IdleLimit, TURN_BYTES_MAX, UpstreamEvent},
    failure::Failure,
    hints::Hints,
    input::Input,
    log_lines::{LogLines, Source},
    pool::{Connection, KeptLimits},
    transport::Transport,
    tunnel::ProgramTunnel,
};
use saker_cgi::{Broken, Event, Fault, ProgramRequest};
use saker_http::Method;
use saker_net::clock;
use saker_pipeline::{AttemptCounts, Chunk, NoBody, RequestBody, RequestLogContext};
use std::{
    any::Any,
    io,
    ops::Range,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

/// Request bytes that are ready to be sent; more content is not asked for before they have gone.
const OUT_BYTES_MAX: usize = 64 << 10;
/// Content is sent from where it lies if it is at least so long; less is copied behind the head, so
/// that both leave in one piece.
const IN_PLACE_BYTES_MIN: usize = 8 << 10;
/// Maximum reads and writes in one turn that produce nothing for the waiting caller (error output,
/// interim responses, content of the request).
const STEPS_MAX: usize = 8;
/// Parameters of one exchange.
pub struct Terms {
    /// Connections that are kept when they are idle.
    pub kept: KeptLimits,
    /// Without a byte in either direction.
    pub timeout_ms: u64,
    /// The same until the first word, where that is asked for before content goes.
    pub ping_ms: Option<u64>,
    /// For the log.
    pub client: RequestLogContext,
    /// FastCGI: texts of the error stream that make the response an invalid one.
    pub caught_errors: Arc<[Box<str>]>,
    /// For variables about the attempt.
    pub counts: Option<Rc<AttemptCounts>>,
}

impl Terms {
    /// For a connection that serves one request.
    pub fn once(timeout_ms: u64, client: RequestLogContext) -> Terms {
        Terms {
            kept: KeptLimits::default(),
            timeout_ms,
            ping_ms: None,
            client,
            caught_errors: Arc::default(),
            counts: None,
        }
    }
}

pub struct ConnectionExchange {
    connection: Option<Connection>,
    kept: KeptLimits,
    dialogue: Codec,
    out: Vec<u8>,
    sent: usize,
    /// Content that is sent from where it lies, behind `out`, and what goes behind it.
    in_place: Option<(Chunk, &'static [u8])>,
    input: Input,
    /// `None`: its end has been sent, or it is no longer wanted.
    content: Option<Box<dyn RequestBody>>,
    /// Content that has come and may not be told yet.
    untold: Option<Chunk>,
    is_end_told: bool,
    has_taken_content: bool,
    has_heard: bool,
    /// Remaining bytes of the promised content; `None`: no length was promised.
    left: Option<u64>,
    is_head_request: bool,
    limit: IdleLimit,
    timeout_ms: u64,
    is_pinged: bool,
    context: ExchangeContext,
    log: LogLines,
    /// Texts of the error stream that make the response an invalid one.
    caught_errors: Arc<[Box<str>]>,
    counts: Option<Rc<AttemptCounts>>,
    has_head: bool,
    pub hints: Hints,
}

impl ConnectionExchange {
    /// Tells what goes before the content, behind what is in `out` already; nothing is sent yet.
    pub fn begin(
        connection: Connection,
        terms: Terms,
        (mut dialogue, mut out): (Codec, Vec<u8>),
        request: &ProgramRequest<'_>,
        content: Box<dyn RequestBody>,
        context: &ExchangeContext,
    ) -> Result<Box<ConnectionExchange>, (Failure, Box<dyn RequestBody>)> {
        if let Err(refused) = dialogue.get_mut().begin(request, &mut out) {
            return Err((Failure::Refused(refused), content));
        }
        Ok(Box::new(ConnectionExchange {
            connection: Some(connection),
            kept: terms.kept,
            dialogue,
            out,
            sent: 0,
            in_place: None,
            input: Input::default(),
            content: Some(content),
            untold: None,
            is_end_told: false,
            has_taken_content: false,
            has_heard: false,
            left: None,
            is_head_request: request.head.method() == Method::Head,
            limit: IdleLimit::new(context, terms.ping_ms.unwrap_or(terms.timeout_ms)),
            timeout_ms: terms.timeout_ms,
            is_pinged: terms.ping_ms.is_some(),
            context: context.clone(),
            log: LogLines::new(terms.client, Source::Server),
            caught_errors: terms.caught_errors,
            counts: terms.counts,
            has_head: false,
            hints: Hints::default(),
        }))
    }

    /// The next thing that the program says. Sends what there is to send while it waits.
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Result<UpstreamEvent, Failure>> {
        for _ in 0..STEPS_MAX {
            if let Some(said) = self.parse()? {
                return Poll::Ready(Ok(said));
            }
            let has_sent = self.poll_send(cx)?;
            match self.poll_receive(cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(self.closed(None)),
                Poll::Ready(Ok(_)) => self.limit.push(),
                Poll::Ready(Err(error)) => return Poll::Ready(self.closed(Some(error))),
                Poll::Pending if has_sent => self.limit.push(),
                Poll::Pending if self.limit.is_over() => return Poll::Ready(Err(self.silence())),
                Poll::Pending => {
                    self.limit.register(cx);
                    return Poll::Pending;
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Tells content without listening. `cx` is woken when more of it may be told.
    pub fn tell_only(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        if self.poll_send(cx)? {
            // A turn may have ended, with more to tell.
            cx.waker().wake_by_ref();
        }
        Ok(())
    }

    fn silence(&self) -> Failure {
        if self.is_pinged && !self.has_heard {
            Failure::Unready
        } else {
            Failure::Timeout
        }
    }

    /// Stops the timeout while the response isn't being read: that isn't the program's silence.
    pub fn pause(&self) {
        self.limit.end();
    }

    /// The same, and wakes `cx` after that time.
    pub fn pause_for(&self, cx: &Context<'_>, after_ms: u64) {
        self.limit.look_again(cx, after_ms);
    }

    /// Listening goes on.
    pub fn resume(&self) {
        self.limit.push();
    }

    /// True if the program can't have begun with this request, as far as we can tell: the
    /// connection had ended before it.
    pub fn is_unheard(&self) -> bool {
        !self.has_heard
            && self
                .connection
                .as_ref()
                .is_some_and(|connection| connection.is_reused)
    }

    /// The client's content, to be told to another; `None` if some of it is gone.
    pub fn take_content(&mut self) -> Option<Box<dyn RequestBody>> {
        match self.has_taken_content {
            true => None,
            false => Some(self.content.take().unwrap_or_else(|| Box::new(NoBody))),
        }
    }

    /// The request's content is over, or not wanted any more.
    pub fn has_told_all(&self) -> bool {
        self.content.is_none()
    }

    /// After [`UpstreamEvent::Switched`]: the connection itself. `held` is dropped with it.
    pub fn into_tunnel(mut self, held: Box<dyn Any>) -> Option<ProgramTunnel> {
        let connection = self.connection.take()?;
        let ahead = self.input.unused().to_vec();
        let owed = self.out.get(self.sent..).unwrap_or_default().to_vec();
        let limit = IdleLimit::new(&self.context, self.limit.timeout_ms);
        Some(ProgramTunnel::new(
            connection,
            ahead,
            owed,
            limit,
            self.log.client.clone(),
            held,
        ))
    }

    fn parse(&mut self) -> Result<Option<UpstreamEvent>, Failure> {
        // Also where nothing is left of the input: the end may follow from what came before.
        loop {
            let from = self.input.used();
            let (used, event) = self.dialogue.get_mut().receive(self.input.unused())?;
            self.input.advance(used);
            match event {
                Some(event) => {
                    if let Some(said) = self.event(event, from)? {
                        return Ok(Some(said));
                    }
                }
                None if used == 0 => return Ok(None),
                None => {}
            }
        }
    }

    fn event(&mut self, event: Event, from: usize) -> Result<Option<UpstreamEvent>, Failure> {
        self.has_heard = true;
        self.limit.timeout_ms = self.timeout_ms;
        Ok(match event {
            Event::Head(head) => {
                let has_content = !self.is_head_request && !head.status.forbids_content();
                self.left = head.length.filter(|_| has_content);
                self.has_head = true;
                Some(UpstreamEvent::Head(head))
            }
            Event::Content(range) => self.content_of(from, range)?,
            Event::Log(range) => {
                let text = self.input.bytes(from, range);
                self.log.push(text);
                let is_in = |wanted: &str| {
                    text.windows(wanted.len().max(1))
                        .any(|part| part == wanted.as_bytes())
                };
                if !self.has_head && self.caught_errors.iter().any(|wanted| is_in(wanted)) {
                    let broken = Broken::at(Fault::Malformed, text);
                    self.log.flush();
                    return Err(Failure::Broken(broken));
                }
                None
            }
            Event::Trailers(fields) => Some(UpstreamEvent::Trailers(fields)),
            Event::Switched(head) => Some(UpstreamEvent::Switched(head)),
            Event::End { stays } => Some(self.end(stays)?),
            Event::Asks(_) if self.is_end_told => {
                self.dialogue.get_mut().end(&mut self.out);
                None
            }
            Event::Interim(head) => {
                self.hints.pass(head.status, &head.fields);
                None
            }
            Event::Asks(_) | Event::Taken { .. } => None,
        })
    }

    /// The promised length is the end, whatever else a program says (nginx does the same).
    fn content_of(
        &mut self,
        from: usize,
        range: Range<usize>,
    ) -> Result<Option<UpstreamEvent>, Failure> {
        if self.is_head_request {
            return Ok(None);
        }
        let mut range = range;
        if let Some(left) = &mut self.left {
            let wanted = usize::try_from(*left).map_or(range.len(), |left| left.min(range.len()));
            if wanted == 0 {
                return self.end(false).map(Some);
            }
            range.end = range.start + wanted;
            *left -= wanted as u64;
        }
        if let Some(counts) = &self.counts {
            AttemptCounts::add(&counts.content_bytes, range.len());
        }
        Ok(Some(UpstreamEvent::Content(self.input.run(from, range))))
    }

    fn end(&mut self, stays: bool) -> Result<UpstreamEvent, Failure> {
        self.log.flush();
        if self.left.is_some_and(|left| left > 0) {
            return Err(Failure::Length);
        }
        self.limit.end();
        if let Some(counts) = &self.counts {
            counts.ended_ns.set(Some(clock::monotonic_precise_ns()));
        }
        let is_quiet = self.is_end_told && self.has_sent_all() && self.input.unused().is_empty();
        self.content = None;
        if let Some(mut connection) = self.connection.take() {
            match stays && is_quiet {
                true => connection.give_back(self.kept),
                false => connection
                    .transport()
                    .into_iter()
                    .for_each(Transport::finish),
            }
        }
        Ok(UpstreamEvent::End)
    }

    /// Sends as much as may go, content of the request among it. Says whether anything went.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<bool, Failure> {
        let mut has_sent = false;
        let mut sent = 0;
        loop {
            if sent >= TURN_BYTES_MAX {
                return Ok(has_sent);
            }
            self.fill(cx)?;
            let Some(transport) = self.connection.as_mut().and_then(Connection::transport) else {
                return Ok(has_sent);
            };
            let left = self.out.get(self.sent..).unwrap_or_default();
            if left.is_empty() && self.in_place.is_none() {
                self.out.clear();
                self.sent = 0;
                if self.is_end_told {
                    transport.end_writing();
                }
                return Ok(has_sent);
            }
            let content = self.in_place.as_ref();
            let content = content.map_or(&[][..], |(chunk, _)| chunk.bytes());
            let polled = match content.is_empty() {
                true => transport.poll_write(cx, left),
                false => transport.poll_write_vectored(cx, left, content),
            };
            match polled {
                Poll::Ready(Ok(bytes)) if bytes > 0 => {
                    self.advance(bytes);
                    sent += bytes;
                    self.connection
                        .iter()
                        .for_each(|connection| connection.count_sent(bytes));
                    if let Some(counts) = &self.counts {
                        AttemptCounts::add(&counts.sent_bytes, bytes);
                    }
                    has_sent = true;
                }
                Poll::Pending => return Ok(has_sent),
                // It may have said why: that is heard before this counts.
                _ => self.stop_sending(),
            }
        }
    }

    fn has_sent_all(&self) -> bool {
        self.sent == self.out.len() && self.in_place.is_none()
    }

    /// So many bytes have gone.
    fn advance(&mut self, bytes: usize) {
        let of_out = bytes.min(self.out.len() - self.sent);
        self.sent += of_out;
        if let Some((chunk, behind)) = &mut self.in_place {
            chunk.advance(bytes - of_out);
            if chunk.is_empty() {
                self.out.clear();
                self.out.extend_from_slice(behind);
                (self.sent, self.in_place) = (0, None);
            }
        }
    }

    fn stop_sending(&mut self) {
        (self.content, self.untold, self.in_place) = (None, None, None);
        self.out.clear();
        self.sent = 0;
        self.connection
            .as_mut()
            .and_then(Connection::transport)
            .into_iter()
            .for_each(Transport::end_writing);
    }

    /// Puts content behind what is to be sent.
    fn fill(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        while self.in_place.is_none() && self.out.len() - self.sent < OUT_BYTES_MAX {
            let most = self.dialogue.get().content_max();
            if most == 0 {
                return Ok(());
            }
            if let Some(chunk) = self.untold.take() {
                self.tell(&chunk, most);
                continue;
            }
            let Some(content) = &mut self.content else {
                return Ok(());
            };
            match content.poll_chunk(cx) {
                Poll::Ready(Some(Ok(chunk))) if chunk.is_empty() => {}
                Poll::Ready(Some(Ok(chunk))) => self.tell(&chunk, most),
                Poll::Ready(None) => {
                    content
                        .trailers()
                        .into_iter()
                        .for_each(|fields| self.dialogue.get_mut().trailers(fields));
                    self.dialogue.get_mut().end(&mut self.out);
                    self.is_end_told = true;
                    self.content = None;
                }
                Poll::Ready(Some(Err(error))) => return Err(Failure::Client(error)),
                Poll::Pending => {
                    // The program is not to blame for a client that takes its time.
                    self.limit.push();
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// As much as may be told at once; the rest waits.
    fn tell(&mut self, chunk: &Chunk, most: usize) {
        self.has_taken_content = true;
        let now = chunk.len().min(most);
        let goes_in_place = now >= IN_PLACE_BYTES_MIN
            && self
                .connection
                .as_mut()
                .and_then(Connection::transport)
                .is_some_and(|transport| transport.sends_in_place());
        let framed = goes_in_place
            .then(|| self.dialogue.get_mut().frame(now, &mut self.out))
            .flatten();
        match framed {
            Some(behind) => self.in_place = Some((chunk.slice(0..now), behind)),
            None => self
                .dialogue
                .get_mut()
                .content(chunk.bytes().get(..now).unwrap_or_default(), &mut self.out),
        }
        self.untold = (now < chunk.len()).then(|| chunk.slice(now..chunk.len()));
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(transport) = self.connection.as_mut().and_then(Connection::transport) else {
            return Poll::Ready(Ok(0));
        };
        let scratch = &self.context.scratch;
        let read = self
            .input
            .fill(|room| transport.poll_read_behind(cx, room, scratch));
        if let Poll::Ready(Ok(bytes)) = read
            && let Some(connection) = &mut self.connection
        {
            connection.count_received(bytes);
            if let Some(counts) = &self.counts {
                AttemptCounts::add(&counts.received_bytes, bytes);
            }
            connection.hear();
        }
        read
    }

    /// The connection has ended. What ends with it, ends well.
    fn closed(&mut self, error: Option<io::Error>) -> Result<UpstreamEvent, Failure> {
        match self.dialogue.get_mut().closed() {
            Ok(Some(event)) => match self.event(event, self.input.used())? {
                Some(said) => Ok(said),
                None => Err(Broken::from(Fault::Cut).into()),
            },
            Ok(None) => Err(Broken::from(Fault::Cut).into()),
            Err(broken) => {
                self.log.flush();
                Err(error
                    .filter(|_| !self.has_heard)
                    .map_or(Failure::Broken(broken), Failure::Io))
            }
        }
    }
}

impl Drop for ConnectionExchange {
    fn drop(&mut self) {
        if let Some(counts) = self.counts.as_ref().filter(|_| self.has_head) {
            let ended_ns = counts.ended_ns.get();
            let now = || Some(clock::monotonic_precise_ns());
            counts.ended_ns.set(ended_ns.or_else(now));
        }
        self.context.keep_out_buffer(std::mem::take(&mut self.out));
    }
}
