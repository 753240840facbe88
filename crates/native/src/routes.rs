//! Redirect to HTTPS and selection of the route.
//!
//! Called by: the phase `server_rewrite`, again for every internal redirect.
//! Caveat: routes marked `internal` match only requests that were redirected internally. A matcher
//! that cannot be evaluated refuses the request: what it guards must not become open.
//! Out of scope: changes of the path (`rewriting`), and actions.

use crate::{
    conditional_settings::{self, Variants},
    variable_fields::{self, Stage},
};
use saker_config::model::{Action, Route, Site};
use saker_files::Watcher;
use saker_http::{Status, path};
use saker_matchers::MatchError;
use saker_pipeline::{
    Exchange, Mapped, Response,
    file_routes::{self, first_route},
    methods, to_https,
};
use std::{rc::Rc, sync::Arc};

/// Redirects to HTTPS if the site wants that, or gives the request the action and the settings of
/// the first route that matches.
pub fn select(exchange: &mut Exchange, watcher: &Watcher, variants: &Variants) -> Option<Response> {
    let site = Arc::clone(&exchange.routing.site);
    if let Some(redirect) = to_https(exchange) {
        return Some(redirect);
    }
    let matching = match exchange.routing.named_route.take() {
        Some(named) => Some(named),
        None => match first_route(exchange, watcher, 0) {
            Ok(matching) => matching,
            Err(error) => return Some(failed(exchange, &error)),
        },
    };
    exchange.routing.route = matching;
    exchange.routing.captures = None;
    let route = matching.and_then(|at| site.routes.get(at));
    exchange.routing.settings = match route {
        Some(route) => Arc::clone(&route.settings),
        None => Arc::clone(&site.settings),
    };
    trace(exchange, &site, route);
    // nginx's `internal`.
    if exchange.routing.redirects == 0 && route.is_some_and(|route| route.is_internal) {
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
    if route.is_some_and(|route| route.keeps_captures) {
        exchange.routing.captures = Some(Rc::new(exchange.captures()));
    }
    let changed = conditional_settings::apply(exchange, watcher, variants)
        .and_then(|()| variable_fields::replace(exchange, watcher, Stage::Selected));
    if let Err(error) = changed {
        return Some(failed(exchange, &error));
    }
    methods::answer(exchange)
}

/// Refuses a request whose route could not be determined.
pub fn failed(exchange: &mut Exchange, error: &MatchError) -> Response {
    file_routes::refuse_unmatched(exchange, "server_rewrite", error)
}

fn trace(exchange: &mut Exchange, site: &Site, route: Option<&Route>) {
    match route {
        Some(route) => exchange.trace("server_rewrite", Some(&route.origin), || {
            let conditions = route
                .matcher
                .as_ref()
                .map_or_else(String::new, |matcher| format!(" with {matcher}"));
            let action = match &route.rewrite {
                Some(rewrite) => rewrite.to_string(),
                None => route.action.to_string(),
            };
            format!("route `{}`{conditions} matches: {action}", route.pattern)
        }),
        None => exchange.trace("server_rewrite", None, || match site.routes.len() {
            0 => "the site has no routes".into(),
            1 => "the site's route does not match".into(),
            count => format!("none of the site's {count} routes matches"),
        }),
    }
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
    match route.map(|route| (&route.action, route.pattern.literal_start())) {
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
