//! ngx_http_realip_module, where servers or locations differ in it: the client that a proxy names.
//!
//! Called by: `dispatch`, when the server is known; `limits`, when the location is.
//! Caveat: the first level that finds a client settles it for the request, as in nginx. Limits and
//! bans of the engine have been applied to the peer of the connection before.
//! Out of scope: servers that agree, whose clients the engine settles before a server is chosen.

use crate::request::Request;
use saker_config::model::Address;
use saker_ipset::forwarded::{Trust, follow, loose_hops_from_end};
use saker_nginx_model::modules::realip::RealIp;
use std::{
    net::{IpAddr, SocketAddr},
    rc::Rc,
};

/// Gives the request the client that a trusted proxy names.
pub fn settle(request: &mut Request<'_>, conf: &RealIp) {
    if !request.nginx.settles_clients || conf.from.is_empty() {
        return;
    }
    request.depends_on_request();
    if request.state.is_client_settled {
        return;
    }
    if let Some(client) = named_client(request, conf) {
        let named = request.exchange.client.with_address(client);
        request.exchange.client = Rc::new(named);
        request.state.is_client_settled = true;
    }
}

fn named_client(request: &Request<'_>, conf: &RealIp) -> Option<SocketAddr> {
    let client = &request.exchange.client;
    let is_unix = matches!(*client.listener, Address::Unix(_));
    let trusts_unix = conf.from.iter().any(|text| text == "unix:");
    let trust = |address: IpAddr| match conf.networks.iter().any(|own| own.contains(address)) {
        true => Trust::Inside,
        false => Trust::No,
    };
    let peer = client.address;
    let is_trusted = match is_unix {
        true => trusts_unix,
        false => trust(peer.ip()) != Trust::No,
    };
    if !is_trusted {
        return None;
    }
    if conf.is_proxy_protocol() {
        return client.preface.as_ref().map(|preface| preface.source);
    }
    let field = conf.header.as_deref().unwrap_or("X-Real-IP");
    let view = request.exchange.head.view();
    let lines: Vec<&[u8]> = view.all(field).collect();
    let list = String::from_utf8_lossy(&lines.join(&b","[..])).into_owned();
    let hops = loose_hops_from_end(&list);
    let hops_max = match conf.is_recursive {
        Some(true) => usize::MAX,
        _ => 1,
    };
    // The peer itself has been found to be trusted; a socket's has no address.
    let trust = |address: IpAddr| match address == peer.ip() {
        true => Trust::Inside,
        false => trust(address),
    };
    let found = follow(peer, hops.take(hops_max), trust);
    (found.believed > 0).then_some(found.client)
}
