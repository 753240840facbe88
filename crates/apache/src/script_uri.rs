//! SCRIPT_URL and SCRIPT_URI: the URL before any rule, as mod_rewrite tells it.
//!
//! Called by: `rewriting`, `server_rewrite`, and calls of programs.

use crate::{origin::origin, state::peek};
use saker_apache_model::host::Host;
use saker_pipeline::Exchange;

/// Sets SCRIPT_URL, as mod_rewrite does: the path before any rule, in this request or the one that
/// led to it.
pub fn name_path(exchange: &mut Exchange) {
    let known = exchange
        .environment
        .first(b"REDIRECT_SCRIPT_URL")
        .map(<[u8]>::to_vec);
    let is_known = known.is_none() && exchange.environment.first(b"SCRIPT_URL").is_some();
    if !(is_known && peek(exchange).is_some_and(|own| own.is_subrequest)) {
        let path = known.unwrap_or_else(|| exchange.path.clone());
        exchange.environment.set_known(b"SCRIPT_URL", &path);
    }
}

/// The same with scheme, name and port. Those are the client's to say, so that it is put together
/// when a program is told. Outcomes are kept by listener and host; without a host, the server is
/// named by the connection's address.
pub fn name_uri(exchange: &mut Exchange, host: &Host) {
    let Some(uri) = script_uri(exchange, host) else {
        return;
    };
    if exchange.host.is_empty() {
        return exchange.environment.set(b"SCRIPT_URI", &uri);
    }
    let is_secure = exchange.secure_test();
    exchange.cache.environment_tests.push(is_secure);
    exchange.environment.set_known(b"SCRIPT_URI", &uri);
}

pub fn script_uri(exchange: &Exchange, host: &Host) -> Option<Vec<u8>> {
    let path = exchange.environment.first(b"SCRIPT_URL")?;
    Some([origin(exchange, host).as_slice(), path].concat())
}
