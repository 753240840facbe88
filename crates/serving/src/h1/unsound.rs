//! Heads that are not strict, where the configuration allows for them (folded lines in Apache's, more
//! with `HttpProtocolOptions Unsafe`; bare LFs in nginx's): repaired and dispatched, or refused.
//!
//! Called by: `inbound`, for a head that the parser or the checks refused.
//! Caveat: the connection ends after a repaired request, and what follows it is not looked at, unless
//! all its lines end alike: then there is no other way to read it.
//! Out of scope: the repair itself (`saker_http1::repair`).

use super::step::DispatchRequest;
use crate::request::{Session, log, request_limits};
use saker_config::model::RepairedHeads;
use saker_http::{HeadIndex, HeadView, RequestHead, Status};
use saker_http1::{
    BodyFraming, Parsed, Reject, RejectReason, Repair, Repaired, checked, is_repairable,
    parse_request, repair,
};
use saker_telemetry::error_log;

/// The outcome for a refused head.
pub enum Unsound {
    /// A request in its place; with `is_last`, the last one of its connection.
    Repaired {
        request: Box<DispatchRequest>,
        consumed: usize,
        is_last: bool,
    },
    /// The head has not ended yet.
    Partial,
    Refused(Reject),
}

/// Repairs the head at the start of `request` if the settings ask for that.
pub fn repaired(session: &Session, reject: Reject, request: &[u8]) -> Unsound {
    let services = session.worker.services.borrow();
    let limits = session.limits(&services.generation);
    let how = match limits.repaired_heads {
        RepairedHeads::None => return Unsound::Refused(reject),
        RepairedHeads::Folded => Repair::Folded,
        RepairedHeads::Unsafe => Repair::Unsafe,
        RepairedHeads::LineFeeds => Repair::LineFeeds,
    };
    if !is_repairable(reject.reason, how) {
        return Unsound::Refused(reject);
    }
    let limits = request_limits(limits);
    match repair(request, limits.head_bytes_max, how) {
        Repaired::Partial => Unsound::Partial,
        Repaired::Refused(status) => Unsound::Refused(Reject {
            status: status.unwrap_or(reject.status),
            ..reject
        }),
        Repaired::Head {
            head,
            consumed,
            is_uniform,
        } => {
            let mut index = HeadIndex::default();
            let strict = match parse_request(&head, &limits, &mut index) {
                Ok(Parsed::Complete { .. }) => checked(HeadView::new(&head, &index)),
                Ok(Parsed::Partial) => Err(reject),
                Err(still) => Err(still),
            };
            match strict {
                Ok((framing, head)) if is_uniform || framing == BodyFraming::None => {
                    Unsound::Repaired {
                        request: request_of(head, framing),
                        consumed,
                        is_last: !is_uniform,
                    }
                }
                Ok(_) => Unsound::Refused(reject),
                Err(still) => Unsound::Refused(still),
            }
        }
    }
}

/// A request, for now the last one of its connection.
fn request_of(head: RequestHead, framing: BodyFraming) -> Box<DispatchRequest> {
    Box::new(DispatchRequest {
        head,
        framing,
        may_stay: false,
        refused: None,
        admission: None,
        decision: None,
    })
}

/// The status of a refused head whose page is the rules'. `None`: it is the built-in one.
pub fn refused_with_page(session: &Session, reject: Reject, bytes: &[u8]) -> Option<Status> {
    let services = session.worker.services.borrow();
    let limits = session.limits(&services.generation);
    let status = match (reject.status, reject.reason) {
        // Clients see 400; `error_page` tells it apart.
        (Status::REQUEST_HEADER_FIELDS_TOO_LARGE, _) if limits.fields_are_bad_requests => {
            Status(494)
        }
        (_, RejectReason::BadTransferEncoding) if only(bytes, "Transfer-Encoding").is_some() => {
            Status::NOT_IMPLEMENTED
        }
        (status, reason) if error_log::speaks_nginx() => nginx_status(status, reason, bytes),
        (status, _) => status,
    };
    limits.refusals_have_pages.then_some(status)
}

/// nginx refuses CONNECT, whatever its target is, and knows one status for lines of other versions.
fn nginx_status(status: Status, reason: RejectReason, bytes: &[u8]) -> Status {
    match reason {
        RejectReason::BadTarget if bytes.starts_with(b"CONNECT ") => Status::METHOD_NOT_ALLOWED,
        RejectReason::Http09 | RejectReason::Http2Preface => Status::BAD_REQUEST,
        RejectReason::UnsupportedVersion if log::request_line(bytes).ends_with(b"HTTP/0.9") => {
            Status::BAD_REQUEST
        }
        _ => status,
    }
}

/// A request in place of one whose head was refused, with its request line and its host as far as
/// they are known.
pub fn stand_in(reject: Reject, status: Status, bytes: &[u8]) -> Box<DispatchRequest> {
    let line = log::request_line(bytes);
    let host = knows_fields(reject.reason)
        .then(|| only(bytes, "Host"))
        .flatten();
    Box::new(DispatchRequest {
        refused: Some(status),
        ..*request_of(RequestHead::stand_in(line, host), BodyFraming::None)
    })
}

/// A request that is answered with a status, whatever it asks for.
pub fn of_status(status: Status, view: HeadView<'_>, bytes: &[u8]) -> Box<DispatchRequest> {
    let head = view.to_request();
    let head = head.unwrap_or_else(|_| RequestHead::stand_in(log::request_line(bytes), None));
    Box::new(DispatchRequest {
        refused: Some(status),
        ..*request_of(head, BodyFraming::None)
    })
}

/// True if the fault is behind the request line.
fn knows_fields(reason: RejectReason) -> bool {
    use RejectReason::*;
    !matches!(
        reason,
        TlsClientHello
            | Http2Preface
            | Http09
            | EmptyLines
            | BadMethod
            | MethodTooLong
            | BadRequestLine
            | BadVersion
            | UnsupportedVersion
            | BadTarget
            | TargetTooLong
            | RequestLineTooLong
    )
}

/// The value of a field, if there is one line of it.
fn only<'a>(bytes: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let head = memchr::memmem::find(bytes, b"\r\n\r\n").map_or(bytes, |end| &bytes[..end]);
    let mut values = head
        .split(|byte| *byte == b'\n')
        .skip(1)
        .filter_map(|line| {
            let (own, rest) = line.split_at_checked(name.len())?;
            let is_name = own.eq_ignore_ascii_case(name.as_bytes());
            Some(rest.strip_prefix(b":")?.trim_ascii()).filter(|_| is_name)
        });
    values.next().filter(|_| values.next().is_none())
}
