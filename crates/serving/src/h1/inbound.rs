//! Received bytes to responses, as far as that goes without waiting: parses request after request
//! and answers from the route cache.
//!
//! Called by: `turn`, for each read; `start`, for the first one.
//! Caveat: stops at the first request that has to be dispatched, at a large body, at a protocol
//! error, or at the end of the bytes. No allocation on a hit.
//! Out of scope: everything that may have to wait.

use super::{
    head::{Http1Head, append_built, connection_of},
    outgoing::Outgoing,
    step::{AbortWatch, DispatchRequest, Sending, Then},
    unsound::{self, Unsound},
    upgrade::{self, Preface},
};
use crate::{
    freshness::ReadOrigin,
    h2::Beginning,
    request::{
        Begun, Busy, Cause, FastPath, Hit, Pending, Session, log, look_up, rejected,
        request_limits, response_head,
    },
    worker::Worker,
};
use saker_http::{HeadIndex, HeadView, KnownField, Method, Status};
use saker_http1::{
    BodyFraming, Connection as ConnectionLine, Parsed, Reject, ResponseFraming, checked,
    keep_alive, parse_request,
};
use saker_pipeline::{Body, Decision, Generation, Response, respond};
use saker_rate_limits::Admission;
use saker_telemetry::{Metric, error_log, message};
use std::rc::Rc;

/// Bodies up to this size are copied behind their head; beyond it a second buffer in the same write
/// is cheaper.
pub const INLINE_BYTES_MAX: usize = 16 << 10;
/// Responses gathered for one write.
const OUT_BYTES_MAX: usize = 64 << 10;

/// The next step after the bytes examined. `rest` is the offset of the unused bytes.
pub enum Next {
    /// Wait for more bytes; those from `rest` on are no complete head.
    Read {
        rest: usize,
    },
    /// Examine the rest, once the gathered responses have been written.
    Again {
        rest: usize,
    },
    Dispatch {
        request: Box<DispatchRequest>,
        rest: usize,
    },
    Send {
        sending: Box<Sending>,
        rest: usize,
    },
    /// The following bytes are HTTP/2.
    Http2 {
        beginning: Beginning,
        rest: usize,
    },
    /// Close, once the gathered responses have been written.
    Close {
        cause: Cause,
    },
}

impl Next {
    pub fn rest(&self) -> usize {
        match self {
            Next::Read { rest }
            | Next::Again { rest }
            | Next::Dispatch { rest, .. }
            | Next::Send { rest, .. }
            | Next::Http2 { rest, .. } => *rest,
            Next::Close { .. } => usize::MAX,
        }
    }
}

/// Serves the requests in `bytes`; responses are appended to `out`.
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
        if session.requests == 0
            && session.http2.direct
            && let Some(next) = by_preface(&bytes[at..], at)
        {
            return next;
        }
        let head_bytes = match parse_request(&bytes[at..], &request_limits, index) {
            Ok(Parsed::Complete { head_bytes }) => head_bytes,
            Ok(Parsed::Partial) => return Next::Read { rest: at },
            Err(reject) => {
                worker.freshness.settle(origin);
                return unparsed(session, &services.generation, reject, (bytes, at), out);
            }
        };
        let request = &bytes[at..at + head_bytes];
        let view = HeadView::new(request, index);
        at += head_bytes;
        worker.freshness.settle(origin);
        if session.connection.speaks_plain {
            return plain_on_tls_port(session, &services.generation, view, request);
        }
        if session.http2.upgrade
            && let Some(beginning) = by_upgrade(session, &services.generation, view)
        {
            out.extend_from_slice(upgrade::SWITCHING);
            return Next::Http2 {
                beginning,
                rest: at,
            };
        }
        let begun = session.begin_request(&services.generation, Metric::RequestsHttp1);
        if begun == Begun::Banned {
            return close(Cause::Banned);
        }
        session.identify(&services.generation, view);
        let may_stay = begun == Begun::Stays;
        let stays = may_stay && keep_alive(view);
        match cached(worker, session, &services.generation, view, stays, out) {
            Some(Fast::Done { stays: true }) => {}
            Some(Fast::Done { stays: false }) => return Next::Close { cause: Cause::Done },
            Some(Fast::Send(sending)) => return Next::Send { sending, rest: at },
            Some(Fast::Held(admission)) => {
                let (request, admission) = ((request, view), Some(admission));
                return dispatch(session, request, may_stay, (admission, None), at, out);
            }
            Some(Fast::Decided(decision)) => {
                let (request, decision) = ((request, view), Some(decision));
                return dispatch(session, request, may_stay, (None, decision), at, out);
            }
            None => return dispatch(session, (request, view), may_stay, (None, None), at, out),
        }
    }
}

fn close(cause: Cause) -> Next {
    Next::Close { cause }
}

/// HTTP/2 by prior knowledge (RFC 9113 section 3.3); `None`: the bytes are HTTP/1's.
fn by_preface(bytes: &[u8], at: usize) -> Option<Next> {
    match upgrade::preface(bytes) {
        Preface::Whole => Some(Next::Http2 {
            beginning: Beginning::Preface,
            rest: at,
        }),
        Preface::Part => Some(Next::Read { rest: at }),
        Preface::No => None,
    }
}

/// HTTP/2 by `Upgrade: h2c` (RFC 7540 section 3.2). Never for trusted proxies: one that passes the
/// field on would become a pipe, and what its client sends through it would count as its own.
fn by_upgrade(session: &Session, generation: &Generation, view: HeadView<'_>) -> Option<Beginning> {
    if !view.has(KnownField::Upgrade) || session.is_trusted_proxy(generation) {
        return None;
    }
    let settings = upgrade::h2c_settings(view)?;
    // Streams have no such fields (RFC 9113 section 8.2.2): what else was proposed ends here, too.
    let answered = ["connection", "upgrade", "http2-settings"];
    let is_left = |name: &[u8]| {
        !answered
            .iter()
            .any(|field| name.eq_ignore_ascii_case(field.as_bytes()))
    };
    let mut request = view.to_owned().edited(is_left, []);
    request.settle_host().ok()?;
    Some(Beginning::Upgrade {
        request: Box::new(request),
        settings,
    })
}

/// The only answer to HTTP in the clear on a port for TLS: a status that nginx has for that, for which
/// the rules have a page. Nothing else of the configuration is asked.
fn plain_on_tls_port(
    session: &mut Session,
    generation: &Generation,
    view: HeadView<'_>,
    request: &[u8],
) -> Next {
    let _ = session.begin_request(generation, Metric::RequestsHttp1);
    session.identify(generation, view);
    error_log::log_about(
        &message::HTTP_ON_TLS_PORT,
        &*session.client,
        format_args!(""),
    );
    Next::Dispatch {
        request: unsound::of_status(Status(497), view, request),
        rest: usize::MAX,
    }
}

/// The full checks, then dispatch.
fn dispatch(
    session: &mut Session,
    (request, view): (&[u8], HeadView<'_>),
    may_stay: bool,
    (admission, decision): (Option<Admission>, Option<Rc<Decision>>),
    rest: usize,
    out: &mut Vec<u8>,
) -> Next {
    // The key of the decision has host and path as they are, and only POST has content.
    let known = decision
        .as_ref()
        .filter(|_| view.method() != Method::Post)
        .and_then(|_| view.to_known_request());
    let checked = match known {
        Some(head) => Ok((BodyFraming::None, head)),
        None => checked(view),
    };
    match checked {
        Ok((framing, head)) => Next::Dispatch {
            request: Box::new(DispatchRequest {
                head,
                framing,
                may_stay,
                refused: None,
                admission,
                decision,
            }),
            rest,
        },
        Err(reject) => match unsound::repaired(session, reject, request) {
            Unsound::Repaired { request, .. } => Next::Dispatch { request, rest },
            Unsound::Partial => refuse(session, reject, request, out),
            Unsound::Refused(reject) => refuse(session, reject, request, out),
        },
    }
}

/// A head that is refused, unless the settings have it repaired.
fn unparsed(
    session: &mut Session,
    generation: &Generation,
    reject: Reject,
    (bytes, at): (&[u8], usize),
    out: &mut Vec<u8>,
) -> Next {
    let request = &bytes[at..];
    let (mut request, consumed, is_last) = match unsound::repaired(session, reject, request) {
        Unsound::Repaired {
            request,
            consumed,
            is_last,
        } => (request, consumed, is_last),
        Unsound::Partial => return Next::Read { rest: at },
        Unsound::Refused(reject) => return refuse(session, reject, request, out),
    };
    let begun = session.begin_request(generation, Metric::RequestsHttp1);
    if begun == Begun::Banned {
        return Next::Close {
            cause: Cause::Banned,
        };
    }
    request.may_stay = begun == Begun::Stays && !is_last;
    session.identify(generation, request.head.view());
    Next::Dispatch {
        request,
        rest: at + consumed,
    }
}

enum Fast {
    /// The response is in `out`.
    Done { stays: bool },
    /// Its body is not.
    Send(Box<Sending>),
    /// It goes to an upstream by this decision.
    Decided(Rc<Decision>),
    /// It has to wait, or is refused.
    Held(Admission),
}

/// Answers from the route cache, if it knows this request.
#[inline(always)]
fn cached(
    worker: &Worker,
    session: &mut Session,
    generation: &Generation,
    view: HeadView<'_>,
    stays: bool,
    out: &mut Vec<u8>,
) -> Option<Fast> {
    let now = saker_net::clock::turn_s();
    let mut routes = worker.route_cache.borrow_mut();
    let mut hit = match look_up(&mut routes, session, generation, view, now) {
        FastPath::Hit(hit) => hit,
        FastPath::Decided(decision) => return Some(Fast::Decided(decision)),
        FastPath::Held(admission) => return Some(Fast::Held(admission)),
        FastPath::Miss => return None,
    };
    if view.method() == Method::Head {
        hit.response.body = Body::Empty;
    }
    let stays = session.stays_at(generation, hit.route.site_index) && stays;
    let says = session.limits(generation).says_keep_alive;
    let start = out.len();
    response_head::encode(
        &mut Http1Head::new(view, connection_of(view.version(), stays, says), out),
        &hit.response,
        hit.response.body.length(),
        &mut session.common_headers(&hit.response.head),
        now,
    );
    let body_bytes = match &hit.response.body {
        Body::Empty => 0,
        Body::Memory(chunk) if chunk.len() <= INLINE_BYTES_MAX && hit.pace.is_none() => {
            out.extend_from_slice(chunk.bytes());
            chunk.len() as u64
        }
        _ => {
            let head = out.split_off(start);
            return Some(Fast::Send(send_later(session, view, hit, head, stays)));
        }
    };
    let bytes = (out.len() - start) as u64;
    log::now(session, view, &hit.facts(stays), body_bytes, bytes);
    Some(Fast::Done { stays })
}

/// A hit whose body does not go at once.
fn send_later(
    session: &Session,
    view: HeadView<'_>,
    mut hit: Hit<'_>,
    head: Vec<u8>,
    stays: bool,
) -> Box<Sending> {
    let log = Pending::new(session, view, &hit.facts(stays));
    let body = std::mem::take(&mut hit.response.body);
    Box::new(Sending {
        outgoing: Outgoing::new(head, body, false),
        then: if stays {
            Then::Continue
        } else {
            Then::Close(Cause::Done)
        },
        log,
        abort: AbortWatch::Never,
        incoming: None,
        pace: hit.pace,
        _busy: Some(Busy::begin(session, view)),
    })
}

/// Answers a malformed request, and ends the connection, because the beginning of the next request
/// is unknown.
pub fn refuse(session: &mut Session, reject: Reject, bytes: &[u8], out: &mut Vec<u8>) -> Next {
    let worker = &session.worker;
    worker.counters.increment(Metric::RequestsRejected);
    rejected::log(session, reject.reason, log::request_line(bytes));
    session.note_bad_request();
    if let Some(status) = unsound::refused_with_page(session, reject, bytes) {
        return Next::Dispatch {
            request: unsound::stand_in(reject, status, bytes),
            rest: usize::MAX,
        };
    }
    let status = status_of(session, reject.status);
    refuse_with(session, status, bytes, out);
    Next::Close {
        cause: Cause::Rejected,
    }
}

/// The status as the configuration's own server has it.
fn status_of(session: &Session, status: Status) -> Status {
    let services = session.worker.services.borrow();
    let limits = session.limits(&services.generation);
    if status == Status::REQUEST_HEADER_FIELDS_TOO_LARGE && limits.fields_are_bad_requests {
        return Status::BAD_REQUEST;
    }
    status
}

/// The response of [`refuse`] and of a head that came too slowly.
pub fn refuse_with(session: &Session, status: Status, bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let mut response = respond::built_in_page(Response::new(status));
    let framing = ResponseFraming::Length(response.body.length().unwrap_or(0));
    let mut common = session.common_headers(&response.head);
    append_built(
        &response,
        &mut common,
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
    drop(common);
    log::refused(
        session,
        status,
        bytes,
        body_bytes,
        (out.len() - start) as u64,
    );
}
