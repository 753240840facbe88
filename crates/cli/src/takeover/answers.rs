//! Requests to a server of this machine, and what of the answers is compared: status, place of a
//! redirect, media type, and content.
//!
//! Called by: the take-over.
//! Caveat: HTTP/1.0, so the end of the content is that of the connection; certificates are not
//! verified, because the address says which server it is.

use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};
use saker_config::model::{Address, Listener};
use saker_tls_verifier::{CertificatePolicy, Presented, ServerVerifier};
use std::{
    fmt::Write as _,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};
use url::Url;

const TIMEOUT: Duration = Duration::from_secs(30);
/// Limit of an answer with its head; the rest is not compared.
const BYTES_MAX: u64 = 16 << 20;

/// A URL, and the address of this machine that serves it.
pub struct Target {
    url: Url,
    address: SocketAddr,
}

/// Parts of an answer that are compared. `None`: different each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// `None`: the connection is closed without a response (nginx's `return 444`), or the handshake
    /// is refused (`ssl_reject_handshake`).
    status: Option<u16>,
    location: Option<String>,
    media_type: Option<String>,
    content: Option<u64>,
}

impl Target {
    /// # Errors
    /// The URL is neither http nor https, or has no host.
    pub fn parse(text: &str, listeners: &[Listener]) -> Result<Target, String> {
        let wrong = |why: &str| format!("{text}: {why}");
        let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(wrong("not an http or https URL"));
        }
        let port = url.port_or_known_default().unwrap_or(80);
        let own = listeners
            .iter()
            .find_map(|listener| match listener.address {
                Address::Tcp(address) if address.port() == port => Some(address.ip()),
                _ => None,
            });
        let ip = match own {
            Some(IpAddr::V6(ip)) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            Some(ip) if !ip.is_unspecified() => ip,
            _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        Ok(Target {
            url,
            address: SocketAddr::new(ip, port),
        })
    }

    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// # Errors
    /// No server accepts the connection, or it does not answer in HTTP.
    pub fn ask(&self) -> Result<Answer, String> {
        let failed = |error: io::Error| format!("{}: {error}", self.address);
        let stream = self.connect().map_err(failed)?;
        let read = match self.url.scheme() {
            "https" => secured(stream, self.host()).and_then(|stream| self.exchange(stream)),
            _ => self.exchange(stream),
        };
        let bytes = match read {
            Err(error) if is_refusal(&error) => return Ok(Answer::NONE),
            read => read.map_err(failed)?,
        };
        if bytes.is_empty() {
            return Ok(Answer::NONE);
        }
        Answer::parse(&bytes).ok_or_else(|| format!("{}: no HTTP response", self.address))
    }

    fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(stream)
    }

    fn exchange(&self, mut stream: impl Read + Write) -> io::Result<Vec<u8>> {
        let mut target = self.url.path().to_owned();
        if let Some(query) = self.url.query() {
            let _ = write!(target, "?{query}");
        }
        let host = match self.url.port() {
            Some(port) => format!("{}:{port}", self.host()),
            None => self.host().to_owned(),
        };
        write!(
            stream,
            "GET {target} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: saker-takeover\r\nAccept: */*\r\n\r\n"
        )?;
        stream.flush()?;
        let mut bytes = Vec::new();
        match stream.take(BYTES_MAX).read_to_end(&mut bytes) {
            // A peer that ends without TLS' own word, after all that it had to say.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !bytes.is_empty() => {
                Ok(bytes)
            }
            outcome => outcome.map(|_| bytes),
        }
    }
}

fn secured(stream: TcpStream, host: &str) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(ServerVerifier::new(AnyCertificate, provider))
        .with_no_client_auth();
    let name =
        ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(io::Error::other)?;
    let connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(connection, stream))
}

/// Returns true if the server ended the connection: with an alert of TLS, or without a word.
fn is_refusal(error: &io::Error) -> bool {
    let alert = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(alert, Some(rustls::Error::AlertReceived(_)))
        || matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof
        )
}

/// Accepts any certificate: the address identifies the server.
#[derive(Debug)]
struct AnyCertificate;

impl CertificatePolicy for AnyCertificate {
    fn check(&self, _: &Presented<'_>) -> Result<(), rustls::Error> {
        Ok(())
    }
}

impl Answer {
    const NONE: Answer = Answer {
        status: None,
        location: None,
        media_type: None,
        content: None,
    };

    /// Returns true for a response in HTTP.
    pub fn is_response(&self) -> bool {
        self.status.is_some()
    }

    fn parse(bytes: &[u8]) -> Option<Answer> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let (head, content) = bytes.split_at_checked(end)?;
        let head = String::from_utf8_lossy(head);
        let mut lines = head.lines();
        let mut first = lines.next()?.split(' ');
        first
            .next()
            .filter(|version| version.starts_with("HTTP/"))?;
        let status: u16 = first.next()?.parse().ok()?;
        let field = |wanted: &str| {
            let named = head.lines().filter_map(|line| line.split_once(':'));
            named
                .filter(|(name, _)| name.eq_ignore_ascii_case(wanted))
                .map(|(_, value)| value.trim().to_owned())
                .next()
        };
        let media_type = field("content-type");
        let media_type = media_type.map(|value| match value.split_once(';') {
            Some((media_type, _)) => media_type.trim().to_ascii_lowercase(),
            None => value.to_ascii_lowercase(),
        });
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        Some(Answer {
            status: Some(status),
            location: field("location"),
            media_type,
            // Servers have error pages of their own.
            content: (status < 300).then(|| hasher.finish()),
        })
    }

    /// The parts that two answers of the same server have in common.
    pub fn common_with(&self, other: &Answer) -> Answer {
        Answer {
            content: self.content.filter(|_| self.content == other.content),
            location: self
                .location
                .clone()
                .filter(|_| self.location == other.location),
            ..self.clone()
        }
    }

    /// The first difference of a later answer.
    pub fn difference(&self, now: &Answer) -> Option<String> {
        if self.status != now.status {
            let shown = |status: Option<u16>| {
                status.map_or_else(|| "no response".into(), |status| format!("status {status}"))
            };
            let (now, before) = (shown(now.status), shown(self.status));
            return Some(format!("{now}, and was {before}"));
        }
        if self.location.is_some() && self.location != now.location {
            let shown = |place: &Option<String>| place.clone().unwrap_or_else(|| "nowhere".into());
            return Some(format!(
                "leads to {}, and did to {}",
                shown(&now.location),
                shown(&self.location)
            ));
        }
        if self.status.is_some_and(|status| status < 300) && self.media_type != now.media_type {
            let shown = |kind: &Option<String>| kind.clone().unwrap_or_else(|| "none".into());
            return Some(format!(
                "media type {}, and was {}",
                shown(&now.media_type),
                shown(&self.media_type)
            ));
        }
        (self.content.is_some() && self.content != now.content)
            .then(|| "other content than before".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Answer {
        Answer::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn what_is_compared() {
        let page = answer("HTTP/1.1 200 OK\r\nContent-Type: Text/HTML; charset=utf-8\r\n\r\npage");
        assert_eq!(page.difference(&page), None);
        let differs = |other: &str| page.difference(&answer(other)).unwrap();
        assert!(differs("HTTP/1.1 404 Not Found\r\n\r\npage").contains("status 404"));
        assert!(
            differs("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\npage")
                .contains("media type")
        );
        let other =
            answer("HTTP/1.1 200 OK\r\nDate: x\r\ncontent-type: text/html\r\n\r\nanother page");
        assert!(page.difference(&other).unwrap().contains("content"));
        assert_eq!(
            page.common_with(&other).difference(&other),
            None,
            "it changes each time"
        );
        let moved = answer("HTTP/1.1 301 Moved\r\nLocation: https://a/\r\n\r\n");
        assert!(
            moved
                .difference(&answer(
                    "HTTP/1.1 301 Moved\r\nLocation: https://b/\r\n\r\n"
                ))
                .unwrap()
                .contains("https://b/")
        );
        let refused = answer("HTTP/1.1 403 Forbidden\r\n\r\nApache's page");
        assert_eq!(
            refused.difference(&answer("HTTP/1.1 403 Forbidden\r\n\r\nours")),
            None
        );
        assert_eq!(Answer::parse(b"SSH-2.0\r\n\r\n"), None);
    }

    #[test]
    fn targets_lead_to_this_machine() {
        let target = Target::parse("https://example.org/a?b", &[]).unwrap();
        assert_eq!(target.address.to_string(), "127.0.0.1:443");
        assert!(Target::parse("ftp://example.org/", &[]).is_err());
        assert!(Target::parse("/a", &[]).is_err());
    }

    /// A server of catch-all hosts that closes connections, or refuses handshakes, is one that answers so.
    #[test]
    fn closed_connections_and_refused_handshakes_are_answers() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let closes = std::thread::spawn(move || {
            for alert in [&b""[..], b"\x15\x03\x03\0\x02\x02\x70"] {
                let (mut peer, _) = server.accept().unwrap();
                let _ = peer.read(&mut [0; 4096]).unwrap();
                peer.write_all(alert).unwrap();
            }
        });
        for scheme in ["http", "https"] {
            let target = Target::parse(&format!("{scheme}://localhost:{port}/"), &[]).unwrap();
            let none = target.ask().unwrap();
            assert!(!none.is_response(), "{scheme}");
            assert_eq!(none.difference(&none), None);
            let page = answer("HTTP/1.1 200 OK\r\n\r\n");
            assert_eq!(
                none.difference(&page).unwrap(),
                "status 200, and was no response"
            );
        }
        closes.join().unwrap();
        let gone = Target::parse(&format!("http://localhost:{port}/"), &[]).unwrap();
        assert!(gone.ask().is_err(), "no server");
    }
}
