//! From frames to responses, as far as that goes without waiting: answers from resolved resources, sends everything else on its walk, and
//! hands content to the uploads it belongs to.

use super::{Connection, INLINE_BYTES_MAX, OUT_BYTES_MAX, head, stream::Stream, turn::Ending};
use crate::serving::{Busy, Cause, Facts, Pending, Throttled, fast_key, log};
use saker_http::{HeadView, Method, Status};
use saker_http2::{ErrorCode, Event, Fault, HeadStore, StreamId, TooLarge};
use saker_pipeline::{Body, BodyError, Response, ResponseHead, field_edits, respond, throttle::Admission};
use saker_telemetry::{Metric, access_log::ConnectionStatus, error_log, message};
use std::rc::Rc;

/// What nginx' logs have for a client that went away, and log readers know.
const CLIENT_CLOSED_REQUEST: Status = Status(499);

impl Connection {
    /// Looks at frames until they, or the room for answers, end. The number of bytes used.
    pub(super) fn serve(&mut self, bytes: &[u8], head: &mut HeadStore, out: &mut Vec<u8>) -> usize {
        let mut at = 0;
        self.unseen_input = false;
        while self.ending.is_none() {
            if out.len() >= OUT_BYTES_MAX {
                self.unseen_input = at < bytes.len();
                break;
            }
            match self.machine.receive(&bytes[at..], super::now_ms(), head, out) {
                Ok((0, None)) => break,
                Ok((used, event)) => {
                    at += used;
                    if let Some(event) = event {
                        self.obey(event, head, out);
                    }
                }
                Err(fault) => self.fault(&fault),
            }
        }
        at
    }

    fn obey(&mut self, event: Event<'_>, head: &HeadStore, out: &mut Vec<u8>) {
        match event {
            Event::Head { stream, end_stream } => match head.protocol() {
                None => self.request(stream, end_stream, head.view(), out),
                Some(protocol) => self.ask_for_tunnel(stream, end_stream, protocol, head.view(), out),
            },
            Event::HeadTooLarge { stream, what, .. } => {
                let status = match what {
                    TooLarge::Target => Status::URI_TOO_LONG,
                    TooLarge::Fields => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
                };
                self.refuse(stream, status, head.view(), out);
            }
            Event::Data { stream, data, flow_bytes, end_stream } => self.content(stream, data, flow_bytes, end_stream, out),
            Event::Trailers { stream } => self.upload_end(stream, head.view()),
            Event::Reset { stream, .. } => self.reset(stream, out),
            // The pump looks at windows each turn; the rest is a client's business.
            Event::WindowOpened | Event::GoAway { .. } | Event::Informational { .. } => {}
        }
    }

    fn fault(&mut self, fault: &Fault) {
        self.session.worker.counters.increment(Metric::Http2ConnectionErrors);
        error_log::log_about(&message::HTTP2_ERROR, &*self.session.client, format_args!("{fault}"));
        self.ending = Some(Ending { cause: Cause::Rejected });
    }

    pub(super) fn request(&mut self, id: StreamId, end_stream: bool, view: HeadView<'_>, out: &mut Vec<u8>) {
        self.end_idleness();
        let services = self.session.worker.services();
        if !self.session.begin_request(&services.generation, Metric::RequestsHttp2) {
            self.machine.shut_down(out);
        }
        if self.session.is_misdirected(view) {
            return self.refuse(id, Status::MISDIRECTED_REQUEST, view, out);
        }
        let held = match end_stream {
            true => self.resolved(id, view, out),
            false => Resolved::No,
        };
        match held {
            Resolved::Answered => {}
            Resolved::Held(admission) => self.walk(id, view, end_stream, Some(admission)),
            Resolved::No => self.walk(id, view, end_stream, None),
        }
    }

    /// Answers from a resolved resource, if there is one for this request.
    fn resolved(&mut self, id: StreamId, view: HeadView<'_>, out: &mut Vec<u8>) -> Resolved {
        let client = Rc::clone(&self.session.client);
        let Some(key) = fast_key(&client.listener, view) else { return Resolved::No };
        let worker = Rc::clone(&self.session.worker);
        let now = saker_net::clock::turn_s();
        let mut resources = worker.resources.borrow_mut();
        let Some((mut response, entry)) = resources.answer(&key, view, now, super::now_ms()) else { return Resolved::No };
        let throttled = match entry.throttled {
            true => self.session.throttle(&entry.settings, entry.site_index, response.body.length().unwrap_or(0)),
            false => Throttled::No,
        };
        let pace = match throttled {
            Throttled::No => None,
            Throttled::Paced(pace) => Some(pace),
            Throttled::Held(admission) => return Resolved::Held(admission),
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
        let start = out.len();
        let empty = body.length() == Some(0);
        head::send(&mut self.machine, id, &response, length, empty, &mut worker.tail.borrow_mut(), now, out);
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
            Body::Memory(chunk) if pace.is_none() && self.fits(id, chunk.len()) => {
                self.send_inline(id, chunk.bytes(), out);
                chunk.len() as u64
            }
            _ => {
                let log = Pending::new(&self.session, view, &facts);
                let bytes = (out.len() - start) as u64;
                self.streams.insert(id, Stream { pace, log, bytes, _busy: Some(Busy::begin(&self.session, view)), ..Stream::default() });
                self.begin_body(id, body);
                return Resolved::Answered;
            }
        };
        log::now(&self.session, view, &facts, body_bytes, (out.len() - start) as u64);
        Resolved::Answered
    }

    fn fits(&self, id: StreamId, bytes: usize) -> bool {
        bytes <= INLINE_BYTES_MAX && bytes <= self.machine.send_capacity(id)
    }

    /// A body that fits the windows.
    fn send_inline(&mut self, id: StreamId, bytes: &[u8], out: &mut Vec<u8>) {
        let mut left = bytes;
        while !left.is_empty() {
            let granted = self.machine.begin_data(id, left.len(), true, out);
            if granted == 0 {
                // Not with a body that fits; an endless loop would be worse than a cut stream.
                return self.machine.send_reset(id, ErrorCode::InternalError, out);
            }
            out.extend_from_slice(&left[..granted]);
            left = &left[granted..];
        }
    }

    /// Answers a request that is not walked.
    pub(super) fn refuse(&mut self, id: StreamId, status: Status, view: HeadView<'_>, out: &mut Vec<u8>) {
        let worker = Rc::clone(&self.session.worker);
        worker.counters.increment(Metric::RequestsRejected);
        let mut response = respond::built_in_page(Response::new(status));
        let body = std::mem::take(&mut response.body);
        let start = out.len();
        let now = saker_net::clock::turn_s();
        head::send(&mut self.machine, id, &response, body.length(), false, &mut worker.tail.borrow_mut(), now, out);
        let length = body.length().unwrap_or(0);
        log::refused(&self.session, status, view.start_line(), length, (out.len() - start) as u64 + length);
        self.streams.insert(id, Stream::default());
        self.begin_body(id, body);
    }

    fn content(&mut self, id: StreamId, data: &[u8], flow_bytes: usize, end: bool, out: &mut Vec<u8>) {
        self.progress = true;
        match self.streams.get(&id).and_then(|stream| stream.upload.as_ref()) {
            Some(upload) => {
                upload.borrow_mut().push(data, flow_bytes, end);
                self.give_back(id, out);
            }
            None => self.machine.release(id, flow_bytes, out),
        }
    }

    /// Opens the windows by what an upload owes.
    pub(super) fn give_back(&mut self, id: StreamId, out: &mut Vec<u8>) {
        let Some(upload) = self.streams.get(&id).and_then(|stream| stream.upload.as_ref()) else { return };
        let mut upload = upload.borrow_mut();
        let owed = std::mem::take(&mut upload.owed);
        if std::mem::take(&mut upload.continue_due) {
            self.machine.send_informational(id, out, |head| head.status(Status::CONTINUE.0));
        }
        if owed > 0 {
            self.machine.release(id, owed, out);
        }
    }

    fn upload_end(&mut self, id: StreamId, trailers: HeadView<'_>) {
        if let Some(upload) = self.streams.get(&id).and_then(|stream| stream.upload.as_ref()) {
            upload.borrow_mut().end(trailers);
        }
    }

    /// The client wants no answer any more.
    fn reset(&mut self, id: StreamId, out: &mut Vec<u8>) {
        let Some(stream) = self.forget(id, out) else { return };
        if let Some(upload) = &stream.upload {
            upload.borrow_mut().fail(BodyError::Gone);
        }
        self.session.worker.counters.increment(Metric::Http2StreamsReset);
        self.log_cut(&stream);
    }

    pub(super) fn log_cut(&self, stream: &Stream) {
        stream.note_received();
        match (&stream.log, &stream.walk) {
            (Some(log), _) => log.write(&self.session, stream.body_bytes, stream.bytes, ConnectionStatus::Aborted),
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
