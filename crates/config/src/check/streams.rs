//! Addresses that a stream shares with something else, and TLS that ends where nothing has a
//! certificate.
//!
//! Called by: `check::whole`.
//! Caveat: TCP and UDP ports are apart; a listener with HTTP/3 has both.

use crate::{
    configuration::Configuration,
    diagnostic::Severity,
    directives::stream_target::ListenAddress,
    model::{Address, Listener},
    source::Location,
};
use std::net::SocketAddr;

/// Reports each address of a stream that is taken.
pub(super) fn addresses_apart(configuration: &mut Configuration) {
    let mut complaints = Vec::new();
    let mut seen: Vec<(&ListenAddress, &Location)> = Vec::new();
    for (address, at) in configuration
        .streams
        .iter()
        .flat_map(|stream| &stream.listen)
    {
        let earlier = seen
            .iter()
            .find(|(other, _)| *other == address && !is_any_port(address));
        if let Some((_, first)) = earlier {
            let help = format!("the first is at {}", first.origin());
            let message = format!("two streams listen on {}", shown(address));
            complaints.push((at.clone(), message, help));
        } else if let Some(other) = taken(configuration, address) {
            let message = format!(
                "the address of a stream, {}, is that of {other}",
                shown(address)
            );
            complaints.push((at.clone(), message, "choose another port".to_owned()));
        }
        seen.push((address, at));
    }
    for (at, message, help) in complaints {
        configuration.report(Severity::Error, &at, message, Some(help));
    }
}

/// Reports TLS that ends here where nothing has a certificate. Those of sites are used by name.
pub(super) fn certified(configuration: &mut Configuration) {
    if configuration.mentions.material || configuration.has_syntax_errors {
        return;
    }
    let streams = configuration.streams.iter();
    let bare = streams.filter(|stream| !stream.has_certificate);
    let bare: Vec<Location> = bare.filter_map(|stream| stream.tls_at.clone()).collect();
    for at in bare {
        let help = "add certificate = \"chain.pem\" and key = \"key.pem\", or automatic = true and \
                    names = [\"db.example.org\"], or remove [stream.tls] to pass TLS on as it comes";
        let message = "[stream.tls] without `certificate`";
        configuration.report(Severity::Error, &at, message.into(), Some(help.into()));
    }
}

fn taken(configuration: &Configuration, address: &ListenAddress) -> Option<String> {
    let metrics = configuration
        .metrics
        .as_ref()
        .and_then(|(metrics, _)| metrics.address);
    let console = configuration
        .console
        .as_ref()
        .and_then(|(console, _)| console.address);
    let endpoints = [("[metrics]", metrics), ("[console]", console)];
    let is_own = |listener: &Listener| match (address, &listener.address) {
        (ListenAddress::Datagrams(own), Address::Tcp(other)) => {
            listener.http3.is_some() && own == other && own.port() != 0
        }
        (ListenAddress::Stream(own), other) => own == other && !is_any_port(address),
        (ListenAddress::Datagrams(_), Address::Unix(_)) => false,
    };
    let mut listeners = configuration.listeners.iter();
    if let Some((listener, _)) = listeners.find(|(listener, _)| is_own(listener)) {
        let http3 = match address {
            ListenAddress::Datagrams(_) => " (HTTP/3)",
            ListenAddress::Stream(_) => "",
        };
        return Some(format!("the listener {}{http3}", listener.address));
    }
    let ListenAddress::Stream(Address::Tcp(own)) = address else {
        return None;
    };
    let taken_by = |(table, other): (&'static str, Option<SocketAddr>)| {
        other
            .filter(|other| is_shared(*own, *other))
            .map(|_| table.to_owned())
    };
    endpoints.into_iter().find_map(taken_by)
}

/// Returns whether two sockets would get each other's connections.
pub(super) fn is_shared(one: SocketAddr, other: SocketAddr) -> bool {
    let is_any = other.ip().is_unspecified() || one.ip().is_unspecified();
    one.port() != 0 && other.port() == one.port() && (is_any || other.ip() == one.ip())
}

fn is_any_port(address: &ListenAddress) -> bool {
    match address {
        ListenAddress::Stream(Address::Tcp(address)) | ListenAddress::Datagrams(address) => {
            address.port() == 0
        }
        ListenAddress::Stream(Address::Unix(_)) => false,
    }
}

fn shown(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Stream(address) => address.to_string(),
        ListenAddress::Datagrams(address) => format!("udp:{address}"),
    }
}
