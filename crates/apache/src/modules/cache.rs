//! The path by which CacheEnable and CacheDisable are compared.
//!
//! Called by: `rules` and `proxy/translate`, for the settings in force.
//! Out of scope: the directives (`saker_apache_model`).

use saker_http::{path, target};
use saker_pipeline::Exchange;
use std::borrow::Cow;

/// The path that the client asked for, whatever rules have made of it (LSCache protocol 4.1).
pub fn url_path(exchange: &Exchange) -> Cow<'_, [u8]> {
    if exchange.is_as_received() {
        return Cow::Borrowed(&exchange.path);
    }
    let view = exchange.head.view();
    let mut path = Vec::new();
    match target::split(view.method(), view.target()) {
        Ok(
            target::Target::Origin { path: raw, .. } | target::Target::Absolute { path: raw, .. },
        ) if path::normalize(raw, &mut path).is_ok() => Cow::Owned(path),
        _ => Cow::Borrowed(&exchange.path),
    }
}
