//! `resolver` and `resolver_timeout`: the servers that names of upstreams are asked for.
//!
//! Called by: the setters of `http` and of `stream`, and groups, which may have their own.
//! Caveat: a name server with a name is resolved by the system, once, when the configuration is read.
//! Out of scope: asking (`saker-dns`), and which names are asked for (`saker-nginx`).

use crate::{
    inherit::inherit,
    reading::Setters,
    values::{time_argument, time_ms},
};
use saker_dns::{Lookup, NameServers, Resolved};
use saker_nginx_syntax::Directive;
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

/// Addresses of names, by the address of the server as written.
pub type Found = HashMap<Box<str>, Rc<[Resolved]>>;

const PORT: u16 = 53;
/// nginx's default.
const TIMEOUT_MS: u64 = 30_000;

/// The settings of a level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolverConf {
    pub servers: Option<Arc<NameServers>>,
    pub timeout_ms: Option<u64>,
}

impl ResolverConf {
    pub fn inherit(&mut self, outer: &ResolverConf) {
        inherit!(self, outer: servers timeout_ms);
    }

    /// The longest wait for a name.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms.unwrap_or(TIMEOUT_MS))
    }

    /// Applies a directive; false: it is another's.
    ///
    /// # Errors
    /// nginx's message.
    pub fn set(&mut self, directive: &Directive) -> Result<bool, String> {
        match directive.name() {
            "resolver" if self.servers.is_some() => {
                return Err("\"resolver\" directive is duplicate".to_owned());
            }
            "resolver" => self.servers = Some(Arc::new(name_servers(directive)?)),
            "resolver_timeout" => self.timeout_ms = Some(time_argument(directive)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

pub const SETTERS: Setters<ResolverConf> = &[
    ("resolver", |d, conf, _| conf.set(d).map(drop)),
    ("resolver_timeout", |d, conf, _| conf.set(d).map(drop)),
];

fn name_servers(directive: &Directive) -> Result<NameServers, String> {
    let mut names = NameServers {
        servers: Vec::new(),
        valid_ms: None,
        ipv4: true,
        ipv6: true,
    };
    for word in directive.texts() {
        let invalid = || format!("invalid parameter: {word}");
        let is_on = |text: &str| match text {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(invalid()),
        };
        match word.split_once('=') {
            Some(("valid", text)) => names.valid_ms = Some(time_ms(text).ok_or_else(invalid)?),
            Some(("ipv4", text)) => names.ipv4 = is_on(text)?,
            Some(("ipv6", text)) => names.ipv6 = is_on(text)?,
            // Statistics of the commercial subscription.
            Some(("status_zone", _)) => {}
            Some(_) => return Err(invalid()),
            None => names.servers.extend(server(word)?),
        }
    }
    match (names.servers.is_empty(), names.ipv4 || names.ipv6) {
        (true, _) => Err("no name servers defined".to_owned()),
        (false, false) => Err("\"ipv4\" and \"ipv6\" cannot both be \"off\"".to_owned()),
        (false, true) => Ok(names),
    }
}

fn server(text: &str) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = text.parse() {
        return Ok(vec![address]);
    }
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, PORT)]);
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => {
            let port = port.parse().ok().filter(|port| *port > 0);
            let invalid = || format!("invalid port in resolver \"{text}\"");
            (host, port.ok_or_else(invalid)?)
        }
        None => (text, PORT),
    };
    let found = (host, port).to_socket_addrs();
    found
        .map(Iterator::collect)
        .map_err(|_| format!("host not found in resolver \"{text}\""))
}

/// Returns the lookup that an address with a name needs; `None`: it is an address already.
pub fn lookup(address: &str, service: Option<&str>) -> Option<Lookup> {
    if address.starts_with("unix:") || address.starts_with('[') {
        return None;
    }
    let host = match address.rsplit_once(':') {
        Some((host, _)) if service.is_none() => host,
        _ => address,
    };
    if host.parse::<IpAddr>().is_ok() {
        return None;
    }
    let host = host.to_ascii_lowercase();
    Some(match service {
        None => Lookup::Addresses(host.into()),
        // RFC 2782, unless the name of the service says it all.
        Some(service) if service.contains('.') => {
            Lookup::Service(format!("{service}.{host}").into())
        }
        Some(service) => Lookup::Service(format!("_{service}._tcp.{host}").into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_need_a_lookup_and_addresses_do_not() {
        for address in ["127.0.0.1:80", "10.0.0.1", "[::1]:80", "[::1]", "unix:/a"] {
            assert_eq!(lookup(address, None), None, "{address}");
        }
        let addresses = |name: &str| Some(Lookup::Addresses(name.into()));
        assert_eq!(lookup("A.test:80", None), addresses("a.test"));
        assert_eq!(lookup("a.test", None), addresses("a.test"));
        let service = |name: &str| Some(Lookup::Service(name.into()));
        assert_eq!(lookup("a.test", Some("http")), service("_http._tcp.a.test"));
        assert_eq!(lookup("a.test", Some("b.c")), service("b.c.a.test"));
    }

    #[test]
    fn servers_have_addresses() {
        let of = |text: &str| server(text).unwrap();
        assert_eq!(of("127.0.0.1"), ["127.0.0.1:53".parse().unwrap()]);
        assert_eq!(of("127.0.0.1:5353"), ["127.0.0.1:5353".parse().unwrap()]);
        assert_eq!(of("[::1]"), ["[::1]:53".parse().unwrap()]);
        assert_eq!(of("[::1]:54"), ["[::1]:54".parse().unwrap()]);
        assert!(server("127.0.0.1:0x").is_err());
    }
}
