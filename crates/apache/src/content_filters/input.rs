//! Filters of request bodies (SetInputFilter, AddInputFilter).
//!
//! Called by: the fixups, before the handler reads the body.
//! Caveat: a filter nearer to the connection sees the bytes first, and of two with the same stage
//! the one named last.

use crate::content_filters::{filter::ContentFilter, find};
use saker_apache_model::{dir_config::DirConfig, host::Host};
use saker_files::Watcher;
use saker_pipeline::{Exchange, NoBody};

/// Wraps the request body in the filters of AddInputFilter (`by_extension`, whose names come first)
/// and SetInputFilter.
pub fn wrap_request_body(
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    local: &DirConfig,
    by_extension: &[Box<str>],
) {
    if exchange.body.is_end() {
        return;
    }
    let named = by_extension
        .iter()
        .chain(local.filters.input.iter().flatten());
    let mut filters: Vec<&dyn ContentFilter> = named.filter_map(|name| find(host, name)).collect();
    filters.sort_by_key(|filter| filter.stage());
    for filter in filters.into_iter().rev() {
        let body = std::mem::replace(&mut exchange.body, Box::new(NoBody));
        let wrapped = filter.input(exchange, host, watcher, local, body);
        exchange.body = wrapped;
        exchange.trace("fixups", None, || format!("input filter {}", filter.name()));
    }
}
