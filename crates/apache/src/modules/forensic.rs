//! mod_log_forensic: a line before anything is done about a request, and one when it is over
//! (`telemetry::forensic_log`).
//!
//! Place in the walk: before the host's rules; the second line is written with the access log's.
//! Difficulty: a request keeps its name wherever rules lead it, and has its line once. With
//! mod_unique_id it goes by the name that it has there.

use crate::{modules::unique_id, state::peek};
use saker_apache_model::host::Host;
use saker_pipeline::Exchange;

/// `%{forensic-id}n`
const NOTE: &[u8] = b"forensic-id";

pub fn begin(exchange: &mut Exchange, host: &Host) {
    let Some(log) = &host.forensic_log else {
        return;
    };
    if exchange.log.notes.first(NOTE).is_some()
        || exchange.routing.redirects > 0
        || peek(exchange).is_some_and(|state| state.is_subrequest)
    {
        return;
    }
    // The next one has lines of its own.
    exchange.depends_on_request();
    let id = match host.process.names_requests {
        true => {
            unique_id::name(exchange);
            exchange
                .environment
                .first(b"UNIQUE_ID")
                .unwrap_or_default()
                .to_vec()
        }
        false => unique_id::fresh(exchange.now).to_vec(),
    };
    let view = exchange.head.view();
    log.begin(&id, view.start_line(), view.fields());
    exchange.log.notes.set(NOTE, &id);
}
