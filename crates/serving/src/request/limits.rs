//! Limits of a request's head, from the model to the parsers.
//!
//! Called by: every driver; HTTP/2 and HTTP/3 take what means the same there.

use saker_config::model::Limits;
use saker_http1::RequestLimits;

/// The longest path, and the number of fields with pseudo-fields, of HTTP/2 and HTTP/3.
pub fn multiplexed_limits(limits: &Limits) -> (u32, u32) {
    let number = |limit: u64| u32::try_from(limit).unwrap_or(u32::MAX);
    let target = match limits.counts_as_mod_http2 {
        // The limit has a byte for what is left of a line break.
        true => limits.request_line_bytes_max.saturating_sub(1),
        false => request_limits(limits).target_bytes_max as u64,
    };
    // `:authority` stands for Host, which counts in HTTP/1, too.
    let pseudo_fields = 3 + u64::from(limits.counts_as_mod_http2);
    let fields = limits.header_count_max.saturating_add(pseudo_fields);
    (number(target), number(fields))
}

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
