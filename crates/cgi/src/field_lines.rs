//! Several field lines of one name, for protocols that have one value for each name (RFC 9110
//! section 5.3).

use saker_http::{HeadView, Version};
use std::borrow::Cow;

/// Names that stand in a head more than once, and a few others: a name is looked for among all
/// others only if it may be one of them.
pub struct Repeated {
    places: [u64; WORDS],
    /// Mostly not.
    has_any: bool,
}

/// So many bits that the twenty different names of a browser seldom share one.
const WORDS: usize = 16;

impl Repeated {
    pub fn in_head(head: HeadView<'_>) -> Repeated {
        let (mut once, mut more, mut has_any) = ([0; WORDS], [0; WORDS], false);
        for (name, _) in head.fields() {
            let (word, bit) = place(name);
            let again = once[word] & bit;
            more[word] |= again;
            has_any |= again != 0;
            once[word] |= bit;
        }
        Repeated {
            places: more,
            has_any,
        }
    }

    /// True if there may be another line of that name.
    pub fn may_have(&self, name: &[u8]) -> bool {
        let is_place_of_more = || {
            let (word, bit) = place(name);
            self.places[word] & bit != 0
        };
        self.has_any && is_place_of_more()
    }
}

/// A bit by length and first, last, and last but three byte, in any case. The factors were searched
/// for so that no two fields of browsers and proxies meet.
fn place(name: &[u8]) -> (usize, u64) {
    let byte = |at: usize| usize::from(name.get(at).copied().unwrap_or(0) | 0x20);
    let end = |back: usize| byte(name.len().saturating_sub(back));
    let mixed = name.len() + byte(0) * 7 + end(4) * 71 + end(1) * 149;
    (mixed / 64 % WORDS, 1 << (mixed % 64))
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
