//! 103 Early Hints from the configuration (mod_http2's H2EarlyHints).
//!
//! Called by: the fixups, before what answers the request is asked for it.
//! Caveat: as in Apache, clients of HTTP/1 get none, and neither do parts of pages and error
//! documents. What the request is refused by comes before.
//! Out of scope: hints of programs and upstreams (the gateway).

use crate::state::state;
use saker_apache_model::dir_config::DirConfig;
use saker_http::{Fields, Status, Version, fields::known_name};
use saker_pipeline::Exchange;

/// Sends the hints of the settings, once.
pub fn send(exchange: &mut Exchange, local: &DirConfig) {
    if local.http2.hints().next().is_none() {
        return;
    }
    // An answer without dispatch would have none.
    exchange.depends_on_request();
    let is_multiplexed = matches!(
        exchange.head.view().version(),
        Version::Http2 | Version::Http3
    );
    let own = state(exchange);
    let is_inner = own.is_subrequest || own.is_error_page;
    if is_inner || !is_multiplexed || std::mem::replace(&mut own.has_hinted, true) {
        return;
    }
    let Some(sink) = exchange.upstream.interim.clone() else {
        return;
    };
    let mut fields = Fields::new();
    for hint in local.http2.hints() {
        fields.append(known_name(&hint.name), hint.value.to_vec());
    }
    sink.send_interim(Status::EARLY_HINTS, &fields);
    exchange.trace("fixups", None, || "103: hints of the configuration".into());
}
