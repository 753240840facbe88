//! Cookies of a request as LSCache reads them: pairs in order, and escaped text for keys.
//!
//! Called by: `vary` and `identity`.
//! Caveat: a piece without `=` is a name without a value.
//! Out of scope: which cookies matter.

use saker_http::HeadView;

/// Names and values of the request's cookies; one without `=` has an empty value.
pub fn pairs<'a>(request: HeadView<'a>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    request
        .cookies()
        .map(|cookie| (cookie.name, cookie.value.unwrap_or_default()))
}

/// Appends text so that nothing in it can be taken for a separator: one client's cookie must not
/// look like another's variant.
pub(super) fn push_escaped(out: &mut Vec<u8>, text: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let separates =
        |byte: &u8| matches!(byte, b'%' | b';' | b'~' | b'@' | b'#' | b'\0'..=b' ' | 0x7f);
    let mut rest = text;
    while let Some(at) = rest.iter().position(separates) {
        let (clean, special) = rest.split_at(at);
        out.extend_from_slice(clean);
        let byte = usize::from(special[0]);
        out.extend_from_slice(&[b'%', DIGITS[byte >> 4], DIGITS[byte & 15]]);
        rest = &special[1..];
    }
    out.extend_from_slice(rest);
}

/// `name=value;`, or the bare name where there is no value.
pub(super) fn push_piece(out: &mut Vec<u8>, name: &[u8], value: Option<&[u8]>) {
    push_escaped(out, name);
    if let Some(value) = value {
        out.push(b'=');
        push_escaped(out, value);
    }
    out.push(b';');
}
