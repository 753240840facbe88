//! The identity of a client, for private entries.
//!
//! Called by: `request`.
//! Caveat: keys are stored on disk, so credentials enter them as digests only.
//! Out of scope: which cookies are session cookies (`saker_cache_rules::cookie_names`).

use crate::key::{BETWEEN, HEX};
use saker_cache_rules::lscache::{identity, settings::LscacheSettings};
use saker_http::{HeadView, KnownField};
use saker_pipeline::Exchange;

/// The identity of a client by session cookies, credentials, or authentication by the server;
/// `None` if nothing identifies it.
pub fn client_identity(exchange: &Exchange, settings: &LscacheSettings) -> Option<Vec<u8>> {
    let view = exchange.head.view();
    if !view.has(KnownField::Cookie)
        && !view.has(KnownField::Authorization)
        && !is_authenticated(exchange)
    {
        return None;
    }
    let user = exchange.access.user.as_deref();
    // Keys are on disk: they contain digests of passwords.
    let credentials = credentials(view, user).map(|credentials| digest(&credentials));
    let certificate = certificate(exchange).map(digest);
    let granted = granted(exchange).map(digest);
    let known = identity::Known {
        credentials: credentials.as_deref(),
        user: user.map(str::as_bytes),
        certificate: certificate.as_deref(),
        granted: granted.as_deref(),
    };
    let identity = identity::identity(view, known, settings)?;
    let address = settings.identity_by_address.then(|| exchange.client.ip());
    Some(saker_cache_rules::lscache::key::identity_key(
        &identity, address,
    ))
}

/// True if the server knows the client by something that need not appear in a request field: a
/// user, a certificate, or the answer of an authorization server.
pub fn is_authenticated(exchange: &Exchange) -> bool {
    exchange.access.user.is_some() || certificate(exchange).is_some() || granted(exchange).is_some()
}

fn certificate(exchange: &Exchange) -> Option<&[u8]> {
    exchange
        .client
        .session
        .as_ref()?
        .client_certificates
        .first()
        .map(AsRef::as_ref)
}

fn granted(exchange: &Exchange) -> Option<&[u8]> {
    exchange
        .access
        .auth_state
        .as_ref()
        .map(|state| state.identity())
        .filter(|identity| !identity.is_empty())
}

/// All Authorization fields. Those of Digest differ from request to request (RFC 7616 section 3.4);
/// there the authenticated user has to do.
fn credentials(view: HeadView<'_>, user: Option<&str>) -> Option<Vec<u8>> {
    let is_changing = |line: &[u8]| {
        user.is_some()
            && line
                .get(..7)
                .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"digest "))
    };
    let lines: Vec<&[u8]> = view
        .lines(KnownField::Authorization)
        .filter(|line| !is_changing(line))
        .collect();
    (!lines.is_empty()).then(|| lines.join(&BETWEEN))
}

fn digest(secret: &[u8]) -> Vec<u8> {
    use sha2::{Digest, Sha256};
    Sha256::digest(secret)
        .iter()
        .flat_map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]])
        .collect()
}
