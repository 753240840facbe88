//! Host and authority (RFC 9110 section 7.2; RFC 3986 section 3.2).
//!
//! Place in the walk: checks Host and `:authority` before a site is selected by them.
//! Absent on purpose: percent-encoded names, IPvFuture, zone identifiers and user information, none of which a client may need.

use crate::chars::is_host_char;
use std::net::Ipv6Addr;

/// Of a name in DNS's text form with its trailing dot (RFC 1035 section 2.3.4).
const HOST_BYTES_MAX: usize = 254;

/// `host[:port]`, checked. No user information, no empty host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    /// As sent: a name, an IPv4 address, or an IPv6 address in brackets.
    pub host: &'a [u8],
    pub port: Option<u16>,
}

/// `None` where the text is not a valid authority (bad bytes, port over 65535 or not digits, unclosed bracket, user info…).
/// An empty port (`host:`) is as none. Underscores are let through: they are in use.
pub fn parse_authority(text: &[u8]) -> Option<Authority<'_>> {
    let host_len = match text.first()? {
        b'[' => memchr::memchr(b']', text)? + 1,
        _ => memchr::memchr(b':', text).unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at_checked(host_len)?;
    let valid = if host.starts_with(b"[") { ipv6(host).is_some() } else { is_name(host) };
    valid.then_some(Authority { host, port: port(rest)? })
}

/// The host in lower case, without one trailing dot, for comparison with a site's names. An IPv6 address in its shortest form
/// (RFC 5952), because there are many ways to write one.
pub fn canonical_host(host: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(host.len());
    canonical_host_into(host, &mut out);
    out
}

/// The same into `out`, cleared first; allocates nothing once `out` has grown (but for IPv6 addresses).
pub fn canonical_host_into(host: &[u8], out: &mut Vec<u8>) {
    out.clear();
    if let Some(address) = ipv6(host) {
        return out.extend_from_slice(format!("[{address}]").as_bytes());
    }
    out.extend_from_slice(host.strip_suffix(b".").unwrap_or(host));
    out.make_ascii_lowercase();
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
    !host.is_empty() && host.len() <= HOST_BYTES_MAX
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
        let long = [b"a".repeat(63).as_slice(), b".".as_slice()].concat().repeat(4);
        let cases: [Case; 35] = [
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

    proptest! {
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
