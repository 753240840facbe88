//! `Listen`, and which addresses of hosts its listeners are for.
//!
//! Called by: setters of the server's directives; `assemble`; `tls/engine`.

use saker_apache_syntax::Node;
use saker_config::model::{Address, Origin};
use std::net::{IpAddr, SocketAddr};

#[derive(Clone, Debug)]
pub struct Listen {
    pub address: Option<IpAddr>,
    pub port: u16,
    /// The protocol named behind it is https, or the port says so.
    pub is_https: bool,
    pub origin: Origin,
}

impl Listen {
    /// `[address:]port [protocol]`
    pub fn parse(words: &[String], node: &Node) -> Result<Listen, String> {
        let text = words.first().map(String::as_str).unwrap_or_default();
        let (address, port) = match text.rsplit_once(':') {
            Some((host, port)) => (Some(host), port),
            None => (None, text),
        };
        let port = port
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or("Port must be specified")?;
        let address = match address {
            None | Some("*") => None,
            Some(host) => {
                let host = host.trim_matches(['[', ']']);
                Some(host.parse().map_err(|_| {
                    format!("Listen: {host} is no address; names are not looked up here")
                })?)
            }
        };
        // Port 443 is https where nothing else is said (httpd 2.4, listen.c).
        let is_https = words.get(1).map_or(port == 443, |protocol| {
            protocol.eq_ignore_ascii_case("https")
        });
        Ok(Listen {
            address,
            port,
            is_https,
            origin: node.origin.clone(),
        })
    }

    /// A port alone is of both families.
    pub fn addresses(&self) -> Vec<Address> {
        match self.address {
            Some(ip) => vec![Address::Tcp(SocketAddr::new(ip, self.port))],
            None => Address::parse_all(&format!(":{}", self.port)).unwrap_or_default(),
        }
    }
}

/// The address of this machine that a host is for; unspecified for every one.
pub fn local_address(text: &str) -> Option<SocketAddr> {
    let (host, port) = host_and_port(text);
    let ip = match host {
        "*" | "_default_" => IpAddr::from([0, 0, 0, 0]),
        host => host.parse::<IpAddr>().ok()?,
    };
    Some(SocketAddr::new(ip, port.parse().unwrap_or(0)))
}

pub fn host_and_port(text: &str) -> (&str, &str) {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port),
        _ => (text, "*"),
    };
    (host.trim_matches(['[', ']']), port)
}

/// `*`, `_default_`, `address`, each with or without `:port` or `:*`.
pub fn is_for(text: &str, listener: &SocketAddr) -> bool {
    let (host, port) = host_and_port(text);
    let port_matches = port == "*" || port.parse() == Ok(listener.port());
    let host_matches = match host {
        "*" | "_default_" => true,
        host => host
            .parse::<IpAddr>()
            .is_ok_and(|ip| listener.ip() == ip || listener.ip().is_unspecified()),
    };
    port_matches && host_matches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_listener_a_host_is_on() {
        let listener: SocketAddr = "0.0.0.0:80".parse().unwrap();
        for (text, expected) in [
            ("*:80", true),
            ("*", true),
            ("_default_:443", false),
            ("10.0.0.1:80", true),
            ("[::1]:80", true),
            ("*:*", true),
        ] {
            assert_eq!(is_for(text, &listener), expected, "{text}");
        }
        assert!(!is_for("10.0.0.1:80", &"10.0.0.2:80".parse().unwrap()));
    }
}
