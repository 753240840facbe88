//! Checks that the host of a request is one that its site names.
//!
//! Called by: StrictHostCheck; the forward proxy, which tells its own URLs from others'.

use saker_ap_expr::{GlobOptions, glob_matches};
use saker_config::model::SiteName;
use saker_pipeline::Exchange;

/// StrictHostCheck: whether the host says that it has this name.
pub fn is_named(exchange: &Exchange) -> bool {
    let (site, host) = (&exchange.routing.site, exchange.host.as_slice());
    let by_name = site.names.iter().any(|name| match name {
        SiteName::Exact(name) => name.as_bytes() == host,
        SiteName::Wildcard(name) => host
            .strip_suffix(name.as_bytes())
            .is_some_and(|before| before.ends_with(b".") && before.len() > 1),
        SiteName::Any => true,
    });
    by_name
        || site
            .patterns
            .iter()
            .any(|pattern| glob_matches(pattern.as_bytes(), host, GlobOptions::default()))
}
