//! HostnameLookups: the client's name for logs, rules and programs.
//!
//! Called by: `rules`, before the first rule runs, and `phase`, for the settings of sections.
//! Caveat: a name server may take its time; without an answer the client goes by its address.

use saker_apache_model::modules::core::Lookups;
use saker_auth::client_names::{claimed_name, double_checked_name};
use saker_net::blocking::{Answer, Pause};
use saker_pipeline::Exchange;

/// Looks the client's name up where that is configured. Returns the future to wait for.
pub fn look_up(exchange: &mut Exchange, lookups: Option<Lookups>) -> Option<Pause> {
    let is_double = match lookups {
        None | Some(Lookups::Off) => return None,
        Some(lookups) => lookups == Lookups::Double,
    };
    // Logs name the client, so no answer skips the rules.
    exchange.depends_on_request();
    if exchange.client.name().is_some() {
        return None;
    }
    let look_up = if is_double {
        double_checked_name
    } else {
        claimed_name
    };
    match look_up(exchange.routing.site_index, exchange.client.ip()) {
        Answer::Known(name) => name.iter().for_each(|name| exchange.client.call_it(name)),
        Answer::Wait(pause) => return Some(pause),
        Answer::Busy => {}
    }
    None
}
