//! The site's routes: the first whose pattern matches the path gives the request its action and settings.

use super::select_host::refuse_trace;
use crate::{Exchange, Response, Services};
use std::sync::Arc;

pub(super) fn server_rewrite(exchange: &mut Exchange, _: &Services) -> Option<Response> {
    let site = Arc::clone(&exchange.site);
    let matching = site.routes.iter().position(|route| route.pattern.captures(&exchange.path).is_some());
    exchange.route = matching;
    match matching.map(|at| &site.routes[at]) {
        Some(route) => {
            exchange.settings = Arc::clone(&route.settings);
            exchange.trace("server_rewrite", Some(&route.origin), || format!("route `{}` matches: {}", route.pattern, route.action));
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
    refuse_trace(exchange)
}
