//! Heads that are not strict, where the configuration allows for them (folded lines in Apache's, more
//! with `HttpProtocolOptions Unsafe`): repaired and dispatched, or refused.
//!
//! Called by: `inbound`, for a head that the parser or the checks refused.
//! Caveat: the connection ends after a repaired request, and what follows it is not looked at.
//! Out of scope: the repair itself (`saker_http1::repair`).

use super::step::DispatchRequest;
use crate::request::{Session, request_limits};
use saker_config::model::RepairedHeads;
use saker_http::{HeadIndex, HeadView, RequestHead};
use saker_http1::{
    BodyFraming, Parsed, Reject, Repaired, checked, is_repairable, parse_request, repair,
};

/// The outcome for a refused head.
pub enum Unsound {
    /// A request in its place, the last one of its connection.
    Repaired {
        request: Box<DispatchRequest>,
        consumed: usize,
    },
    /// The head has not ended yet.
    Partial,
    Refused(Reject),
}

/// Repairs the head at the start of `request` if the settings ask for that.
pub fn repaired(session: &Session, reject: Reject, request: &[u8]) -> Unsound {
    let services = session.worker.services.borrow();
    let limits = session.limits(&services.generation);
    let is_unsafe = limits.repaired_heads == RepairedHeads::Unsafe;
    if limits.repaired_heads == RepairedHeads::None || !is_repairable(reject.reason, is_unsafe) {
        return Unsound::Refused(reject);
    }
    let limits = request_limits(limits);
    match repair(request, limits.head_bytes_max, is_unsafe) {
        Repaired::Partial => Unsound::Partial,
        Repaired::Refused(status) => Unsound::Refused(Reject {
            status: status.unwrap_or(reject.status),
            ..reject
        }),
        Repaired::Head { head, consumed } => {
            let mut index = HeadIndex::default();
            let strict = match parse_request(&head, &limits, &mut index) {
                Ok(Parsed::Complete { .. }) => checked(HeadView::new(&head, &index)),
                Ok(Parsed::Partial) => Err(reject),
                Err(still) => Err(still),
            };
            match strict {
                Ok((BodyFraming::None, head)) => Unsound::Repaired {
                    request: last(head),
                    consumed,
                },
                Ok(_) => Unsound::Refused(reject),
                Err(still) => Unsound::Refused(still),
            }
        }
    }
}

/// The last request of its connection.
fn last(head: RequestHead) -> Box<DispatchRequest> {
    Box::new(DispatchRequest {
        head,
        framing: BodyFraming::None,
        may_stay: false,
        admission: None,
    })
}
