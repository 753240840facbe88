//! Requests and their content, as far as that goes without waiting: answers from the route cache,
//! dispatches everything else, and hands content to its upload.
//!
//! Called by: the drivers, for each head and each piece of content.

use super::{
    exchanges::{Exchanges, INLINE_BYTES_MAX},
    stream::{DispatchTask, Stream},
    wire::{Reset, StreamId, Wire},
};
use crate::request::{Begun, Busy, FastPath, Hit, Pending, log, look_up, rejected};
use saker_http::{HeadView, Method, Status};
use saker_http1::RejectReason;
use saker_pipeline::{Body, BodyError, Decision, Response, respond};
use saker_rate_limits::Admission;
use saker_telemetry::{Metric, access_log::ConnectionStatus};
use std::rc::Rc;

/// nginx's status for a client that closed the connection; log analyzers know it.
const CLIENT_CLOSED_REQUEST: Status = Status(499);

impl Exchanges {
    /// A request has come.
    pub fn request(
        &mut self,
        id: StreamId,
        end_stream: bool,
        view: HeadView<'_>,
        wire: &mut impl Wire,
    ) {
        if !self.begin_request(view, wire) {
            return self.drop_client(id, wire);
        }
        // Content of other methods has the full checks, and no decision.
        let cached = match end_stream || view.method() == Method::Post {
            true => self.cached(id, view, wire),
            false => Cached::No,
        };
        match cached {
            Cached::Answered => {}
            Cached::Decided(decision) => {
                self.dispatch(id, view, end_stream, (None, Some(decision)));
            }
            Cached::Held(admission) => {
                self.dispatch(id, view, end_stream, (Some(admission), None));
            }
            Cached::No => self.dispatch(id, view, end_stream, (None, None)),
        }
    }

    /// Returns `false` if the client is banned and gets no response.
    pub(super) fn begin_request<W: Wire>(&mut self, view: HeadView<'_>, wire: &mut W) -> bool {
        self.end_idleness();
        let services = self.session.worker.services();
        let begun = self
            .session
            .begin_request(&services.generation, W::REQUESTS);
        if begun != Begun::Stays {
            wire.shut_down();
        }
        self.session.identify(&services.generation, view);
        begun != Begun::Banned
    }

    /// Ends a stream without a response, and the connection with it: nothing more is accepted, and
    /// the other requests get their turn to be refused.
    pub(super) fn drop_client(&mut self, id: StreamId, wire: &mut impl Wire) {
        self.forget(id, wire);
        wire.reset(id, Reset::Refused);
        wire.shut_down();
    }

    /// Answers from the route cache, if it knows this request.
    fn cached(&mut self, id: StreamId, view: HeadView<'_>, wire: &mut impl Wire) -> Cached {
        let worker = Rc::clone(&self.session.worker);
        let now = saker_net::clock::turn_s();
        let mut routes = worker.route_cache.borrow_mut();
        let services = worker.services.borrow();
        let found = look_up(
            &mut routes,
            &mut self.session,
            &services.generation,
            view,
            now,
        );
        drop(services);
        let mut hit = match found {
            FastPath::Hit(hit) => hit,
            FastPath::Held(admission) => return Cached::Held(admission),
            FastPath::Decided(decision) => return Cached::Decided(decision),
            FastPath::Miss => return Cached::No,
        };
        let length = hit.response.body.length();
        let body = match view.method() {
            Method::Head => Body::Empty,
            _ if hit.response.status.forbids_content() => Body::Empty,
            _ => std::mem::take(&mut hit.response.body),
        };
        let start = wire.made();
        let empty = body.length() == Some(0);
        wire.send_head(
            id,
            &hit.response,
            length,
            empty,
            &mut self.session.common_headers(&hit.response.head),
            now,
        );
        let body_bytes = match &body {
            _ if empty => 0,
            Body::Memory(chunk)
                if hit.pace.is_none()
                    && chunk.len() <= INLINE_BYTES_MAX
                    && wire.fits(id, chunk.len()) =>
            {
                wire.send_whole(id, chunk.bytes());
                chunk.len() as u64
            }
            _ => {
                let head_bytes = wire.made() - start;
                self.send_later(id, view, hit, body, head_bytes, wire);
                return Cached::Answered;
            }
        };
        let facts = hit.facts(true);
        log::now(&self.session, view, &facts, body_bytes, wire.made() - start);
        Cached::Answered
    }

    /// The body of a hit goes out in its turn, behind a head of `head_bytes` that has gone.
    fn send_later(
        &mut self,
        id: StreamId,
        view: HeadView<'_>,
        hit: Hit<'_>,
        body: Body,
        head_bytes: u64,
        wire: &mut impl Wire,
    ) {
        let stream = Stream {
            log: Pending::new(&self.session, view, &hit.facts(true)),
            pace: hit.pace,
            bytes: head_bytes,
            _busy: Some(Busy::begin(&self.session, view)),
            ..Stream::default()
        };
        self.streams.insert(id, stream);
        self.begin_body(id, body, wire);
    }

    /// Answers a request that is not dispatched.
    pub fn refuse(
        &mut self,
        id: StreamId,
        status: Status,
        view: HeadView<'_>,
        wire: &mut impl Wire,
    ) {
        let worker = Rc::clone(&self.session.worker);
        worker.counters.increment(Metric::RequestsRejected);
        let reason = match status {
            Status::URI_TOO_LONG => RejectReason::TargetTooLong,
            Status::REQUEST_HEADER_FIELDS_TOO_LARGE => RejectReason::HeadTooLarge,
            _ => RejectReason::BadTarget,
        };
        rejected::log(&self.session, reason, log::request_line(view.start_line()));
        if self.has_pages_for_refusals() {
            return self.dispatch_refused(id, view, status);
        }
        let mut response = respond::built_in_page(Response::new(status));
        let body = std::mem::take(&mut response.body);
        let start = wire.made();
        let now = saker_net::clock::turn_s();
        wire.send_head(
            id,
            &response,
            body.length(),
            false,
            &mut self.session.common_headers(&response.head),
            now,
        );
        let length = body.length().unwrap_or(0);
        log::refused(
            &self.session,
            status,
            view.start_line(),
            length,
            wire.made() - start + length,
        );
        self.streams.insert(id, Stream::default());
        self.begin_body(id, body, wire);
    }

    fn has_pages_for_refusals(&self) -> bool {
        let services = self.session.worker.services.borrow();
        let limits = self.session.limits(&services.generation);
        limits.refusals_have_pages
    }

    /// The content is not as long as the head says: the request is a bad one.
    pub fn refuse_content(&mut self, id: StreamId, end: bool) {
        self.progress = true;
        if let Some(upload) = self
            .streams
            .get(&id)
            .and_then(|stream| stream.upload.as_ref())
        {
            let mut upload = upload.borrow_mut();
            upload.fail(BodyError::Malformed);
            upload.ended |= end;
        }
    }

    /// Content has come. `flow_bytes` of window were used for it.
    pub fn content(
        &mut self,
        id: StreamId,
        data: &[u8],
        flow_bytes: usize,
        end: bool,
        wire: &mut impl Wire,
    ) {
        self.progress = true;
        match self
            .streams
            .get(&id)
            .and_then(|stream| stream.upload.as_ref())
        {
            Some(upload) => {
                upload.borrow_mut().push(data, flow_bytes, end);
                self.give_back(id, wire);
            }
            None => wire.release(id, flow_bytes),
        }
    }

    /// Returns true if drivers that can leave content unread should do so.
    pub fn is_upload_full(&self, id: StreamId) -> bool {
        self.streams
            .get(&id)
            .and_then(|stream| stream.upload.as_ref())
            .is_some_and(|upload| upload.borrow().is_full())
    }

    /// Opens the windows by the amount that an upload owes.
    pub(super) fn give_back(&mut self, id: StreamId, wire: &mut impl Wire) {
        let Some(upload) = self
            .streams
            .get(&id)
            .and_then(|stream| stream.upload.as_ref())
        else {
            return;
        };
        let mut upload = upload.borrow_mut();
        let owed = std::mem::take(&mut upload.owed);
        if std::mem::take(&mut upload.continue_due) {
            wire.send_continue(id);
        }
        if owed > 0 {
            wire.release(id, owed);
        }
    }

    /// The content's end has come, with trailers.
    pub fn upload_end(&mut self, id: StreamId, trailers: HeadView<'_>) {
        if let Some(upload) = self
            .streams
            .get(&id)
            .and_then(|stream| stream.upload.as_ref())
        {
            upload.borrow_mut().end(trailers);
        }
    }

    /// The client has reset the stream.
    pub fn reset<W: Wire>(&mut self, id: StreamId, wire: &mut W) {
        let Some(stream) = self.forget(id, wire) else {
            return;
        };
        if let Some(upload) = &stream.upload {
            upload.borrow_mut().fail(BodyError::Gone);
        }
        self.session.worker.counters.increment(W::STREAMS_RESET);
        self.log_cut(&stream);
    }

    pub(super) fn log_cut(&self, stream: &Stream) {
        stream.note_received();
        match (&stream.log, &stream.dispatch) {
            (Some(log), _) => log.write(
                &self.session,
                stream.body_bytes,
                stream.bytes,
                ConnectionStatus::Aborted,
            ),
            (
                None,
                Some(DispatchTask {
                    asked: Some(asked), ..
                }),
            ) => {
                log::left(&self.session, asked);
            }
            (None, Some(_)) => log::refused(&self.session, CLIENT_CLOSED_REQUEST, b"", 0, 0),
            (None, None) => {}
        }
    }
}

/// Result of looking up a request in the route cache.
enum Cached {
    /// The response is being sent.
    Answered,
    /// It goes to an upstream by this decision.
    Decided(Rc<Decision>),
    /// It has to wait, or is refused.
    Held(Admission),
    No,
}
