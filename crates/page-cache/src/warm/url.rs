//! URLs of pages as operators and sitemaps write them.
//!
//! Called by: `job` and `run`.
//! Caveat: a URL is normalized as browsers send it.
//! Out of scope: URLs without a host.

use crate::endpoint::ListenerEndpoint;
use saker_http::host::{canonical_host, parse_authority};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageUrl {
    secure: bool,
    /// As browsers send it in Host: canonical, without the scheme's default port.
    pub authority: String,
    host: String,
    port: Option<u16>,
    /// Path and query.
    pub target: String,
}

impl PageUrl {
    pub fn parse(text: &str) -> Option<PageUrl> {
        let (scheme, rest) = text.trim().split_once("://")?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let parsed = parse_authority(authority.as_bytes())?;
        let host = String::from_utf8(canonical_host(parsed.host)).ok()?;
        let authority = match parsed.port.filter(|port| *port != usual_port(secure)) {
            Some(port) => format!("{host}:{port}"),
            None => host.clone(),
        };
        let target = if target.starts_with('/') {
            encoded(target)
        } else {
            encoded(&format!("/{target}"))
        };
        Some(PageUrl {
            secure,
            port: parsed.port,
            host,
            target,
            authority,
        })
    }

    /// Canonical, without a port.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn is_at_host_of(&self, other: &PageUrl) -> bool {
        self.host == other.host
    }

    /// The listener: by the named port, else by the scheme's default port, else any listener of the
    /// scheme. A server without TLS is assumed to be behind a proxy that has it.
    pub fn endpoint(&self, endpoints: &[ListenerEndpoint]) -> Option<ListenerEndpoint> {
        let fits = |endpoint: &&ListenerEndpoint| endpoint.secure == self.secure;
        let of_port = |port: u16| {
            endpoints
                .iter()
                .filter(fits)
                .find(|endpoint| endpoint.local.port() == port)
        };
        let usual = usual_port(self.secure);
        let found = match self.port {
            Some(port) => of_port(port),
            None => of_port(usual).or_else(|| endpoints.iter().find(fits)),
        };
        let behind_proxy = || {
            endpoints
                .first()
                .filter(|_| self.secure && !endpoints.iter().any(|endpoint| endpoint.secure))
        };
        found.cloned().or_else(|| {
            behind_proxy().map(|endpoint| ListenerEndpoint {
                secure: true,
                ..endpoint.clone()
            })
        })
    }
}

impl fmt::Display for PageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}://{}{}",
            if self.secure { "https" } else { "http" },
            self.authority,
            self.target
        )
    }
}

fn usual_port(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

/// Percent-encodes what may not appear in a request line, as browsers do (RFC 3987 section 3.1).
fn encoded(target: &str) -> String {
    let mut out = String::with_capacity(target.len());
    for byte in target.bytes() {
        match byte {
            0..=b' ' | 0x7f.. | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => {
                out.push_str(&format!("%{byte:02X}"))
            }
            _ => out.push(char::from(byte)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::model::Address;
    use std::sync::Arc;

    #[test]
    fn urls() {
        let rows = [
            (
                "https://Shop.example/a?b#c",
                Some("https://shop.example/a?b"),
            ),
            (" http://h:81 ", Some("http://h:81/")),
            ("http://h?q", Some("http://h/?q")),
            ("http://h/\u{e4} b", Some("http://h/%C3%A4%20b")),
            ("http://[0:0::1]:81/x", Some("http://[::1]:81/x")),
            ("http://H.example.:80/", Some("http://h.example/")),
            ("https://h.example:443/", Some("https://h.example/")),
            ("https://h.example:080/", Some("https://h.example:80/")),
            ("http://0x7f.1/", None),
            ("ftp://h/", None),
            ("/path", None),
            ("http://", None),
            ("http://a b/", None),
            ("http://h/\r\nX: y", Some("http://h/%0D%0AX:%20y")),
        ];
        for (text, expected) in rows {
            assert_eq!(
                PageUrl::parse(text).map(|url| url.to_string()).as_deref(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn endpoints() {
        let endpoint = |port: u16, tls: bool| {
            let local = ([0, 0, 0, 0], port).into();
            ListenerEndpoint {
                listener: Arc::new(Address::Tcp(local)),
                local,
                tls,
                secure: tls,
            }
        };
        let both = [
            endpoint(8080, false),
            endpoint(80, false),
            endpoint(8443, true),
        ];
        let port = |text: &str, endpoints: &[ListenerEndpoint]| {
            let endpoint = PageUrl::parse(text).and_then(|url| url.endpoint(endpoints))?;
            Some((endpoint.local.port(), endpoint.tls, endpoint.secure))
        };
        assert_eq!(port("http://h/", &both), Some((80, false, false)));
        assert_eq!(port("http://h:8080/", &both), Some((8080, false, false)));
        assert_eq!(port("https://h/", &both), Some((8443, true, true)));
        assert_eq!(port("http://h:9/", &both), None);
        assert_eq!(
            port("https://h/", &both[..1]),
            Some((8080, false, true)),
            "behind a proxy"
        );
        assert_eq!(port("http://h/", &[]), None);
    }
}
