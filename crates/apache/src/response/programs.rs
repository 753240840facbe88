//! Responses of programs, whose fields are in the table that `Header always` edits.
//!
//! Called by: the edits of responses, also of those that are kept.
//! Caveat: members of balancers may be programs, too; their fields are edited as those of servers.
//! Out of scope: the edits (`layers`).

use crate::state::State;
use saker_apache_model::host::Host;
use saker_pipeline::Exchange;

/// True if the content comes by CGI, FastCGI, or SCGI. PHP of our own is as a module is in Apache.
pub fn asks_program(exchange: &Exchange, own: &State, host: &Host) -> bool {
    let is_program = |url: &[u8]| url.starts_with(b"fcgi:") || url.starts_with(b"scgi:");
    let by_handler = || {
        let handler = exchange.routing.handler.as_deref()?;
        let url = handler.strip_prefix("proxy:");
        Some(url.map_or(handler == "cgi-script", |url| {
            is_program(url.rsplit('|').next().unwrap_or_default().as_bytes())
        }))
    };
    !host.is_native
        && match &own.proxied {
            Some(proxied) => is_program(
                proxied
                    .url
                    .rsplit(|byte| *byte == b'|')
                    .next()
                    .unwrap_or_default(),
            ),
            None => by_handler().unwrap_or(false),
        }
}
