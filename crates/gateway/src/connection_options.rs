//! Options of a request's Connection (RFC 9110 section 7.6.1), which name fields of the connection.
//!
//! Called by: `forward` and `upstream_fields`, for heads of upstream requests.
//! Out of scope: fields that are of the connection without being named (`forward`).

use saker_http::{HeadView, KnownField};

/// Options of the request's Connection.
pub fn nominated(head: HeadView<'_>) -> impl Iterator<Item = &[u8]> {
    head.lines(KnownField::Connection)
        .flat_map(|value| value.split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
}

/// False if the options of Connection name no fields: for almost all requests.
pub fn nominates(head: HeadView<'_>) -> bool {
    !head.asks_only_to_stay() && nominated(head).any(names_field)
}

/// True for an option of Connection that is the name of a field, which is then of the connection.
pub fn names_field(option: &[u8]) -> bool {
    !matches!(option, b"" | b"close" | b"keep-alive" | b"Keep-Alive")
}
