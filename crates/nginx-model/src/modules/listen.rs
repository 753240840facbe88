//! `listen` and `server_name`.
//!
//! Called by: `load`.
//! Caveat: sockets are bound once per address; where a wildcard address has the same port, it takes
//! the connections of the others, and the local address tells them apart.

use crate::{
    modules::{maps::NameTable, socket_options::SocketOptions},
    reading::Reading,
    values::Regex,
};
use saker_config::model::{Address, Origin};
use saker_nginx_syntax::{Directive, Report};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Permissions of Unix sockets: nginx's are for all users.
pub const SOCKET_MODE: u32 = 0o666;

/// One `listen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    pub address: Address,
    pub is_default: bool,
    pub is_tls: bool,
    pub is_quic: bool,
    pub has_http2: bool,
    pub has_proxy_protocol: bool,
    pub options: SocketOptions,
    pub origin: Origin,
}

impl Listen {
    /// An address without parameters.
    pub fn at(address: Address) -> Listen {
        Listen {
            address,
            is_default: false,
            is_tls: false,
            is_quic: false,
            has_http2: false,
            has_proxy_protocol: false,
            options: SocketOptions::default(),
            origin: Origin::built_in(),
        }
    }

    /// Returns true for the IPv4 address that an IPv6 socket has, too.
    pub fn is_second(&self) -> bool {
        self.options.is_dual && matches!(self.address, Address::Tcp(SocketAddr::V4(_)))
    }
}

/// Names of a server.
#[derive(Clone, Debug, Default)]
pub struct ServerNames {
    /// The first one; of an expression its text.
    pub first: Option<Box<str>>,
    pub literal: Vec<Box<str>>,
    pub regexes: Vec<Regex>,
}

/// Servers of an address.
#[derive(Clone, Debug, Default)]
pub struct AddressServers {
    pub default: usize,
    pub names: NameTable<usize>,
}

/// Reads a `listen`.
///
/// # Errors
/// nginx's message.
pub fn listen(directive: &Directive, report: &mut Report) -> Result<Vec<Listen>, String> {
    let addresses = addresses(directive.argument(0))?;
    let Some(first) = addresses.first() else {
        return Ok(Vec::new());
    };
    let mut base = Listen::at(first.clone());
    base.origin = Origin {
        line: directive.end_line,
        ..directive.origin()
    };
    for word in directive.texts().skip(1) {
        if base.options.read(word)? {
            continue;
        }
        match word {
            "default_server" | "default" => base.is_default = true,
            "ssl" => base.is_tls = true,
            "http2" => base.has_http2 = true,
            "quic" | "http3" => base.is_quic = true,
            "proxy_protocol" => base.has_proxy_protocol = true,
            "deferred" => base.options.are_set = true,
            // nginx says so at `emerg`, and goes on.
            word if word.starts_with("accept_filter=") => {
                let rest = "are not supported on this platform, ignored";
                report.warn(directive, format!("accept filters \"{word}\" {rest}"), None);
            }
            word => return Err(format!("invalid parameter \"{word}\"")),
        }
    }
    let others = addresses.into_iter().map(|address| Listen {
        address,
        ..base.clone()
    });
    let mut all: Vec<Listen> = others.collect();
    if let Address::Tcp(SocketAddr::V6(address)) = base.address
        && base.options.is_dual
        && address.ip().is_unspecified()
    {
        all.push(Listen {
            address: Address::Tcp((Ipv4Addr::UNSPECIFIED, address.port()).into()),
            ..base
        });
    }
    Ok(all)
}

/// Parses an address whose port may be a range.
///
/// # Errors
/// nginx's message.
pub fn addresses(text: &str) -> Result<Vec<Address>, String> {
    let start = text.rfind(':').map_or(0, |at| at + 1);
    let (before, ports) = text.split_at(start);
    let range = ports.split_once('-').filter(|_| !text.starts_with("unix:"));
    let range = range.and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    let Some((first, last)) = range else {
        return Ok(vec![address(text)?]);
    };
    if first > last {
        return Err(format!(
            "invalid port range in \"{text}\" of the \"listen\" directive"
        ));
    }
    let ports = first..=last;
    let each = ports.map(|port: u16| address(&format!("{before}{port}")));
    each.collect()
}

/// Parses an address: a port, an address, both, or a Unix socket.
///
/// # Errors
/// nginx's message.
pub fn address(text: &str) -> Result<Address, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return match path.starts_with('/') {
            true => Ok(Address::Unix(path.into())),
            false => Err(format!(
                "no path in the unix domain socket in \"{text}\" of the \"listen\" directive"
            )),
        };
    }
    let port_of = |port: &str| {
        port.parse::<u16>()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| format!("invalid port in \"{text}\" of the \"listen\" directive"))
    };
    let wrong_host = |kind: &str| format!("{kind} host in \"{text}\" of the \"listen\" directive");
    if text.is_empty() {
        return Err(wrong_host("no"));
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(Address::Tcp((Ipv4Addr::UNSPECIFIED, port_of(text)?).into()));
    }
    let unknown = || format!("host not found in \"{text}\" of the \"listen\" directive");
    if let Some(rest) = text.strip_prefix('[') {
        let invalid = || wrong_host("invalid");
        let (ip, rest) = rest.split_once(']').ok_or_else(invalid)?;
        let ip: Ipv6Addr = ip.parse().map_err(|_| unknown())?;
        let port = match rest.strip_prefix(':') {
            Some(port) => port_of(port)?,
            None => 80,
        };
        return Ok(Address::Tcp((ip, port).into()));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port_of(port)?),
        None => (text, 80),
    };
    let ip = match host {
        "*" => Ipv4Addr::UNSPECIFIED,
        "localhost" => Ipv4Addr::LOCALHOST,
        _ => host.parse().map_err(|_| unknown())?,
    };
    Ok(Address::Tcp((ip, port).into()))
}

/// Adds the names of a `server_name`.
///
/// # Errors
/// nginx's message.
pub fn server_name(
    directive: &Directive,
    names: &mut ServerNames,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    for word in directive.texts() {
        let machine = word
            .eq_ignore_ascii_case("$hostname")
            .then(saker_net::process::host_name);
        let word = machine.as_deref().unwrap_or(word);
        names
            .first
            .get_or_insert_with(|| match word.strip_prefix('.') {
                Some(rest) => rest.into(),
                None => word.into(),
            });
        if let Some(pattern) = word.strip_prefix('~') {
            if pattern.is_empty() {
                return Err(format!("empty regex in server name \"{word}\""));
            }
            let regex = Regex::compile(pattern, true, &mut reading.variables)?;
            names.regexes.push(regex);
            continue;
        }
        let stars = word.matches('*').count();
        let is_valid = stars == 0 && word != "."
            || stars == 1 && word.len() > 2 && (word.starts_with("*.") || word.ends_with(".*"));
        if !is_valid {
            return Err(format!("server name \"{word}\" is invalid"));
        }
        if word.contains('/') {
            let message = format!("server name \"{word}\" has suspicious symbols");
            reading.report.warn(directive, message, None);
        }
        names.literal.push(word.to_ascii_lowercase().into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ports() {
        let all = super::addresses("127.0.0.1:8080-8082").unwrap();
        let shown: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:8082"]
        );
        assert_eq!(super::addresses("80-80").unwrap().len(), 1);
        assert!(super::addresses("82-80").is_err());
        assert!(super::addresses("[::1]:0-5").is_err());
    }

    #[test]
    fn addresses() {
        let shown = |text| address(text).map(|address| address.to_string());
        let cases = [
            ("80", Ok("0.0.0.0:80")),
            ("*:8080", Ok("0.0.0.0:8080")),
            ("127.0.0.1", Ok("127.0.0.1:80")),
            ("localhost:81", Ok("127.0.0.1:81")),
            ("[::]:443", Ok("[::]:443")),
            ("[::1]", Ok("[::1]:80")),
            ("unix:/run/x", Ok("unix:/run/x")),
            (
                "nowhere:80",
                Err("host not found in \"nowhere:80\" of the \"listen\" directive"),
            ),
            (
                "99999",
                Err("invalid port in \"99999\" of the \"listen\" directive"),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(
                shown(text),
                expected.map(str::to_owned).map_err(str::to_owned),
                "{text}"
            );
        }
    }
}
