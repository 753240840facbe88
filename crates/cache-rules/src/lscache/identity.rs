//! Identity of a client that may have private entries (LSCache protocol 4.4).
//!
//! Called by: the page cache, for the second half of a private key and the scope of private purges.
//! Caveat: too wide an identity shows one client's page to another, too narrow a one only misses.
//! So something must identify the client (a session cookie, credentials, an authenticated user),
//! and then everything that may distinguish clients is part of the identity: all cookies but those
//! known not to identify anyone.
//! Out of scope: the address, which [`super::key`] adds.

use super::{
    cookies::{pairs, push_escaped, push_piece},
    settings::LscacheSettings,
};
use crate::cookie_names;
use saker_http::HeadView;

/// Session names are public; only values of that length can be secrets.
const SESSION_BYTES_MIN: usize = 16;
/// 4.1: a longer identity is not cached.
pub const IDENTITY_BYTES_MAX: usize = 32_767;

/// A client's identity apart from cookies: digests or names, each marked by its kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// From the Authorization field.
    pub credentials: Option<&'a [u8]>,
    /// The authenticated user, as programs see it (REMOTE_USER).
    pub user: Option<&'a [u8]>,
    /// From the client certificate.
    pub certificate: Option<&'a [u8]>,
    /// The result of an authorization server.
    pub granted: Option<&'a [u8]>,
}

/// The client's identity. `None` if nothing identifies it, or it is too long for a key.
pub fn identity(
    request: HeadView<'_>,
    known: Known<'_>,
    settings: &LscacheSettings,
) -> Option<Vec<u8>> {
    let cookies = || pairs(request).filter(|(name, _)| counts(name, settings));
    let kinds = [
        (&b"#authorization="[..], known.credentials),
        (b"#user=", known.user),
        (b"#certificate=", known.certificate),
    ];
    let known = || {
        kinds
            .into_iter()
            .chain([(&b"#granted="[..], known.granted)])
            .filter_map(|(kind, text)| Some((kind, text?)))
    };
    if known().next().is_none() && !cookies().any(|(name, value)| identifies(name, value, settings))
    {
        return None;
    }
    let mut cookies: Vec<(&[u8], &[u8])> = cookies().collect();
    // Browsers keep no order among names; of cookies with one name the application takes the first
    // or the last.
    cookies.sort_by(|one, other| one.0.cmp(other.0));
    let mut out = Vec::new();
    cookies
        .iter()
        .for_each(|(name, value)| push_piece(&mut out, name, Some(value)));
    for (kind, text) in known() {
        // No escaped text begins like this.
        out.extend_from_slice(kind);
        push_escaped(&mut out, text);
        out.push(b';');
    }
    (out.len() <= IDENTITY_BYTES_MAX).then_some(out)
}

/// The name of the first cookie that identifies the client.
pub fn session<'a>(request: HeadView<'a>, settings: &LscacheSettings) -> Option<&'a [u8]> {
    let mut cookies = pairs(request);
    cookies
        .find(|(name, value)| identifies(name, value, settings))
        .map(|(name, _)| name)
}

fn identifies(name: &[u8], value: &[u8], settings: &LscacheSettings) -> bool {
    value.len() >= SESSION_BYTES_MIN && counts(name, settings) && is_session(name, settings)
}

fn is_session(name: &[u8], settings: &LscacheSettings) -> bool {
    cookie_names::is_usual_session(name)
        || cookie_names::is_session(name, &settings.session_cookies)
}

/// True if a cookie is part of an identity.
fn counts(name: &[u8], settings: &LscacheSettings) -> bool {
    let fits = |patterns: &[String]| {
        patterns
            .iter()
            .any(|pattern| cookie_names::fits(name, pattern))
    };
    fits(&settings.session_cookies)
        || !(cookie_names::is_no_identity(name) || fits(&settings.ignored_cookies))
}
