//! `scheme://name:port` of the server, as redirects to itself begin.
//!
//! Difficulty: which name and which port is a matter of UseCanonicalName and UseCanonicalPhysicalPort, and of whether the request is still
//! the one that the client sent: look-aheads forget the port that it asked for.

use crate::{host::Host, state::peek};
use saker_http::{host, target};
use saker_pipeline::Exchange;

/// `http://host:port` without the port where it is the scheme's own.
pub fn origin(exchange: &Exchange, host: &Host) -> Vec<u8> {
    let (scheme, default) = if exchange.client.secure { ("https://", 443) } else { ("http://", 80) };
    let core = peek(exchange).and_then(|state| state.local.as_ref()).map_or(&host.defaults.core, |local| &local.core);
    let (canonical, physical) = (core.canonical_name.unwrap_or(false), core.canonical_physical_port.unwrap_or(false));
    let asked = if canonical { None } else { port_asked_for(exchange) };
    let local = Some(exchange.client.local.port()).filter(|port| physical && *port != 0);
    let port = match canonical {
        true => host.server_port.or(local),
        false => asked.or(local).or(host.server_port),
    };
    let mut origin = [scheme.as_bytes(), &name(exchange, host, canonical)].concat();
    if let Some(port) = port.filter(|port| *port != default) {
        origin.extend_from_slice(format!(":{port}").as_bytes());
    }
    origin
}

fn name(exchange: &Exchange, host: &Host, canonical: bool) -> Vec<u8> {
    let own = || host.server_name.as_ref().map(|name| name.as_bytes().to_vec());
    let asked = || Some(exchange.host.clone()).filter(|name| !name.is_empty());
    let name = if canonical { own().or_else(asked) } else { asked().or_else(own) };
    name.unwrap_or_else(|| exchange.client.local.ip().to_string().into_bytes())
}

fn port_asked_for(exchange: &Exchange) -> Option<u16> {
    let view = exchange.head.view();
    if peek(exchange).is_some_and(|state| state.is_subrequest) {
        return None;
    }
    let authority = match target::split(view.method(), view.target()) {
        Ok(target::Target::Absolute { authority, .. }) => authority,
        _ => view.first("host")?,
    };
    host::parse_authority(authority)?.port
}
