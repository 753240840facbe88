//! Listening addresses as people type them.
//!
//! Difficulty: a bare port. Both nginx and Apache take it for "every address of this machine", so it is `[::]`, which takes IPv4 as
//! well, or `0.0.0.0` where the kernel has no IPv6.
//! Absent on purpose: names other than `localhost`. A server that has to ask the DNS where to listen doesn't start when it is down.

use saker_config::model::Address;
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
};

/// For clap.
pub fn parse(text: &str) -> Result<Address, String> {
    parse_for(text, machine_has_ipv6())
}

fn parse_for(text: &str, has_ipv6: bool) -> Result<Address, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return unix(path);
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Address::Tcp(address));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port),
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => ("", text),
        None => return Err(without_port(text)),
    };
    let ip = match host {
        "" | "*" if has_ipv6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        "" | "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        _ => return Err(unknown_host(text)),
    };
    parse_port(port).map(|port| Address::Tcp(SocketAddr::new(ip, port)))
}

fn parse_port(port: &str) -> Result<u16, String> {
    // Digits alone: the standard library would take a plus sign, too.
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    let number = port.parse().ok().filter(|_| digits);
    number.ok_or_else(|| "a port is a number up to 65535, as in 8080 or 127.0.0.1:8080".into())
}

fn without_port(text: &str) -> String {
    match text.parse::<Ipv4Addr>().is_ok() || text == "localhost" {
        true => format!("the port is missing, as in {text}:8080"),
        false => unknown_host(text),
    }
}

fn unix(path: &str) -> Result<Address, String> {
    match Path::new(path).is_absolute() {
        true => Ok(Address::Unix(PathBuf::from(path))),
        false => Err("the path of a Unix socket is absolute, as in unix:/run/saker/http.sock".into()),
    }
}

fn unknown_host(text: &str) -> String {
    if text.parse::<Ipv6Addr>().is_ok() {
        return format!("an IPv6 address stands in brackets, as in [{text}]:8080");
    }
    if text.contains("://") {
        return "an address, not a URL, as in 127.0.0.1:8080".into();
    }
    "not an address of this machine; write 8080, :8080, 127.0.0.1:8080, [::1]:8080, localhost:8080 or unix:/path".into()
}

fn machine_has_ipv6() -> bool {
    Path::new("/proc/net/if_inet6").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("8080", "[::]:8080"),
            (":8080", "[::]:8080"),
            ("*:8080", "[::]:8080"),
            ("0", "[::]:0"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("[::1]:8080", "[::1]:8080"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("unix:/run/a b.sock", "unix:/run/a b.sock"),
        ] {
            assert_eq!(parse_for(text, true).unwrap().to_string(), expected, "{text}");
        }
        assert_eq!(parse_for("8080", false).unwrap().to_string(), "0.0.0.0:8080");
    }

    #[test]
    fn refused_with_the_way_out() {
        for (text, hint) in [
            ("", "a port is a number"),
            (":", "a port is a number"),
            ("65536", "a port is a number"),
            (":+80", "a port is a number"),
            ("localhost:http", "a port is a number"),
            ("-1", "not an address"),
            ("http", "not an address"),
            ("example.org", "not an address"),
            ("localhost", "the port is missing"),
            ("127.0.0.1", "the port is missing"),
            ("::1", "in brackets"),
            ("http://localhost:8080", "not a URL"),
            ("example.org:80", "not an address of this machine"),
            ("unix:saker.sock", "absolute"),
            ("unix:", "absolute"),
        ] {
            let error = parse_for(text, true).unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
