//! Who a private visitor is (LSCache protocol 4.4).
//!
//! Place in the walk: the second half of a private key, and the scope of private purges.
//! Difficulty: too wide an identity shows one visitor's page to another, too narrow a one only misses; so what is doubtful narrows.
//! Absent on purpose: the address; [`super::key`] adds it.

use super::{
    cookies::{pairs, push_piece},
    settings::LscacheSettings,
    vary::VARY_COOKIE,
};
use saker_http::{HeadView, KnownField};

/// A session's name is no secret; only a value of that length can be one.
const SESSION_BYTES_MIN: usize = 16;
/// 4.1: a longer identity is not cached.
pub const IDENTITY_BYTES_MAX: usize = 32_767;

const SESSIONS: &[&str] = &["frontend", "xf_session", "lsc_private", "wp_woocommerce_session_*", "wordpress_logged_in_*"];
/// Used only when none of the others is there.
const PLAIN_SESSION: &[u8] = b"PHPSESSID";
/// Of no visitor in particular.
const NOBODYS: &[&str] = &["__*", "has_js", "_lscache_vary*", "wordpress_test_cookie", "ls_smartpush", "bb_forum_view"];

/// The cookies that are somebody's; `None` where they are too long to be part of a key. Empty for a visitor without any.
pub fn identity(request: HeadView<'_>, settings: &LscacheSettings) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match session(request, settings) {
        Some((name, value)) => push_piece(&mut out, name, Some(value)),
        None => push_all(&mut out, request),
    }
    (out.len() <= IDENTITY_BYTES_MAX).then_some(out)
}

/// The session cookie, if there is one.
pub fn session<'a>(request: HeadView<'a>, settings: &LscacheSettings) -> Option<(&'a [u8], &'a [u8])> {
    let long = |pair: &(&[u8], &[u8])| pair.1.len() >= SESSION_BYTES_MIN;
    let own = |name: &[u8]| {
        SESSIONS.iter().any(|pattern| fits(name, pattern)) || settings.session_cookies.iter().any(|pattern| fits(name, pattern))
    };
    let cookies = || pairs(request.lines(KnownField::Cookie)).filter(long);
    cookies().find(|pair| own(pair.0)).or_else(|| cookies().find(|pair| pair.0.eq_ignore_ascii_case(PLAIN_SESSION)))
}

fn push_all(out: &mut Vec<u8>, request: HeadView<'_>) {
    let mut frontend_seen = false;
    for (name, value) in pairs(request.lines(KnownField::Cookie)) {
        let nobodys = name.starts_with(VARY_COOKIE) || NOBODYS.iter().any(|pattern| fits(name, pattern));
        let frontend = name.eq_ignore_ascii_case(b"frontend");
        if nobodys || (frontend && frontend_seen) {
            continue;
        }
        frontend_seen |= frontend;
        push_piece(out, name, Some(value));
    }
}

/// A name, or the beginning of one with `*` behind it; without regard to case.
fn fits(name: &[u8], pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => super::tags::strip_prefix(name, prefix.as_bytes()).is_some(),
        None => name.eq_ignore_ascii_case(pattern.as_bytes()),
    }
}
