//! Listening addresses as operators write them: those of saker.toml, and the additional short forms
//! of the command line.
//!
//! Caveat: a bare port. Both nginx and Apache take it for "every address of this machine", IPv4 and
//! IPv6; a machine without IPv6 has only the former, and must not fail because of the latter, which
//! the operator did not name.
//! Out of scope: names other than `localhost`. A server that needs the DNS to know where to listen
//! does not start while the DNS is down.

use saker_config::model::Address;
use std::{
    net::{IpAddr, Ipv6Addr},
    path::Path,
};

pub fn parse(text: &str) -> Result<Vec<Address>, String> {
    parse_for(text, Path::new("/proc/net/if_inet6").exists())
}

fn parse_for(text: &str, has_ipv6: bool) -> Result<Vec<Address>, String> {
    let mut addresses = Address::parse_all(&in_full(text)).map_err(|_| way_out(text))?;
    if !has_ipv6 && addresses.len() > 1 {
        addresses.retain(|address| !is_any_ipv6(address));
    }
    Ok(addresses)
}

/// Short forms as saker.toml would have them.
fn in_full(text: &str) -> String {
    match text.rsplit_once(':') {
        None if is_number(text) => format!(":{text}"),
        Some(("*", port)) => format!(":{port}"),
        Some(("localhost", port)) => format!("127.0.0.1:{port}"),
        _ => text.to_owned(),
    }
}

fn is_any_ipv6(address: &Address) -> bool {
    matches!(address, Address::Tcp(address) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn way_out(text: &str) -> String {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    if text.starts_with("unix:") {
        return "the path of a Unix socket is absolute, as in unix:/run/saker/http.sock, and has at most 107 bytes".into();
    }
    if text.contains("://") {
        return "an address, not a URL, as in 127.0.0.1:8080".into();
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return format!("an IPv6 address stands in brackets, as in [{text}]:8080");
    }
    if text == "localhost" || text.parse::<IpAddr>().is_ok() {
        return format!("the port is missing, as in {text}:8080");
    }
    if is_number(text) || (matches!(host, "" | "*" | "localhost") && port.parse::<u16>().is_err()) {
        return "a port is a number up to 65535, as in 8080 or 127.0.0.1:8080".into();
    }
    "not an address of this machine; write 8080, :8080, 127.0.0.1:8080, [::1]:8080, localhost:8080 or unix:/path".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, has_ipv6: bool) -> Vec<String> {
        parse_for(text, has_ipv6)
            .unwrap()
            .iter()
            .map(Address::to_string)
            .collect()
    }

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("8080", &["0.0.0.0:8080", "[::]:8080"][..]),
            (":8080", &["0.0.0.0:8080", "[::]:8080"]),
            ("*:8080", &["0.0.0.0:8080", "[::]:8080"]),
            ("127.0.0.1:8080", &["127.0.0.1:8080"]),
            ("0.0.0.0:80", &["0.0.0.0:80"]),
            ("[::1]:8080", &["[::1]:8080"]),
            ("localhost:8080", &["127.0.0.1:8080"]),
            ("unix:/run/a b.sock", &["unix:/run/a b.sock"]),
        ] {
            assert_eq!(shown(text, true), expected, "{text}");
        }
    }

    #[test]
    fn without_ipv6_only_what_was_named() {
        assert_eq!(shown("8080", false), ["0.0.0.0:8080"]);
        assert_eq!(shown("[::]:8080", false), ["[::]:8080"]);
    }

    #[test]
    fn refused_with_the_way_out() {
        for (text, hint) in [
            ("", "a port is a number"),
            (":", "a port is a number"),
            ("65536", "a port is a number"),
            (":x", "a port is a number"),
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
