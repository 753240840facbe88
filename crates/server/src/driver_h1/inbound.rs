//! From bytes to responses, as far as that goes without waiting: parses what has arrived, request
//! after request, and answers from resolved resources. Stops at the first request that has to walk,
//! at a large body, at a fault, or where the bytes end.

use super::{
    outgoing::Outgoing,
    turn::{Sending, Then, WalkRequest},
    upgrade::{self, Preface},
};
use crate::{
    driver_h2::Beginning,
    freshness::ReadOrigin,
    serving::{Begun, Busy, Cause, Facts, Pending, Session, Throttled, fast_key, log, rejected},
    worker::Worker,
};
use saker_config::model::{Limits, Settings};
use saker_http::{HeadIndex, HeadView, KnownField, Method, Status, Version};
use saker_http1::{
    Connection as ConnectionLine, HeadExtra, Parsed, Reject, RequestLimits, ResponseFraming,
    check_request, encode_head, keep_alive, parse_request, settled,
};
use saker_pipeline::{Body, Generation, Response, ResponseHead, field_edits, respond};
use saker_rate_limits::Admission;
use saker_telemetry::Metric;

/// Bodies up to this size are copied behind their head; beyond it a second buffer in the same write
/// is cheaper.
const INLINE_BYTES_MAX: usize = 16 << 10;
/// Responses gathered for one write.
const OUT_BYTES_MAX: usize = 64 << 10;

/// What is to be done after the bytes looked at. `rest` is where the unused bytes begin.
pub enum Next {
    /// Nothing but to wait for more; from `rest` on there is no whole head.
    Read {
        rest: usize,
    },
    /// There is more to look at, once what was gathered has been written.
    Again {
        rest: usize,
    },
    Walk {
        request: Box<WalkRequest>,
        rest: usize,
    },
    Send {
        sending: Box<Sending>,
        rest: usize,
    },
    /// What follows is HTTP/2.
    Http2 {
        beginning: Beginning,
        rest: usize,
    },
    /// After what was gathered has been written.
    Close {
        cause: Cause,
    },
}

impl Next {
    pub fn rest(&self) -> usize {
        match self {
            Next::Read { rest }
            | Next::Again { rest }
            | Next::Walk { rest, .. }
            | Next::Send { rest, .. }
            | Next::Http2 { rest, .. } => *rest,
            Next::Close { .. } => usize::MAX,
        }
    }
}

/// Serves what is in `bytes`; responses are appended to `out`.
pub fn serve(
    worker: &Worker,
    session: &mut Session,
    (bytes, origin): (&[u8], &mut ReadOrigin),
    index: &mut HeadIndex,
    out: &mut Vec<u8>,
) -> Next {
    let services = worker.services.borrow();
    let request_limits = request_limits(session.limits(&services.generation));
    let mut at = 0;
    loop {
        if at == bytes.len() {
            return Next::Read { rest: at };
        }
        if out.len() >= OUT_BYTES_MAX {
            return Next::Again { rest: at };
        }
        if session.requests == 0 && session.http2.direct {
            match upgrade::preface(&bytes[at..]) {
                Preface::Whole => {
                    return Next::Http2 {
                        beginning: Beginning::Preface,
                        rest: at,
                    };
                }
                Preface::Part => return Next::Read { rest: at },
                Preface::No => {}
            }
        }
        let head_bytes = match parse_request(&bytes[at..], &request_limits, index) {
            Ok(Parsed::Complete { head_bytes }) => head_bytes,
            Ok(Parsed::Partial) => return Next::Read { rest: at },
            Err(reject) => return refuse(session, reject, &bytes[at..], out),
        };
        let request = &bytes[at..at + head_bytes];
        let view = HeadView::new(request, index);
        at += head_bytes;
        worker.freshness.settle(origin);
        if session.http2.upgrade
            && view.has(KnownField::Upgrade)
            && let Some(settings) = upgrade::h2c_settings(view)
            && let Ok(request) = settled(view)
        {
            out.extend_from_slice(upgrade::SWITCHING);
            return Next::Http2 {
                beginning: Beginning::Upgrade {
                    request: Box::new(request),
                    settings,
                },
                rest: at,
            };
        }
        let begun = session.begin_request(&services.generation, Metric::RequestsHttp1);
        if begun == Begun::Banned {
            return Next::Close {
                cause: Cause::Banned,
            };
        }
        let may_stay = begun == Begun::Stays;
        let stays = may_stay && keep_alive(view);
        match resolved(worker, session, &services.generation, view, stays, out) {
            Some(Fast::Done { stays: true }) => {}
            Some(Fast::Done { stays: false }) => return Next::Close { cause: Cause::Done },
            Some(Fast::Send(sending)) => return Next::Send { sending, rest: at },
            Some(Fast::Held(admission)) => {
                return walk(session, request, view, may_stay, Some(admission), at, out);
            }
            None => return walk(session, request, view, may_stay, None, at, out),
        }
    }
}

/// The full checks, then the walk.
fn walk(
    session: &mut Session,
    request: &[u8],
    view: HeadView<'_>,
    may_stay: bool,
    admission: Option<Admission>,
    rest: usize,
    out: &mut Vec<u8>,
) -> Next {
    match check_request(view).and_then(|framing| Ok((framing, settled(view)?))) {
        Ok((framing, head)) => Next::Walk {
            request: Box::new(WalkRequest {
                head,
                framing,
                may_stay,
                admission,
            }),
            rest,
        },
        Err(reject) => refuse(session, reject, request, out),
    }
}

pub fn request_limits(limits: &Limits) -> RequestLimits {
    RequestLimits {
        head_bytes_max: limits.head_bytes_max as usize,
        header_count_max: limits.header_count_max as usize,
        target_bytes_max: match limits.request_line_bytes_max {
            0 => (limits.head_bytes_max as usize / 4).max(1024),
            line => (line as usize).saturating_sub(b"GET  HTTP/1.1".len()),
        },
        field_bytes_max: if limits.field_bytes_max == 0 {
            usize::MAX
        } else {
            limits.field_bytes_max as usize
        },
    }
}

enum Fast {
    /// The response is in `out`.
    Done { stays: bool },
    /// Its body is not.
    Send(Box<Sending>),
    /// It has to wait, or is refused.
    Held(Admission),
}

/// Answers from a resolved resource, if there is one for this request.
fn resolved(
    worker: &Worker,
    session: &mut Session,
    generation: &Generation,
    view: HeadView<'_>,
    stays: bool,
    out: &mut Vec<u8>,
) -> Option<Fast> {
    let key = fast_key(&session.client.listener, view)?;
    let now = saker_net::clock::turn_s();
    let mut resources = worker.resources.borrow_mut();
    let (mut response, entry) = resources.answer(&key, view, now, saker_net::clock::turn_ms())?;
    if !session.is_good_for(generation, entry.site_index) {
        return None;
    }
    let throttled = match entry.throttled {
        true => session.throttle(
            &entry.settings,
            entry.site_index,
            response.body.length().unwrap_or(0),
        ),
        false => Throttled::No,
    };
    let pace = match throttled {
        Throttled::No => None,
        Throttled::Paced(pace) => Some(pace),
        Throttled::Held(admission) => return Some(Fast::Held(admission)),
        Throttled::Walk => return None,
    };
    if view.method() == Method::Head {
        response.body = Body::Empty;
    }
    let stays = session.stays_at(generation, entry.site_index) && stays;
    let start = out.len();
    append_head(
        session,
        &entry.settings,
        &mut response,
        view,
        stays,
        now,
        out,
    );
    let facts = Facts {
        site: entry.site_index,
        status: response.status,
        path: &entry.path,
        fields: Some(response.fields()),
        stays,
        walk: entry.log_facts.as_ref(),
    };
    let body_bytes = match &response.body {
        Body::Empty => 0,
        Body::Memory(chunk) if chunk.len() <= INLINE_BYTES_MAX && pace.is_none() => {
            out.extend_from_slice(chunk.bytes());
            chunk.len() as u64
        }
        _ => {
            let log = Pending::new(session, view, &facts);
            let then = if stays {
                Then::Continue
            } else {
                Then::Close(Cause::Done)
            };
            let outgoing = Outgoing::new(
                out.split_off(start),
                std::mem::take(&mut response.body),
                false,
            );
            return Some(Fast::Send(Box::new(Sending {
                outgoing,
                then,
                log,
                pace,
                _busy: Some(Busy::begin(session, view)),
            })));
        }
    };
    log::now(
        session,
        view,
        &facts,
        body_bytes,
        (out.len() - start) as u64,
    );
    Some(Fast::Done { stays })
}

/// Appends a whole head, of either kind.
pub fn append_head(
    session: &Session,
    settings: &Settings,
    response: &mut Response,
    view: HeadView<'_>,
    stays: bool,
    now: i64,
    out: &mut Vec<u8>,
) {
    let mut tail = session.tail(&response.head);
    match &mut response.head {
        ResponseHead::Ready(ready) => {
            out.extend_from_slice(&ready.http1);
            out.extend_from_slice(tail.lines(now));
            out.extend_from_slice(connection_line(view.version(), stays));
            out.extend_from_slice(b"\r\n");
        }
        ResponseHead::Built(fields) => {
            field_edits::apply(&settings.fields, response.status, fields);
            append_built(
                response,
                &mut tail,
                framing_of(response, view),
                connection_of(view.version(), stays),
                now,
                out,
            );
        }
    }
}

/// Appends a built (and filtered) head. `Date` and `Server` are ours.
pub fn append_built(
    response: &Response,
    tail: &mut crate::tail::Tail,
    framing: ResponseFraming,
    connection: ConnectionLine,
    now: i64,
    out: &mut Vec<u8>,
) {
    let extra = HeadExtra {
        date: Some(tail.date(now)),
        connection,
        framing,
    };
    encode_head(response.status, response.fields(), extra, out);
    if !response.fields().has("server") {
        out.truncate(out.len() - 2);
        out.extend_from_slice(tail.server_line());
        out.extend_from_slice(b"\r\n");
    }
    if !tail.alt_svc_line().is_empty() {
        out.truncate(out.len() - 2);
        out.extend_from_slice(tail.alt_svc_line());
        out.extend_from_slice(b"\r\n");
    }
}

pub fn connection_of(version: Version, stays: bool) -> ConnectionLine {
    match (version, stays) {
        (_, false) => ConnectionLine::Close,
        (Version::Http10, true) => ConnectionLine::KeepAlive10,
        (_, true) => ConnectionLine::KeepAlive,
    }
}

/// RFC 9112 section 6.3, seen from the sender.
pub fn framing_of(response: &Response, view: HeadView<'_>) -> ResponseFraming {
    match response.body.length() {
        _ if response.status.forbids_content() => ResponseFraming::None,
        // RFC 9110 section 9.3.6: neither length nor coding.
        _ if response.tunnel.is_some() => ResponseFraming::None,
        Some(length) => ResponseFraming::Length(length),
        // RFC 9110 section 9.3.2: a HEAD response may leave out what only content would tell.
        None if view.method() == Method::Head => ResponseFraming::None,
        None if view.version() == Version::Http10 => ResponseFraming::UntilClose,
        None => ResponseFraming::Chunked,
    }
}

/// Answers a request that can't be read, and ends the connection: where the next one would begin is
/// no longer certain.
pub fn refuse(session: &mut Session, reject: Reject, bytes: &[u8], out: &mut Vec<u8>) -> Next {
    let worker = &session.worker;
    worker.counters.increment(Metric::RequestsRejected);
    rejected::log(session, reject.reason, log::request_line(bytes));
    session.note_bad_request();
    refuse_with(session, reject.status, bytes, out);
    Next::Close {
        cause: Cause::Rejected,
    }
}

/// The response of [`refuse`] and of a head that came too slowly.
pub fn refuse_with(session: &Session, status: Status, bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let mut response = respond::built_in_page(Response::new(status));
    let framing = ResponseFraming::Length(response.body.length().unwrap_or(0));
    let mut tail = session.tail(&response.head);
    append_built(
        &response,
        &mut tail,
        framing,
        ConnectionLine::Close,
        saker_net::clock::realtime_s(),
        out,
    );
    let mut body_bytes = 0;
    if let Body::Memory(chunk) = std::mem::take(&mut response.body) {
        out.extend_from_slice(chunk.bytes());
        body_bytes = chunk.len() as u64;
    }
    drop(tail);
    log::refused(
        session,
        status,
        bytes,
        body_bytes,
        (out.len() - start) as u64,
    );
}

/// The `Connection` line of a response that does not change protocols.
fn connection_line(version: Version, keep_alive: bool) -> &'static [u8] {
    match (version, keep_alive) {
        (_, false) => b"Connection: close\r\n",
        (Version::Http10, true) => b"Connection: keep-alive\r\n",
        (_, true) => b"",
    }
}
