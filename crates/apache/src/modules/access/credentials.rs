//! The credentials of a request.
//!
//! Called by: whatever replaces them: client certificates, AuthBasicFake, error documents.

use saker_pipeline::Exchange;

/// Replaces the Authorization field of the request.
pub fn set_authorization(exchange: &mut Exchange, value: &[u8]) {
    const NAME: &[u8] = b"Authorization";
    let head = exchange.head.clone();
    let others = head
        .view()
        .fields()
        .filter(|(name, _)| !name.eq_ignore_ascii_case(NAME));
    exchange.head = head.with_fields(others.chain(std::iter::once((NAME, value))));
}
