//! What the body of a request goes through before its handler reads it.
//!
//! Difficulty: the order. What stands nearer to the connection sees the bytes first, and of two of
//! one kind the one that was named last.

use super::{ContentFilter, find};
use crate::{host::Host, local::Local};
use saker_files::Watcher;
use saker_pipeline::{Exchange, NoBody};

/// Puts the filters of SetInputFilter and AddInputFilter (`by_extension`, whose names come first)
/// around the body.
pub fn wrap_request_body(
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    local: &Local,
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
