//! Pages about the server itself: the handlers `server-status` and `server-info`.
//!
//! Called by: `content`.

use crate::{info, status, worker::ApacheRules};
use saker_apache_model::{dir_config::DirConfig, host::Host};
use saker_pipeline::{Exchange, Response};

/// Pages about the server itself, by their handler.
pub fn about_server(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Host,
    local: &DirConfig,
) -> Option<Response> {
    match exchange.routing.handler.as_deref()? {
        "server-status" => status::answer(exchange, host, local, &*rules.figures),
        "server-info" => info::answer(exchange, host, local, rules.apache.info.as_ref()?),
        _ => None,
    }
}
