//! The start of HTTP/3 on a QUIC connection, once the handshake has named the host.
//!
//! Called by: `driver`.

use super::{connection::Connection, early::Early, unsent::Unsent};
use crate::{
    mux::{ByStream, Exchanges},
    request::{Session, multiplexed_limits, request_limits},
};
use saker_config::model;
use saker_http3::Limits;
use std::collections::VecDeque;

impl Connection {
    /// Streams may come before the handshake is over.
    pub fn new(mut session: Session) -> Connection {
        let services = session.worker.services();
        session.take_limits_of_name();
        let limits = limits(session.limits(&services.generation));
        let extended_connect = session.http2.extended_connect;
        Connection {
            exchanges: Exchanges::new(session),
            machine: saker_http3::Connection::server(limits, extended_connect),
            incoming: ByStream::default(),
            out: Unsent::default(),
            early: Early::default(),
            chunks: VecDeque::new(),
            control: [None; 3],
            ending: None,
            final_goaway_ms: None,
            deadline: None,
        }
    }
}

/// Values of SETTINGS under these limits, which clients remember and obey in early data of later
/// connections (RFC 9114 section 7.2.4.2).
pub fn promised(limits: &model::Limits) -> [u32; 3] {
    let Limits {
        header_list_bytes_max,
        table_bytes,
        blocked_streams_max,
        ..
    } = self::limits(limits);
    [header_list_bytes_max, table_bytes, blocked_streams_max]
}

/// HTTP/2's limits that have the same meaning here.
fn limits(limits: &model::Limits) -> Limits {
    let number = |limit: u64| u32::try_from(limit).unwrap_or(u32::MAX);
    let (target_bytes_max, header_count_max) = multiplexed_limits(limits);
    Limits {
        concurrent_streams_max: number(limits.http2_streams_max),
        header_list_bytes_max: number(limits.head_bytes_max),
        header_count_max,
        target_bytes_max,
        field_bytes_max: u32::try_from(request_limits(limits).field_bytes_max).unwrap_or(u32::MAX),
        answers_malformed: limits.refusals_have_pages,
        resets_max: number(limits.http2_resets_max),
        resets_per_second: number(
            (limits.http2_resets_max * 1000 / model::Limits::HTTP2_WINDOW_MS).max(1),
        ),
        ..Limits::default()
    }
}
