//! One request told to a program and its answer heard, both at once, whatever the protocol.
//!
//! Used by the handler up to the response's head, and by the spool from there on. The difficulty is
//! that each side may get ahead, stop, or end at any moment: a program that answers without reading
//! the request is heard; one that is written to in vain is heard first, because it may have said
//! why; and what was promised (Content-Length) is counted for all protocols alike.

use crate::{
    failure::Failure,
    hints::Hints,
    log_lines::{LogLines, Source},
    pool::Connection,
    transport::Transport,
    tunnel::ProgramTunnel,
};
use saker_cgi::{Broken, Dialogue, Event, Fault, ProgramRequest, ResponseHead};
use saker_http::{Fields, Method};
use saker_net::{Deadline, Deadlines, clock};
use saker_pipeline::{Asker, Chunk, NoBody, RequestBody};
use std::{
    any::Any,
    cell::RefCell,
    io,
    ops::Range,
    rc::Rc,
    task::{Context, Poll},
};

/// Request bytes that are ready to be sent; more content is not asked for before they have gone.
const OUT_BYTES_MAX: usize = 64 << 10;
/// Room for most heads, and little enough for the allocator's quick path (glibc: up to 1032 bytes).
const OUT_BYTES: usize = 1024;
/// Maximum size of one read.
pub const READ_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes that a request moves in one turn, each way, before others get theirs. Otherwise a
/// program that is always ready would occupy the worker forever.
pub const TURN_BYTES_MAX: usize = 128 << 10;
/// Maximum reads and writes in one turn that produce nothing for the waiting caller (error output,
/// interim responses, content of the request).
const STEPS_MAX: usize = 8;
/// Event from a program, from which the caller builds a response.
pub enum Said {
    Head(ResponseHead),
    Content(Vec<u8>),
    Trailers(Fields),
    /// 101: the bytes that come from here on are another protocol's.
    Switched(ResponseHead),
    End,
}

/// State shared by a worker's conversations.
#[derive(Clone)]
pub struct Desk {
    pub deadlines: Rc<Deadlines>,
    /// For reads: lent while there are bytes.
    pub scratch: Rc<RefCell<Box<[u8]>>>,
}

/// Parameters of one conversation.
#[derive(Clone)]
pub struct Terms {
    /// Connections that are kept when they are idle.
    pub kept_max: usize,
    /// Without a byte in either direction.
    pub timeout_ms: u64,
    /// The same until the first word, where that is asked for before content goes.
    pub ping_ms: Option<u64>,
    /// For the log.
    pub client: Asker,
}

pub struct Conversation {
    connection: Option<Connection>,
    kept_max: usize,
    dialogue: Box<dyn Dialogue>,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    used: usize,
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
    limit: Limit,
    timeout_ms: u64,
    is_pinged: bool,
    desk: Desk,
    log: LogLines,
    pub hints: Hints,
}

impl Conversation {
    /// Tells what goes before the content; nothing is sent yet.
    pub fn begin(
        connection: Connection,
        terms: Terms,
        mut dialogue: Box<dyn Dialogue>,
        request: &ProgramRequest<'_>,
        content: Box<dyn RequestBody>,
        desk: &Desk,
    ) -> Result<Conversation, (Failure, Box<dyn RequestBody>)> {
        let mut out = Vec::with_capacity(OUT_BYTES);
        if let Err(refused) = dialogue.begin(request, &mut out) {
            return Err((Failure::Refused(refused), content));
        }
        Ok(Conversation {
            connection: Some(connection),
            kept_max: terms.kept_max,
            dialogue,
            out,
            sent: 0,
            input: Vec::new(),
            used: 0,
            content: Some(content),
            untold: None,
            is_end_told: false,
            has_taken_content: false,
            has_heard: false,
            left: None,
            is_head_request: request.head.method() == Method::Head,
            limit: Limit::new(desk, terms.ping_ms.unwrap_or(terms.timeout_ms)),
            timeout_ms: terms.timeout_ms,
            is_pinged: terms.ping_ms.is_some(),
            desk: desk.clone(),
            log: LogLines::new(terms.client.clone(), Source::Server),
            hints: Hints::default(),
        })
    }

    /// The next thing that the program says. Sends what there is to send while it waits.
    pub fn poll_said(&mut self, cx: &mut Context<'_>) -> Poll<Result<Said, Failure>> {
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

    /// After [`Said::Switched`]: the connection itself. `held` is dropped with it.
    pub fn into_tunnel(mut self, held: Box<dyn Any>) -> Option<ProgramTunnel> {
        let connection = self.connection.take()?;
        let (ahead, owed) = (
            self.input.split_off(self.used),
            self.out.split_off(self.sent),
        );
        let limit = Limit::new(&self.desk, self.limit.timeout_ms);
        Some(ProgramTunnel::new(
            connection,
            ahead,
            owed,
            limit,
            self.log.client.clone(),
            held,
        ))
    }

    fn parse(&mut self) -> Result<Option<Said>, Failure> {
        // Also where nothing is left of the input: the end may follow from what came before.
        loop {
            let from = self.used;
            let (used, event) = self
                .dialogue
                .receive(self.input.get(from..).unwrap_or_default())?;
            self.used += used;
            match event {
                Some(event) => {
                    if let Some(said) = self.event(event, from)? {
                        return Ok(Some(said));
                    }
                }
                None if used == 0 => break,
                None => {}
            }
        }
        self.forget_used();
        Ok(None)
    }

    fn forget_used(&mut self) {
        match self.used == self.input.len() {
            true => self.input.clear(),
            false => drop(self.input.drain(..self.used)),
        }
        self.used = 0;
    }

    fn event(&mut self, event: Event, from: usize) -> Result<Option<Said>, Failure> {
        self.has_heard = true;
        self.limit.timeout_ms = self.timeout_ms;
        Ok(match event {
            Event::Head(head) => {
                let has_content = !self.is_head_request && !head.status.forbids_content();
                self.left = head.length.filter(|_| has_content);
                Some(Said::Head(head))
            }
            Event::Content(range) => self.content_of(from, range)?,
            Event::Log(range) => {
                self.log.push(
                    self.input
                        .get(from + range.start..from + range.end)
                        .unwrap_or_default(),
                );
                None
            }
            Event::Trailers(fields) => Some(Said::Trailers(fields)),
            Event::Switched(head) => Some(Said::Switched(head)),
            Event::End { stays } => Some(self.end(stays)?),
            Event::Asks(_) if self.is_end_told => {
                self.dialogue.end(&mut self.out);
                None
            }
            Event::Interim(head) => {
                self.hints.pass(head.status, &head.fields);
                None
            }
            Event::Asks(_) | Event::Taken { .. } => None,
        })
    }

    /// Content beyond the promised length is dropped.
    fn content_of(&mut self, from: usize, range: Range<usize>) -> Result<Option<Said>, Failure> {
        if self.is_head_request {
            return Ok(None);
        }
        let content = self
            .input
            .get(from + range.start..from + range.end)
            .unwrap_or_default();
        if let Some(left) = &mut self.left {
            *left = left
                .checked_sub(content.len() as u64)
                .ok_or(Failure::Length)?;
        }
        Ok(Some(Said::Content(content.to_vec())))
    }

    fn end(&mut self, stays: bool) -> Result<Said, Failure> {
        self.log.flush();
        if self.left.is_some_and(|left| left > 0) {
            return Err(Failure::Length);
        }
        self.limit.end();
        let is_quiet =
            self.is_end_told && self.sent == self.out.len() && self.used == self.input.len();
        self.content = None;
        if let Some(mut connection) = self.connection.take() {
            match stays && is_quiet {
                true => connection.give_back(self.kept_max),
                false => connection
                    .transport()
                    .into_iter()
                    .for_each(Transport::finish),
            }
        }
        Ok(Said::End)
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
            if left.is_empty() {
                self.out.clear();
                self.sent = 0;
                if self.is_end_told {
                    transport.end_writing();
                }
                return Ok(has_sent);
            }
            match transport.poll_write(cx, left) {
                Poll::Ready(Ok(bytes)) if bytes > 0 => {
                    self.sent += bytes;
                    sent += bytes;
                    self.connection
                        .iter()
                        .for_each(|connection| connection.count(bytes));
                    has_sent = true;
                }
                Poll::Pending => return Ok(has_sent),
                // It may have said why: that is heard before this counts.
                _ => self.stop_sending(),
            }
        }
    }

    fn stop_sending(&mut self) {
        (self.content, self.untold) = (None, None);
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
        while self.out.len() - self.sent < OUT_BYTES_MAX {
            let most = self.dialogue.content_max();
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
                        .for_each(|fields| self.dialogue.trailers(fields));
                    self.dialogue.end(&mut self.out);
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
        self.dialogue
            .content(chunk.bytes().get(..now).unwrap_or_default(), &mut self.out);
        self.untold = (now < chunk.len()).then(|| chunk.slice(now..chunk.len()));
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(transport) = self.connection.as_mut().and_then(Connection::transport) else {
            return Poll::Ready(Ok(0));
        };
        let mut scratch = self.desk.scratch.borrow_mut();
        let read = transport.poll_read(cx, &mut scratch);
        if let Poll::Ready(Ok(bytes)) = read {
            self.input
                .extend_from_slice(scratch.get(..bytes).unwrap_or_default());
            if let Some(connection) = &mut self.connection {
                connection.count(bytes);
                connection.hear();
            }
        }
        read
    }

    /// The connection has ended. What ends with it, ends well.
    fn closed(&mut self, error: Option<io::Error>) -> Result<Said, Failure> {
        match self.dialogue.closed() {
            Ok(Some(event)) => match self.event(event, self.used)? {
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

/// Time without a byte. Moved by what is said, and looked at by the worker's ticker.
pub struct Limit {
    deadlines: Rc<Deadlines>,
    deadline: Rc<Deadline>,
    pub timeout_ms: u64,
}

impl Limit {
    pub fn new(desk: &Desk, timeout_ms: u64) -> Limit {
        let limit = Limit {
            deadlines: Rc::clone(&desk.deadlines),
            deadline: desk.deadlines.add(),
            timeout_ms,
        };
        limit.push();
        limit
    }

    pub fn push(&self) {
        self.deadline.arm(clock::monotonic_ms() + self.timeout_ms);
    }

    pub fn end(&self) {
        self.deadline.disarm();
    }

    pub fn is_over(&self) -> bool {
        self.deadline.is_over()
    }

    pub fn register(&self, cx: &Context<'_>) {
        self.deadline.register(cx);
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.deadlines.remove(&self.deadline);
    }
}
