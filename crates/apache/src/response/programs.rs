//! Responses of programs, whose fields are in the table that `Header always` edits.
//!
//! Called by: the edits of responses, also of those that are kept.
//! Caveat: all members of a balancer are taken to speak what its first one speaks.
//! Out of scope: the edits (`layers`).

use crate::state::State;
use saker_apache_model::host::Host;
use saker_config::model::Protocol;
use saker_pipeline::Exchange;

/// True if the content comes by CGI, FastCGI, or SCGI. PHP of our own is as a module is in Apache.
pub fn asks_program(exchange: &Exchange, own: &State, host: &Host) -> bool {
    let is_program = |url: &[u8]| match url.starts_with(b"balancer:") {
        true => balances_programs(url, host),
        false => url.starts_with(b"fcgi:") || url.starts_with(b"scgi:"),
    };
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

/// `url`: `balancer://name`, and a path.
fn balances_programs(url: &[u8], host: &Host) -> bool {
    let url = String::from_utf8_lossy(url).to_ascii_lowercase();
    let name_at = "balancer://".len();
    let end = url.get(name_at..).and_then(|name| name.find('/'));
    let name = end.map_or(&*url, |end| &url[..name_at + end]);
    let balancer = host.proxy.workers.balancer(name);
    balancer.is_some_and(|balancer| {
        let members = &balancer.current().members;
        let spoken = members.first().map(|member| member.backend.protocol);
        matches!(spoken, Some(Protocol::FastCgi | Protocol::Scgi))
    })
}
