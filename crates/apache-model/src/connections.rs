//! Settings of listeners and connections by directives of the MPM, mod_http2, and
//! RemoteIPProxyProtocol.
//!
//! Difficulty: Apache says much of it for hosts, while a connection has no host before its first
//! request: what one host says of a listener holds for the listener. Absent on purpose: numbers of
//! threads and processes, of which a core here has one.

use crate::{
    arguments::{set_flag, texts},
    reading::ServerSet,
};
use saker_apache_syntax::Node;
use saker_config::model::{Http3, Limits, Listener, Model};
use saker_net::Network;
use std::net::IpAddr;

/// Settings of the process, or of the server's own host.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    backlog: Option<u64>,
    send_buffer_bytes: Option<u64>,
    receive_buffer_bytes: Option<u64>,
    graceful_timeout_s: Option<u64>,
    request_workers_max: Option<u64>,
    servers_max: Option<u64>,
    threads_per_server: Option<u64>,
    streams_max: Option<u64>,
    window_bytes: Option<u64>,
    stream_errors_max: Option<u64>,
}

/// Settings of a host for the connections to its addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostConnections {
    protocols: Option<Protocols>,
    h2_direct: Option<bool>,
    h2_upgrade: Option<bool>,
    h2_websockets: Option<bool>,
    proxy_preface: Option<bool>,
    proxy_preface_exceptions: Vec<Network>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Protocols {
    h2: bool,
    h2c: bool,
    h3: bool,
}

/// Longer than anything runs: how a shutdown without a time limit is said.
const NO_LIMIT_MS: u64 = 365 * 86_400_000;

impl Connections {
    pub fn apply(&self, model: &mut Model) {
        let bytes = |said: Option<u64>| {
            said.and_then(|bytes| u32::try_from(bytes).ok())
                .filter(|bytes| *bytes > 0)
        };
        for listener in &mut model.listeners {
            listener.backlog = self
                .backlog
                .and_then(|backlog| u32::try_from(backlog).ok())
                .unwrap_or(listener.backlog);
            listener.send_buffer_bytes = bytes(self.send_buffer_bytes);
            listener.receive_buffer_bytes = bytes(self.receive_buffer_bytes);
        }
        if let Some(seconds) = self.graceful_timeout_s {
            model.server.shutdown_timeout_ms = if seconds == 0 {
                NO_LIMIT_MS
            } else {
                seconds.saturating_mul(1000)
            };
        }
    }

    /// Requests that may be answered at a time, where something is said about it.
    pub fn requests_at_a_time_max(&self) -> Option<u64> {
        // Apache has no more workers than processes that it may start with all their threads.
        let possible = self
            .servers_max
            .zip(self.threads_per_server)
            .map(|(servers, threads)| servers.saturating_mul(threads));
        [self.request_workers_max, possible]
            .into_iter()
            .flatten()
            .min()
    }

    pub fn limit(&self, limits: &mut Limits) {
        limits.requests_at_a_time_max = self.requests_at_a_time_max().unwrap_or(0);
        let set = |slot: &mut u64, said: Option<u64>| {
            *slot = said.filter(|said| *said > 0).unwrap_or(*slot)
        };
        set(&mut limits.http2_streams_max, self.streams_max);
        set(&mut limits.http2_window_bytes, self.window_bytes);
        set(&mut limits.http2_resets_max, self.stream_errors_max);
    }
}

impl HostConnections {
    /// Lays what the hosts of a listener say over it; the server's own comes first.
    pub fn apply(main: &HostConnections, hosts: &[&HostConnections], listener: &mut Listener) {
        let own = |host: &&HostConnections| **host != HostConnections::default();
        let all: Vec<&HostConnections> = std::iter::once(main)
            .chain(hosts.iter().copied().filter(own))
            .collect();
        let last =
            |of: fn(&HostConnections) -> Option<bool>| all.iter().rev().find_map(|host| of(host));
        let protocols: Vec<Protocols> = all.iter().filter_map(|host| host.protocols).collect();
        // Without a word about protocols, only clients with TLS get more than Apache gives them: on
        // plain connections through a proxy, HTTP/2 may get past that proxy's rules.
        let is_tls = listener.tls.is_some();
        listener.http2 = match protocols.is_empty() {
            true => is_tls,
            false => protocols
                .iter()
                .any(|protocols| if is_tls { protocols.h2 } else { protocols.h2c }),
        };
        listener.http2_direct = last(|host| host.h2_direct).unwrap_or(true);
        listener.http2_upgrade = last(|host| host.h2_upgrade).unwrap_or(!is_tls);
        // Off by default in Apache, where it is new; what a site's rules say about `Upgrade` holds
        // for it here as well.
        listener.http2_websockets = last(|host| host.h2_websockets).unwrap_or(true);
        if last(|host| host.proxy_preface) == Some(true) {
            let networks = ["0.0.0.0/0", "::/0"];
            listener.proxy_protocol_from = networks
                .iter()
                .filter_map(|network| network.parse().ok())
                .collect();
            listener.proxy_protocol_except = all
                .iter()
                .flat_map(|host| host.proxy_preface_exceptions.clone())
                .collect();
        }
        // Apache has none; without a word about protocols clients get the best, as with HTTP/2.
        if protocols.is_empty() || protocols.iter().any(|protocols| protocols.h3) {
            listener.http3 = listener.http3_where_possible(Http3::default());
        }
    }
}

macro_rules! number {
    ($($name:literal: $field:ident,)*) => {
        &[$(($name, |node, connections, _| {
            connections.$field = Some(number(node)?);
            Ok(())
        }),)*]
    };
}

pub const PROCESS_SETTERS: &[(&str, ServerSet<Connections>)] = number! {
    "ListenBacklog": backlog,
    "SendBufferSize": send_buffer_bytes,
    "ReceiveBufferSize": receive_buffer_bytes,
    "GracefulShutdownTimeout": graceful_timeout_s,
    "MaxRequestWorkers": request_workers_max,
    "MaxClients": request_workers_max,
    "ServerLimit": servers_max,
    "ThreadsPerChild": threads_per_server,
    "H2MaxSessionStreams": streams_max,
    "H2WindowSize": window_bytes,
    "H2MaxStreamErrors": stream_errors_max,
};

pub const SETTERS: &[(&str, ServerSet<HostConnections>)] = &[
    ("Protocols", |node, connections, _| {
        let words: Vec<String> = texts(node)
            .iter()
            .map(|word| word.to_ascii_lowercase())
            .collect();
        let has = |name: &str| words.iter().any(|word| word == name);
        connections.protocols = Some(Protocols {
            h2: has("h2"),
            h2c: has("h2c"),
            h3: has("h3"),
        });
        Ok(())
    }),
    ("H2Direct", |node, connections, _| {
        set_flag(node, &mut connections.h2_direct)
    }),
    ("H2Upgrade", |node, connections, _| {
        set_flag(node, &mut connections.h2_upgrade)
    }),
    ("H2WebSockets", |node, connections, _| {
        set_flag(node, &mut connections.h2_websockets)
    }),
    ("RemoteIPProxyProtocol", |node, connections, _| {
        set_flag(node, &mut connections.proxy_preface)
    }),
    ("RemoteIPProxyProtocolExceptions", |node, connections, _| {
        for word in texts(node) {
            connections.proxy_preface_exceptions.push(network(&word)?);
        }
        Ok(())
    }),
];

fn number(node: &Node) -> Result<u64, String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    word.parse().map_err(|_| {
        format!(
            "{} must be a number of 0 or more, not {word}",
            node.canonical_name()
        )
    })
}

/// An address, with a prefix or a mask.
fn network(word: &str) -> Result<Network, String> {
    let bad =
        || format!("RemoteIPProxyProtocolExceptions: {word} is neither an address nor a network");
    let parsed = match word.split_once('/') {
        Some((address, mask)) => match mask.parse::<IpAddr>() {
            Ok(IpAddr::V4(mask)) => format!("{address}/{}", mask.to_bits().leading_ones()).parse(),
            _ => word.parse(),
        },
        None => word.parse(),
    };
    parsed.map_err(|()| bad())
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::model::{Address, ListenerTls, Origin};

    fn listener(tls: bool) -> Listener {
        let mut listener = Listener::new(
            Address::Tcp("127.0.0.1:80".parse().unwrap()),
            Origin::built_in(),
        );
        listener.tls = tls.then(ListenerTls::default);
        listener
    }

    #[test]
    fn one_host_is_enough_for_a_protocol() {
        let of = |h2, h2c| HostConnections {
            protocols: Some(Protocols { h2, h2c, h3: false }),
            ..HostConnections::default()
        };
        for (hosts, tls, expected) in [
            (vec![], true, true),
            (vec![], false, false),
            (vec![of(false, false)], true, false),
            (vec![of(false, false), of(true, false)], true, true),
            (vec![of(true, false)], false, false),
            (vec![of(true, true)], false, true),
        ] {
            let mut listener = listener(tls);
            HostConnections::apply(
                &HostConnections::default(),
                &hosts.iter().collect::<Vec<_>>(),
                &mut listener,
            );
            assert_eq!(listener.http2, expected, "{hosts:?} {tls}");
        }
    }

    #[test]
    fn http3_is_there_unless_protocols_leave_it_out() {
        let of = |h3| HostConnections {
            protocols: Some(Protocols {
                h2: true,
                h2c: false,
                h3,
            }),
            ..HostConnections::default()
        };
        let behind_proxy = HostConnections {
            proxy_preface: Some(true),
            ..HostConnections::default()
        };
        for (hosts, tls, expected) in [
            (vec![], true, true),
            (vec![], false, false),
            (vec![of(false)], true, false),
            (vec![of(false), of(true)], true, true),
            (vec![behind_proxy], true, false),
        ] {
            let mut listener = listener(tls);
            HostConnections::apply(
                &HostConnections::default(),
                &hosts.iter().collect::<Vec<_>>(),
                &mut listener,
            );
            assert_eq!(listener.http3.is_some(), expected, "{hosts:?} {tls}");
        }
    }

    #[test]
    fn prefaces_and_who_sends_none() {
        let host = HostConnections {
            proxy_preface: Some(true),
            proxy_preface_exceptions: vec![
                network("10.0.0.0/255.0.0.0").unwrap(),
                network("::1").unwrap(),
            ],
            ..HostConnections::default()
        };
        let mut listener = listener(false);
        HostConnections::apply(&HostConnections::default(), &[&host], &mut listener);
        assert_eq!(listener.proxy_protocol_from.len(), 2);
        assert!(
            listener
                .proxy_protocol_except
                .iter()
                .any(|network| network.contains("10.9.9.9".parse().unwrap()))
        );
        assert!(network("host.example").is_err() && network("10.0.0.0/99").is_err());
    }

    #[test]
    fn as_many_requests_as_there_would_be_threads() {
        let limit = |workers, servers, threads| {
            let (mut limits, connections) = (
                Limits::default(),
                Connections {
                    request_workers_max: workers,
                    servers_max: servers,
                    threads_per_server: threads,
                    ..Connections::default()
                },
            );
            connections.limit(&mut limits);
            limits.requests_at_a_time_max
        };
        assert_eq!(limit(None, None, None), 0);
        assert_eq!(limit(Some(150), None, Some(25)), 150);
        assert_eq!(limit(Some(400), Some(4), Some(25)), 100);
        assert_eq!(limit(None, Some(4), Some(25)), 100);
    }
}
