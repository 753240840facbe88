//! The client behind proxies: reads the lists in which proxies name the hop before them
//! (`X-Forwarded-For`, `Forwarded`, and fields with a single address).
//!
//! Called by: sessions, for the trusted proxies of saker.toml; mod_remoteip of Apache
//! configurations. Pure.
//! Caveat: a list is read from its end, hop by hop, as long as the hop that names the next one is
//! trusted. Everything before that may have been written by the client. A hop that cannot be read
//! ends the list, and the hop that named it counts as the client.
//! Out of scope: the PROXY protocol (`saker_net::proxy_preface`), and which field is read.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Trust in a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Nothing that it says counts.
    No,
    /// It is believed, but not to know addresses of private networks.
    Outside,
    /// It is believed.
    Inside,
}

/// The outcome of reading a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// The client; port 0 if the list does not have it.
    pub client: SocketAddr,
    /// Hops of the list that were believed, from its end.
    pub believed: usize,
    /// Proxies outside of our networks that were passed, the nearest one first.
    pub proxies: Vec<IpAddr>,
    /// A private address that was not believed, and the proxy outside that named it.
    pub disbelieved: Option<(IpAddr, IpAddr)>,
}

/// Follows hops from the nearest one on, beginning at the peer of the connection. `None` among the
/// hops is one that cannot be read.
pub fn follow(
    peer: SocketAddr,
    hops: impl Iterator<Item = Option<SocketAddr>>,
    trust: impl Fn(IpAddr) -> Trust,
) -> Forwarded {
    let mut found = Forwarded {
        client: peer,
        believed: 0,
        proxies: Vec::new(),
        disbelieved: None,
    };
    for hop in hops {
        let named_by = found.client.ip();
        let trust = trust(named_by);
        let Some(hop) = hop.filter(|_| trust != Trust::No) else {
            break;
        };
        if trust == Trust::Outside {
            if is_private(hop.ip()) {
                found.disbelieved = Some((hop.ip(), named_by));
                break;
            }
            found.proxies.push(named_by);
        }
        found.client = hop;
        found.believed += 1;
    }
    found
}

/// Networks that no proxy outside can vouch for, as mod_remoteip has them.
fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            address.is_private() || address.is_link_local() || address.is_loopback()
        }
        IpAddr::V6(address) => address.segments()[0] & 0xe000 != 0x2000,
    }
}

/// Parses a hop: an address, with or without a port; IPv6 addresses with a port are in brackets,
/// and the whole may be in quotes (RFC 7239 section 6). `None`: it names no address (`unknown`,
/// `_hidden`, garbage).
pub fn parse_hop(text: &str) -> Option<SocketAddr> {
    let text = text.trim();
    let text = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .unwrap_or(text);
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(SocketAddr::new(address.to_canonical(), 0));
    }
    let bracketed = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    if let Some(address) = bracketed {
        let address = address.parse::<std::net::Ipv6Addr>().ok()?;
        return Some(SocketAddr::new(IpAddr::V6(address).to_canonical(), 0));
    }
    let address = text.parse::<SocketAddr>().ok()?;
    // A zone (`fe80::1%2`) is of another machine.
    let is_scoped = matches!(address, SocketAddr::V6(address) if address.scope_id() != 0);
    (!is_scoped).then(|| SocketAddr::new(address.ip().to_canonical(), address.port()))
}

/// Elements of a list, from its end.
pub fn elements_from_end(list: &str) -> impl Iterator<Item = &str> {
    list.rsplit(',').map(str::trim)
}

/// Hops of a list from its end, as servers read it that are not strict about its form: commas and
/// spaces part hops, empty elements are none, and octets may begin with zeros.
pub fn loose_hops_from_end(list: &str) -> impl Iterator<Item = Option<SocketAddr>> {
    let elements = list.rsplit([',', ' ']).filter(|text| !text.is_empty());
    elements.map(|text| loose_octets(text).or_else(|| parse_hop(text)))
}

fn loose_octets(text: &str) -> Option<SocketAddr> {
    if let Some(address) = parse_octets(text) {
        return Some(SocketAddr::new(address.into(), 0));
    }
    let (address, port) = text.split_once(':')?;
    Some(SocketAddr::new(
        parse_octets(address)?.into(),
        port.parse().ok()?,
    ))
}

/// Parses an IPv4 address whose octets are decimal, with or without zeros in front of them.
pub fn parse_octets(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        *octet = part.parse().ok().filter(|_| is_number)?;
    }
    parts.next().is_none().then(|| octets.into())
}

/// Elements of a `Forwarded` field (RFC 7239 section 4), from its end. Commas and semicolons in
/// quotes are text. If a quote is never closed, quotes mean nothing: otherwise a client that sends
/// one would hide behind it what proxies have added.
pub fn forwarded_from_end(field: &str) -> Vec<ForwardedElement<'_>> {
    let elements = split_unquoted(field, b',');
    elements
        .into_iter()
        .rev()
        .map(|element| {
            let parameter = |name: &str| {
                let mut pairs = split_unquoted(element, b';').into_iter();
                pairs.find_map(|pair| {
                    let (key, value) = pair.split_once('=')?;
                    key.trim()
                        .eq_ignore_ascii_case(name)
                        .then_some(value.trim())
                })
            };
            ForwardedElement {
                client: parameter("for"),
                scheme: parameter("proto").map(|proto| proto.trim_matches('"')),
            }
        })
        .collect()
}

/// One element of `Forwarded`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedElement<'f> {
    /// `for`
    pub client: Option<&'f str>,
    /// `proto`
    pub scheme: Option<&'f str>,
}

/// Splits a text where a separator is not in quotes (RFC 9110 section 5.6.4); everywhere if a quote
/// is not closed.
fn split_unquoted(text: &str, separator: u8) -> Vec<&str> {
    let (mut parts, mut start, mut is_quoted) = (Vec::new(), 0, false);
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' if is_quoted => {
                bytes.next();
            }
            b'"' => is_quoted = !is_quoted,
            _ if byte == separator && !is_quoted => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if is_quoted {
        return text.split(char::from(separator)).map(str::trim).collect();
    }
    parts.push(text[start..].trim());
    parts
}

#[cfg(test)]
mod tests;
