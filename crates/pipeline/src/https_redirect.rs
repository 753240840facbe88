//! The redirect from plain HTTP to HTTPS (`https_redirect`).
//!
//! Called by: the `server_rewrite` of each front end, before its rules.
//! Caveat: ACME challenge paths are exempt, because authorities request them before there is a
//! certificate.
//! Out of scope: Strict-Transport-Security, which is a field edit.

use crate::{Exchange, Response, phases::CHALLENGES};

/// Redirects to the same host, path, and query over TLS. `None`: the request came over TLS, has no
/// host to redirect to, or the site has no redirect.
pub fn to_https(exchange: &mut Exchange) -> Option<Response> {
    let redirect = exchange.routing.site.https_redirect?;
    if !exchange.client.tls {
        // A proxy in front may report TLS for one client and not for the next, on the same
        // listener.
        exchange.depends_on_secure();
    }
    if exchange.client.secure || exchange.host.is_empty() || exchange.path.starts_with(CHALLENGES) {
        return None;
    }
    let mut location = [b"https://", exchange.host.as_slice()].concat();
    if redirect.port != 443 {
        location.extend_from_slice(format!(":{}", redirect.port).as_bytes());
    }
    let target = exchange.head.view().target();
    match target.first() {
        Some(b'/') => location.extend_from_slice(target),
        _ => location.extend_from_slice(b"/"),
    }
    exchange.trace("server_rewrite", None, || {
        "`https_redirect` of the site".into()
    });
    exchange.depends_on_query();
    exchange.keep_answer();
    let mut response = Response::new(redirect.status);
    response.fields_mut().set("Location", location);
    Some(response)
}
