//! Plain HTTP to HTTPS, where the site wants that; then its routes: the first whose pattern matches
//! the path gives the request its action and settings.

use super::{challenge::CHALLENGES, select_host::refuse_trace};
use crate::{Exchange, Response, Services};
use saker_http::Status;
use std::sync::Arc;

pub(super) fn server_rewrite(exchange: &mut Exchange, _: &Services) -> Option<Response> {
    let site = Arc::clone(&exchange.site);
    if let Some(redirect) = to_https(exchange) {
        return Some(redirect);
    }
    let matching = site
        .routes
        .iter()
        .position(|route| route.pattern.captures(&exchange.path).is_some());
    exchange.route = matching;
    match matching.map(|at| &site.routes[at]) {
        Some(route) => {
            exchange.settings = Arc::clone(&route.settings);
            exchange.trace("server_rewrite", Some(&route.origin), || {
                format!("route `{}` matches: {}", route.pattern, route.action)
            });
        }
        None => {
            exchange.settings = Arc::clone(&site.settings);
            exchange.trace("server_rewrite", None, || match site.routes.len() {
                0 => "the site has no routes".into(),
                1 => "the site's route does not match".into(),
                count => format!("none of the site's {count} routes matches"),
            });
        }
    }
    // nginx's `internal`.
    if exchange.redirects == 0
        && matching.is_some_and(|at| site.routes.get(at).is_some_and(|route| route.is_internal))
    {
        exchange.trace("server_rewrite", None, || {
            "the route is not for clients (`internal`)".into()
        });
        return Some(Response::new(Status::NOT_FOUND));
    }
    refuse_trace(exchange)
}

/// Same host, path and query, over TLS. Requests without a host have nowhere to go; authorities ask
/// before there is a certificate.
pub fn to_https(exchange: &mut Exchange) -> Option<Response> {
    let redirect = exchange.site.https_redirect?;
    if !exchange.client.tls {
        // A proxy in front may say that one client came over TLS and the next did not, on the same
        // listener.
        exchange.depends_on_request();
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
    let mut response = Response::new(redirect.status);
    response.fields_mut().set("Location", location);
    Some(response)
}
