//! The credentials of a request.
//!
//! Called by: whatever replaces them: client certificates, AuthBasicFake, error documents.

use saker_http::KnownField;
use saker_pipeline::Exchange;

/// Makes one line of several lines of Authorization, as httpd does with every field: what is verified
/// and what a program gets must not differ.
pub fn join_authorization(exchange: &mut Exchange) {
    let view = exchange.head.view();
    if view.known_count(KnownField::Authorization) < 2 {
        return;
    }
    let lines = view
        .fields()
        .filter(|(name, _)| name.eq_ignore_ascii_case(b"authorization"));
    let joined = lines
        .map(|(_, value)| value)
        .collect::<Vec<_>>()
        .join(&b", "[..]);
    exchange.depends_on_request();
    set_authorization(exchange, &joined);
}

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
