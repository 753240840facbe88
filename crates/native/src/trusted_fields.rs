//! Request fields that programs trust: the server's own replace those that the client sent.
//!
//! Called by: `forward_auth` (`authorize_fields`) and `identity` (`fields` of `[site.auth]`).
//! Caveat: names are compared as programs see them, so `Remote_User` goes with `Remote-User`; options
//! of `Connection` of these names go, too, and no trailers go on with a head that is edited.
//! Out of scope: requests that are refused before the access phase; the gateway drops the fields
//! there.

use saker_http::{KnownField, field_name::is_alike};
use saker_pipeline::Exchange;

/// Replaces all request fields of these names by `own`.
pub fn replace_fields(exchange: &mut Exchange, names: &[Box<str>], own: &[(Box<str>, Vec<u8>)]) {
    if names.is_empty() {
        return;
    }
    // In every spelling that a program could confuse with it.
    let is_named = |name: &[u8]| names.iter().any(|field| is_alike(field.as_bytes(), name));
    let own = own
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_slice()));
    let view = exchange.head.view();
    let options: Vec<Vec<u8>> = view
        .lines(KnownField::Connection)
        .map(|line| without(line, is_named))
        .collect();
    let kept = view
        .fields()
        .filter(|(name, _)| !is_named(name) && !name.eq_ignore_ascii_case(b"connection"));
    let options = options
        .iter()
        .filter(|line| !line.is_empty())
        .map(|line| (&b"Connection"[..], line.as_slice()));
    exchange.head = exchange.head.with_fields(kept.chain(options).chain(own));
    names.iter().for_each(|name| exchange.notes_edit_of(name));
}

/// `Connection` without options that would have these fields taken for the client's own hop and
/// dropped before the program (RFC 9110 section 7.6.1).
fn without(options: &[u8], is_named: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    options
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|option| !is_named(option))
        .collect::<Vec<_>>()
        .join(&b", "[..])
}
