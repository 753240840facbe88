//! Several field lines of one name, for protocols that have one value for each name (RFC 9110
//! section 5.3).

use saker_http::{HeadView, Version};
use std::borrow::Cow;

/// True if one of the first `at` lines has the same name, so that this line went into that one's
/// value.
pub fn is_repeated(head: HeadView<'_>, name: &[u8], at: usize) -> bool {
    head.fields()
        .take(at)
        .any(|(before, _)| before.eq_ignore_ascii_case(name))
}

/// All lines of one name as one value. Cookies that HTTP/2 took apart are put together as they were
/// (RFC 9113 section 8.2.3); in HTTP/1 a client has one line, and two of them are joined as Apache
/// does it.
pub fn joined<'a>(head: HeadView<'a>, name: &[u8], first: &'a [u8]) -> Cow<'a, [u8]> {
    let same = || {
        head.fields()
            .filter(|field| field.0.eq_ignore_ascii_case(name))
            .map(|field| field.1)
    };
    if same().nth(1).is_none() {
        return first.into();
    }
    let is_cookie = name.eq_ignore_ascii_case(b"Cookie") && head.version() >= Version::Http2;
    same()
        .collect::<Vec<_>>()
        .join(if is_cookie { &b"; "[..] } else { b", " })
        .into()
}
