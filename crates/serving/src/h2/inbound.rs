//! Received frames to operations on the exchanges.
//!
//! Called by: `turn`, for each read.
//! Caveat: stops when the output of the turn is full; the rest of the input waits for the next
//! turn.

use super::{
    connection::{Connection, Ending, OUT_BYTES_MAX},
    wire::stream_id,
};
use crate::request::Cause;
use saker_http::Status;
use saker_http2::{ConnectionError, Event, HeadRefusal, HeadStore};
use saker_telemetry::{Metric, error_log, message};

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
            match self
                .machine
                .receive(&bytes[at..], saker_net::clock::turn_ms(), head, out)
            {
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
        let (exchanges, mut wire) = self.with_wire(out);
        match event {
            Event::Head { stream, .. } if head.has_foreign_scheme() => {
                exchanges.refuse(
                    stream_id(stream),
                    Status::BAD_REQUEST,
                    head.view(),
                    &mut wire,
                );
            }
            Event::Head { stream, end_stream } => match head.protocol() {
                None => exchanges.request(stream_id(stream), end_stream, head.view(), &mut wire),
                Some(protocol) => exchanges.ask_for_tunnel(
                    stream_id(stream),
                    end_stream,
                    protocol,
                    head.view(),
                    &mut wire,
                ),
            },
            Event::HeadRefused { stream, what, .. } => {
                let status = match what {
                    HeadRefusal::Target => Status::URI_TOO_LONG,
                    HeadRefusal::Fields => Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
                    HeadRefusal::Malformed(_) => Status::BAD_REQUEST,
                };
                exchanges.refuse(stream_id(stream), status, head.view(), &mut wire);
            }
            Event::Data {
                stream,
                data,
                flow_bytes,
                end_stream,
            } => {
                exchanges.content(stream_id(stream), data, flow_bytes, end_stream, &mut wire);
            }
            Event::ContentRefused { stream, end_stream } => {
                exchanges.refuse_content(stream_id(stream), end_stream);
            }
            Event::Trailers { stream } => exchanges.upload_end(stream_id(stream), head.view()),
            Event::Reset { stream, .. } => exchanges.reset(stream_id(stream), &mut wire),
            // The pump looks at windows each turn; the rest is a client's business.
            Event::WindowOpened | Event::GoAway { .. } | Event::Informational { .. } => {}
        }
    }

    fn fault(&mut self, fault: &ConnectionError) {
        self.exchanges
            .session
            .worker
            .counters
            .increment(Metric::Http2ConnectionErrors);
        error_log::log_about(
            &message::HTTP2_ERROR,
            &*self.exchanges.session.connection,
            format_args!("{fault}"),
        );
        self.ending = Some(Ending {
            cause: Cause::Rejected,
        });
    }
}
