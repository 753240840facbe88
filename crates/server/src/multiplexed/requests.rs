//! Requests and their content, as far as that goes without waiting: answers from resolved
//! resources, sends everything else on its walk, and hands content to the uploads it belongs to.

use super::{Exchanges, INLINE_BYTES_MAX, Reset, StreamId, Wire, stream::Stream};
use crate::serving::{Begun, Busy, Facts, Pending, Throttled, fast_key, log, rejected};
use saker_http::{HeadView, Method, Status};
use saker_http1::RejectReason;
use saker_pipeline::{Body, BodyError, Response, ResponseHead, field_edits, respond};
use saker_rate_limits::Admission;
use saker_telemetry::{Metric, access_log::ConnectionStatus};
use std::rc::Rc;

/// What nginx' logs have for a client that went away, and log readers know.
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
        if !self.begin_request(wire) {
            return self.drop_client(id, wire);
        }
        let held = match end_stream {
            true => self.resolved(id, view, wire),
            false => Resolved::No,
        };
        match held {
            Resolved::Answered => {}
            Resolved::Held(admission) => self.walk(id, view, end_stream, Some(admission)),
            Resolved::No => self.walk(id, view, end_stream, None),
        }
    }

    /// `false`: nobody answers it.
    pub(super) fn begin_request<W: Wire>(&mut self, wire: &mut W) -> bool {
        self.end_idleness();
        let services = self.session.worker.services();
        let begun = self
            .session
            .begin_request(&services.generation, W::REQUESTS);
        if begun != Begun::Stays {
            wire.shut_down();
        }
        begun != Begun::Banned
    }

    /// Ends a stream without an answer, and the connection with it: nothing more is taken, and what
    /// else is under way gets its turn to be refused.
    pub(super) fn drop_client(&mut self, id: StreamId, wire: &mut impl Wire) {
        self.forget(id, wire);
        wire.reset(id, Reset::Refused);
        wire.shut_down();
    }

    /// Answers from a resolved resource, if there is one for this request.
    fn resolved(&mut self, id: StreamId, view: HeadView<'_>, wire: &mut impl Wire) -> Resolved {
        let client = Rc::clone(&self.session.client);
        let Some(key) = fast_key(&client.listener, view) else {
            return Resolved::No;
        };
        let worker = Rc::clone(&self.session.worker);
        let now = saker_net::clock::turn_s();
        let mut resources = worker.resources.borrow_mut();
        let Some((mut response, entry)) =
            resources.answer(&key, view, now, saker_net::clock::turn_ms())
        else {
            return Resolved::No;
        };
        if !self
            .session
            .is_good_for(&worker.services.borrow().generation, entry.site_index)
        {
            return Resolved::No;
        }
        let throttled = match entry.throttled {
            true => self.session.throttle(
                &entry.settings,
                entry.site_index,
                response.body.length().unwrap_or(0),
            ),
            false => Throttled::No,
        };
        let pace = match throttled {
            Throttled::No => None,
            Throttled::Paced(pace) => Some(pace),
            Throttled::Held(admission) => return Resolved::Held(admission),
            Throttled::Walk => return Resolved::No,
        };
        let length = response.body.length();
        if let ResponseHead::Built(fields) = &mut response.head {
            field_edits::apply(&entry.settings.fields, response.status, fields);
        }
        let body = match view.method() {
            Method::Head => Body::Empty,
            _ if response.status.forbids_content() => Body::Empty,
            _ => std::mem::take(&mut response.body),
        };
        let start = wire.made();
        let empty = body.length() == Some(0);
        wire.send_head(
            id,
            &response,
            length,
            empty,
            &mut self.session.tail(&response.head),
            now,
        );
        let facts = Facts {
            site: entry.site_index,
            status: response.status,
            path: &entry.path,
            fields: Some(response.fields()),
            stays: true,
            walk: entry.log_facts.as_ref(),
        };
        let body_bytes = match &body {
            _ if empty => 0,
            Body::Memory(chunk)
                if pace.is_none()
                    && chunk.len() <= INLINE_BYTES_MAX
                    && wire.fits(id, chunk.len()) =>
            {
                wire.send_whole(id, chunk.bytes());
                chunk.len() as u64
            }
            _ => {
                let log = Pending::new(&self.session, view, &facts);
                let bytes = wire.made() - start;
                self.streams.insert(
                    id,
                    Stream {
                        pace,
                        log,
                        bytes,
                        _busy: Some(Busy::begin(&self.session, view)),
                        ..Stream::default()
                    },
                );
                self.begin_body(id, body, wire);
                return Resolved::Answered;
            }
        };
        log::now(&self.session, view, &facts, body_bytes, wire.made() - start);
        Resolved::Answered
    }

    /// Answers a request that is not walked.
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
        let mut response = respond::built_in_page(Response::new(status));
        let body = std::mem::take(&mut response.body);
        let start = wire.made();
        let now = saker_net::clock::turn_s();
        wire.send_head(
            id,
            &response,
            body.length(),
            false,
            &mut self.session.tail(&response.head),
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

    /// For drivers that can leave content unread: whether they should.
    pub fn is_upload_full(&self, id: StreamId) -> bool {
        self.streams
            .get(&id)
            .and_then(|stream| stream.upload.as_ref())
            .is_some_and(|upload| upload.borrow().is_full())
    }

    /// Opens the windows by what an upload owes.
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

    /// The client wants no answer any more.
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
        match (&stream.log, &stream.walk) {
            (Some(log), _) => log.write(
                &self.session,
                stream.body_bytes,
                stream.bytes,
                ConnectionStatus::Aborted,
            ),
            (None, Some(_)) => log::refused(&self.session, CLIENT_CLOSED_REQUEST, b"", 0, 0),
            (None, None) => {}
        }
    }
}

enum Resolved {
    /// The response is under way.
    Answered,
    /// It has to wait, or is refused.
    Held(Admission),
    No,
}
