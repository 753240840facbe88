//! Limits of a request's head, from the model to the parsers.
//!
//! Called by: every driver; HTTP/2 and HTTP/3 take what means the same there.

use saker_config::model::Limits;
use saker_http1::RequestLimits;

/// Bounds of the head of a request.
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
