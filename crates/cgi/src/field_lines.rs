//! Several field lines of one name, for protocols that have one value for each name (RFC 9110
//! section 5.3).

use saker_http::{HeadView, Version};
use std::borrow::Cow;

/// Names that stand in a head more than once, and a few others: a name is looked for among all
/// others only if it may be one of them.
pub struct Repeated(u64);

impl Repeated {
    pub fn in_head(head: HeadView<'_>) -> Repeated {
        let (mut once, mut more) = (0, 0);
        for (name, _) in head.fields() {
            let bit = name_bit(name);
            more |= once & bit;
            once |= bit;
        }
        Repeated(more)
    }

    /// True if there may be another line of that name.
    pub fn may_have(&self, name: &[u8]) -> bool {
        self.0 & name_bit(name) != 0
    }
}

/// One of 64 bits by length, first and last byte, in any case.
fn name_bit(name: &[u8]) -> u64 {
    let (first, last) = (name.first().copied(), name.last().copied());
    let ends = usize::from(first.unwrap_or(0) | 0x20) * 5 + usize::from(last.unwrap_or(0) | 0x20);
    1 << ((ends + name.len() * 7) % 64)
}

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
