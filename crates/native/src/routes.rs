//! Redirect to HTTPS and selection of the route.
//!
//! Called by: the phase `server_rewrite`, again for every internal redirect.
//! Caveat: routes marked `internal` match only requests that were redirected internally.
//! Out of scope: rewriting paths, which saker.toml has no rules for.

use saker_config::model::Action;
use saker_http::{Status, path};
use saker_pipeline::{Exchange, Mapped, Response, methods, to_https};
use std::sync::Arc;

/// Redirects to HTTPS if the site wants that, or gives the request the action and the settings of
/// the first route whose pattern matches its path.
pub fn select(exchange: &mut Exchange) -> Option<Response> {
    let site = Arc::clone(&exchange.routing.site);
    if let Some(redirect) = to_https(exchange) {
        return Some(redirect);
    }
    let matching = site
        .routes
        .iter()
        .position(|route| route.pattern.captures(&exchange.path).is_some());
    exchange.routing.route = matching;
    match matching.map(|at| &site.routes[at]) {
        Some(route) => {
            exchange.routing.settings = Arc::clone(&route.settings);
            exchange.trace("server_rewrite", Some(&route.origin), || {
                format!("route `{}` matches: {}", route.pattern, route.action)
            });
        }
        None => {
            exchange.routing.settings = Arc::clone(&site.settings);
            exchange.trace("server_rewrite", None, || match site.routes.len() {
                0 => "the site has no routes".into(),
                1 => "the site's route does not match".into(),
                count => format!("none of the site's {count} routes matches"),
            });
        }
    }
    // nginx's `internal`.
    if exchange.routing.redirects == 0
        && matching.is_some_and(|at| site.routes.get(at).is_some_and(|route| route.is_internal))
    {
        exchange.trace("server_rewrite", None, || {
            "the route is not for clients (`internal`)".into()
        });
        return Some(Response::new(Status::NOT_FOUND));
    }
    let has_encoded_slash = exchange.routing.encoded_slash && exchange.routing.redirects == 0;
    if has_encoded_slash && is_ambiguous(exchange) {
        exchange.trace("server_rewrite", None, || {
            "`%2F` in the path is refused here (`encoded_slashes`)".into()
        });
        return Some(Response::new(Status::NOT_FOUND));
    }
    methods::answer(exchange)
}

/// Returns true if the path contains `%2F` and what answers might read it as another path than the
/// rules do, which have decoded it. Upstreams that get the path as it was sent may decode it or not,
/// so the two readings must not differ in what the route was chosen for: there are no dot segments,
/// and the literal beginning of the route's pattern has real slashes.
fn is_ambiguous(exchange: &Exchange) -> bool {
    let Some(raw) = exchange.path_as_sent() else {
        return true;
    };
    if path::has_dot_segments(raw) {
        return true;
    }
    let route = exchange
        .routing
        .route
        .and_then(|at| exchange.routing.site.routes.get(at));
    match route.map(|route| (&route.action, route.pattern.literal())) {
        Some((Action::Proxy(proxy), literal)) if !proxy.is_for_files() => {
            path::strip_raw_prefix(raw, literal.as_bytes()).is_none()
        }
        Some((Action::Redirect(_) | Action::Respond { .. } | Action::Deny, _)) => false,
        Some((Action::Files | Action::Proxy(_), _)) | None => {
            !exchange.routing.settings.files.decodes_slashes
        }
    }
}

/// Maps the path to a file below the root of the route, if it has one of its own.
pub fn map(exchange: &mut Exchange) {
    let root = exchange.routing.settings.root.as_ref();
    exchange.routing.mapped = root.and_then(|root| {
        Some(Mapped {
            relative: root.relative(&exchange.path)?.to_vec(),
            root: Arc::clone(&root.folder),
        })
    });
}

/// Shows `explain` where the path would be in the file system; the files handler opens it.
pub fn trace_file(exchange: &mut Exchange) {
    if exchange.log.trace.is_none() || exchange.log.stands_in_for.is_some() {
        return;
    }
    let text = match &exchange.routing.site.root {
        _ if exchange.routing.mapped.is_some() => {
            let mapped = exchange.routing.mapped.as_ref().map(Mapped::filename);
            String::from_utf8_lossy(&mapped.unwrap_or_default()).into_owned()
        }
        Some(root) => format!(
            "{}{}",
            root.display(),
            String::from_utf8_lossy(&exchange.path)
        ),
        None => "the site has no root".into(),
    };
    exchange.trace("map_to_storage", None, || text);
}
