//! Options of Connection (RFC 9110 section 7.6.1), which name fields of the connection.
//!
//! Called by: `http1_dialogue`, for heads of responses.
//! Out of scope: requests, whose nominated fields the parser has removed; fields that are of the
//! connection without being named (`forward`).

/// True for an option of Connection that is the name of a field, which is then of the connection.
pub fn names_field(option: &[u8]) -> bool {
    !matches!(option, b"" | b"close" | b"keep-alive" | b"Keep-Alive")
}
