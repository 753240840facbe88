//! Host and authority (RFC 9110 section 7.2; RFC 3986 section 3.2).
//!
//! Called by: code that selects a site by Host or `:authority`, to check them first;
//! [`crate::effective_host`] decides which of them counts.
//! Out of scope: percent-encoded names, IPvFuture, zone identifiers and user information, none of
//! which a client may need; spellings of IPv4 addresses other than the four decimal numbers of RFC
//! 3986 section 3.2.2, which libraries read as addresses and RFC 3986 as names (section 7.4).
//! Apache refuses them, too.

use crate::chars::is_host_char;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Maximum length of a name in DNS's text form with its trailing dot (RFC 1035 section 2.3.4).
const HOST_BYTES_MAX: usize = 254;

/// `host[:port]`, checked. No user information, no empty host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    /// Host as sent: a name, an IPv4 address, or an IPv6 address in brackets.
    pub host: &'a [u8],
    pub port: Option<u16>,
}

impl Authority<'_> {
    /// Appends the one spelling of this authority: the host as [`canonical_host`] has it, and the
    /// port without leading zeros, if there is one.
    pub fn canonical_into(self, out: &mut Vec<u8>) {
        let start = out.len();
        match ipv6(self.host) {
            Some(address) => out.extend_from_slice(format!("[{address}]").as_bytes()),
            None => {
                out.extend_from_slice(without_dot(self.host));
                out[start..].make_ascii_lowercase();
            }
        }
        if let Some(port) = self.port {
            out.push(b':');
            push_decimal(port, out);
        }
    }

    /// True if `text`, which this authority was parsed from, is its one spelling (as
    /// [`Authority::canonical_into`] has it). False for IPv6 addresses, which are not looked at.
    pub(crate) fn is_canonical(self, text: &[u8]) -> bool {
        let port = text.get(self.host.len()..).unwrap_or_default();
        let is_name = self.host.first() != Some(&b'[')
            && !self.host.ends_with(b".")
            && !self.host.iter().any(u8::is_ascii_uppercase);
        let is_port = match (self.port, port) {
            (None, []) => true,
            // No leading zero.
            (Some(_), [b':', first, rest @ ..]) => *first != b'0' || rest.is_empty(),
            _ => false,
        };
        is_name && is_port
    }

    /// The same authority for URLs of a scheme whose port is `default_port`: equal hosts, and equal
    /// ports where none is that one.
    pub fn is_same(self, other: Authority<'_>, default_port: Option<u16>) -> bool {
        let port = |authority: Authority<'_>| authority.port.or(default_port);
        port(self) == port(other)
            && (self.host == other.host || canonical_host(self.host) == canonical_host(other.host))
    }
}

/// `None` where the text is not a valid authority (bad bytes, port over 65535 or not digits,
/// unclosed bracket, user info, an address that is not in its usual form…). An empty port (`host:`)
/// is as none. Underscores are let through: they are in use.
pub fn parse_authority(text: &[u8]) -> Option<Authority<'_>> {
    let host_len = match text.first()? {
        b'[' => memchr::memchr(b']', text)? + 1,
        _ => memchr::memchr(b':', text).unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at_checked(host_len)?;
    let valid = if host.starts_with(b"[") {
        ipv6(host).is_some()
    } else {
        is_name(host)
    };
    valid.then_some(Authority {
        host,
        port: port(rest)?,
    })
}

/// The host in lower case, without one trailing dot, for comparison with a site's names. An IPv6
/// address in its shortest form (RFC 5952), because there are many ways to write one.
pub fn canonical_host(host: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(host.len());
    canonical_host_into(host, &mut out);
    out
}

/// The same into `out`, cleared first; allocates nothing once `out` has grown (but for IPv6
/// addresses).
pub fn canonical_host_into(host: &[u8], out: &mut Vec<u8>) {
    out.clear();
    if let Some(address) = ipv6(host) {
        return out.extend_from_slice(format!("[{address}]").as_bytes());
    }
    out.extend_from_slice(without_dot(host));
    out.make_ascii_lowercase();
}

fn without_dot(host: &[u8]) -> &[u8] {
    host.strip_suffix(b".").unwrap_or(host)
}

fn push_decimal(number: u16, out: &mut Vec<u8>) {
    if number >= 10 {
        push_decimal(number / 10, out);
    }
    out.push(b'0' + (number % 10) as u8);
}

/// An IPv6 address in brackets (RFC 3986 section 3.2.2).
fn ipv6(host: &[u8]) -> Option<Ipv6Addr> {
    let inner = host.strip_prefix(b"[")?.strip_suffix(b"]")?;
    std::str::from_utf8(inner).ok()?.parse().ok()
}

/// Labels of letters, digits, `-` and `_`, one dot between them, at most one at the end.
fn is_name(host: &[u8]) -> bool {
    let mut before = b'.';
    for byte in host {
        if !is_host_char(*byte) || (*byte == b'.' && before == b'.') {
            return false;
        }
        before = *byte;
    }
    !host.is_empty() && host.len() <= HOST_BYTES_MAX && (!ends_in_number(host) || is_ipv4(host))
}

/// The last label is a number, decimal or hexadecimal (octal ones are digits, too): what
/// `inet_aton` and browsers take for an IPv4 address.
fn ends_in_number(host: &[u8]) -> bool {
    let host = without_dot(host);
    let label = host.rsplit(|byte| *byte == b'.').next().unwrap_or(host);
    match label {
        [b'0', b'x' | b'X', digits @ ..] => digits.iter().all(u8::is_ascii_hexdigit),
        digits => digits.iter().all(u8::is_ascii_digit),
    }
}

/// Four decimal numbers up to 255 without leading zeros (RFC 3986 section 3.2.2). A dot at the end
/// passes as it does with Apache and in browsers.
fn is_ipv4(host: &[u8]) -> bool {
    std::str::from_utf8(without_dot(host)).is_ok_and(|text| text.parse::<Ipv4Addr>().is_ok())
}

/// `Some(None)` for nothing or a lone colon (RFC 3986 section 3.2.3).
fn port(text: &[u8]) -> Option<Option<u16>> {
    let digits = match text {
        [] | [b':'] => return Some(None),
        [b':', digits @ ..] => digits,
        _ => return None,
    };
    let number = digits.iter().try_fold(0u16, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u16::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })?;
    Some(Some(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Text; host and port.
    type Case = (&'static [u8], Option<(&'static [u8], Option<u16>)>);

    #[test]
    fn authorities() {
        let long = [b"a".repeat(63).as_slice(), b".".as_slice()]
            .concat()
            .repeat(4);
        let cases: [Case; 53] = [
            (b"example.com", Some((b"example.com", None))),
            (b"Example.COM:80", Some((b"Example.COM", Some(80)))),
            (b"example.com.", Some((b"example.com.", None))),
            (b"example.com:", Some((b"example.com", None))),
            (b"example.com:0", Some((b"example.com", Some(0)))),
            (b"example.com:65535", Some((b"example.com", Some(65535)))),
            (b"example.com:0080", Some((b"example.com", Some(80)))),
            (b"my_host-1", Some((b"my_host-1", None))),
            (b"127.0.0.1:8080", Some((b"127.0.0.1", Some(8080)))),
            (b"[::1]", Some((b"[::1]", None))),
            (b"[::1]:443", Some((b"[::1]", Some(443)))),
            (b"[2001:DB8::1]:", Some((b"[2001:DB8::1]", None))),
            (b"", None),
            (b":80", None),
            (b".", None),
            (b".example.com", None),
            (b"a..b", None),
            (b"a..", None),
            (b"example.com:65536", None),
            (b"example.com:99999999999", None),
            (b"example.com:8a", None),
            (b"example.com:-1", None),
            (b"example.com:80:80", None),
            (b"user@example.com", None),
            (b"user:pass@example.com", None),
            (b"a,b", None),
            (b"a b", None),
            (b"a/b", None),
            (b"a%2eb", None),
            (b"a\0", None),
            (b"\xc3\xa4.de", None),
            (b"[::1", None),
            (b"[]", None),
            (b"[::1]x", None),
            (b"[fe80::1%25eth0]", None),
            // Spellings of 127.0.0.1, and what looks like an address.
            (b"127.01.0.1", None),
            (b"127.0.0.01", None),
            (b"127.1", None),
            (b"127.0.0.1..", None),
            (b"127.0.0.1.", Some((b"127.0.0.1.", None))),
            (b"0x7f.1", None),
            (b"0X7F.0.0.1", None),
            (b"0x7f000001", None),
            (b"017700000001", None),
            (b"2130706433", None),
            (b"2130706433:80", None),
            (b"1", None),
            (b"127.0.0.0x1", None),
            (b"127.0.0.0x", None),
            (b"127.0.0.256", None),
            (b"1.2.3.4.5", None),
            (b"a.1", None),
            (b"1.2.3.4.example", Some((b"1.2.3.4.example", None))),
        ];
        for (text, want) in cases {
            let got = parse_authority(text).map(|authority| (authority.host, authority.port));
            assert_eq!(got, want, "{:?}", String::from_utf8_lossy(text));
        }
        assert!(parse_authority(&long[..254]).is_some() && parse_authority(&long[..255]).is_none());
    }

    #[test]
    fn canonical_forms() {
        let cases: [(&[u8], &[u8]); 8] = [
            (b"Example.COM", b"example.com"),
            (b"example.com.", b"example.com"),
            (b"example.com..", b"example.com."),
            (b"[::1]", b"[::1]"),
            (b"[0:0:0:0:0:0:0:1]", b"[::1]"),
            (b"[2001:DB8::A]", b"[2001:db8::a]"),
            (b"[X]", b"[x]"),
            (b"", b""),
        ];
        for (host, want) in cases {
            assert_eq!(canonical_host(host), want, "{host:?}");
        }
    }

    #[test]
    fn canonical_authorities() {
        let cases: [(&[u8], &[u8]); 10] = [
            (b"a.example", b"a.example"),
            (b"127.0.0.1.:80", b"127.0.0.1:80"),
            (b"A.Example.", b"a.example"),
            (b"A.Example.:8080", b"a.example:8080"),
            (b"a.example:", b"a.example"),
            (b"a.example:0080", b"a.example:80"),
            (b"a.example:0", b"a.example:0"),
            (b"a.example:65535", b"a.example:65535"),
            (b"127.0.0.1:80", b"127.0.0.1:80"),
            (b"[2001:DB8:0::A]:0443", b"[2001:db8::a]:443"),
        ];
        for (text, want) in cases {
            let mut out = b"before ".to_vec();
            let authority = parse_authority(text).unwrap();
            authority.canonical_into(&mut out);
            let is_name = !text.starts_with(b"[");
            assert_eq!(authority.is_canonical(text), is_name && text == want);
            assert_eq!(
                out,
                [b"before ", want].concat(),
                "{:?}",
                String::from_utf8_lossy(text)
            );
        }
    }

    #[test]
    fn equal_authorities() {
        let same = |one: &str, other: &str, port| {
            parse_authority(one.as_bytes())
                .unwrap()
                .is_same(parse_authority(other.as_bytes()).unwrap(), port)
        };
        for (one, other) in [
            ("a", "a"),
            ("a", "A."),
            ("a", "a:443"),
            ("a:", "a:0443"),
            ("[::1]", "[0:0::1]:443"),
        ] {
            assert!(
                same(one, other, Some(443)) && same(other, one, Some(443)),
                "{one} {other}"
            );
        }
        for (one, other) in [("a", "b"), ("a", "a:80"), ("a:80", "a:443"), ("a", "a.b")] {
            assert!(!same(one, other, Some(443)), "{one} {other}");
        }
        assert!(!same("a", "a:443", None));
    }

    proptest! {
        #[test]
        fn the_canonical_form_of_an_authority_is_its_own(text in "[a-zA-Z0-9.]{1,12}\\.?(:[0-9]{0,5})?|\\[[0-9a-fA-F:.]{2,20}\\](:[0-9]{0,5})?") {
            if let Some(authority) = parse_authority(text.as_bytes()) {
                let mut once = Vec::new();
                authority.canonical_into(&mut once);
                let again = parse_authority(&once).unwrap();
                let mut twice = Vec::new();
                again.canonical_into(&mut twice);
                prop_assert_eq!(&once, &twice);
                prop_assert!(authority.is_same(again, None));
                prop_assert_eq!((canonical_host(authority.host), authority.port), (again.host.to_vec(), again.port));
            }
        }

        #[test]
        fn parts_put_together_are_the_text(text in "[a-zA-Z0-9._:@\\[\\]-]{0,20}") {
            if let Some(authority) = parse_authority(text.as_bytes()) {
                let rest = text.as_bytes().strip_prefix(authority.host).unwrap();
                prop_assert_eq!(rest.len() > 1, authority.port.is_some());
                let canonical = canonical_host(authority.host);
                prop_assert!(!canonical.is_empty() && parse_authority(&canonical).is_some());
                prop_assert_eq!(canonical_host(&canonical), canonical);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(text: Vec<u8>) {
            parse_authority(&text);
            canonical_host(&text);
        }
    }
}
