//! `scheme://name:port` of the server, as redirects to itself begin.
//!
//! Difficulty: which name and which port is a matter of UseCanonicalName and
//! UseCanonicalPhysicalPort, and of whether the request is still the one that the client sent:
//! look-aheads forget the port that it asked for.

use crate::state::peek;
use saker_apache_model::{dir_config::DirConfig, host::Host, modules::core::Core};
use saker_http::host;
use saker_pipeline::Exchange;

/// `http://host:port` without the port where it is the scheme's own.
pub fn origin(exchange: &Exchange, host: &Host) -> Vec<u8> {
    let scheme: &[u8] = if exchange.client.secure {
        b"https://"
    } else {
        b"http://"
    };
    let mut origin = [scheme, &name(exchange, host)].concat();
    let port = port(exchange, host);
    if port != default_port(exchange) {
        origin.extend_from_slice(format!(":{port}").as_bytes());
    }
    origin
}

/// The value of REDIRECT_URL: the path, and with QualifyRedirectURL all of the URL.
pub fn of_redirect(
    exchange: &Exchange,
    host: &Host,
    local: Option<&DirConfig>,
    path: &[u8],
) -> Vec<u8> {
    let core = local.map_or(&host.defaults.core, |local| &local.core);
    match core.qualify_redirect_url {
        Some(true) => [origin(exchange, host).as_slice(), path].concat(),
        _ => path.to_vec(),
    }
}

/// The name of the server towards this client.
pub fn name(exchange: &Exchange, host: &Host) -> Vec<u8> {
    let own = || {
        host.server_name
            .as_ref()
            .map(|name| name.as_bytes().to_vec())
    };
    let asked = || Some(exchange.host.clone()).filter(|name| !name.is_empty());
    let name = if is_canonical(exchange, host) {
        own().or_else(asked)
    } else {
        asked().or_else(own)
    };
    name.unwrap_or_else(|| exchange.client.local.ip().to_string().into_bytes())
}

/// The port that goes with it.
pub fn port(exchange: &Exchange, host: &Host) -> u16 {
    let physical = core(exchange, host)
        .canonical_physical_port
        .unwrap_or(false);
    let local = Some(exchange.client.local.port()).filter(|port| physical && *port != 0);
    let port = match is_canonical(exchange, host) {
        true => host.server_port.or(local),
        false => port_asked_for(exchange).or(local).or(host.server_port),
    };
    port.unwrap_or(default_port(exchange))
}

fn core<'e>(exchange: &'e Exchange, host: &'e Host) -> &'e Core {
    peek(exchange)
        .and_then(|state| state.local.as_ref())
        .map_or(&host.defaults.core, |local| &local.core)
}

fn is_canonical(exchange: &Exchange, host: &Host) -> bool {
    core(exchange, host).canonical_name.unwrap_or(false)
}

fn default_port(exchange: &Exchange) -> u16 {
    if exchange.client.secure { 443 } else { 80 }
}

fn port_asked_for(exchange: &Exchange) -> Option<u16> {
    let view = exchange.head.view();
    if peek(exchange).is_some_and(|state| state.is_subrequest) {
        return None;
    }
    host::parse_authority(view.first("host")?)?.port
}
