//! `[[listener]]`: addresses to listen on.
//!
//! Called by: the process that binds sockets, and the accept path.
//! Out of scope: the keys (`directives/listener`).

use super::{ListenerTls, Origin, StreamServer};
use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    /// The addresses of a text such as `127.0.0.1:8080`, `[::1]:80`, `unix:/path`; `:80` is two,
    /// for IPv4 and IPv6. The error is a suggestion, if there is one.
    pub fn parse_all(text: &str) -> Result<Vec<Address>, Option<String>> {
        if let Some(path) = text.strip_prefix("unix:") {
            return unix(path);
        }
        if let Some(port) = text.strip_prefix(':') {
            let port: u16 = port.parse().map_err(|_| address_help(text))?;
            let both = [
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
                SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
            ];
            return Ok(both.map(Address::Tcp).to_vec());
        }
        match text.parse() {
            Ok(address) => Ok(vec![Address::Tcp(address)]),
            Err(_) => Err(address_help(text)),
        }
    }

    /// Returns true if every connection to `other` reaches a socket of this address, too, where
    /// `other` has none: all addresses of the machine, with the same port.
    pub fn covers(&self, other: &Address) -> bool {
        let (Address::Tcp(all), Address::Tcp(one)) = (self, other) else {
            return false;
        };
        all.ip().is_unspecified()
            && all != one
            && all.port() != 0
            && all.port() == one.port()
            && (all.is_ipv6() || one.is_ipv4())
    }
}

fn unix(path: &str) -> Result<Vec<Address>, Option<String>> {
    /// `sun_path` of unix(7), without the final NUL.
    const PATH_BYTES_MAX: usize = 107;
    match path {
        path if !path.starts_with('/') => Err(Some(
            "the path of a Unix socket must be absolute: \"unix:/run/saker.sock\"".into(),
        )),
        path if path.len() > PATH_BYTES_MAX => Err(Some(format!(
            "the path of a Unix socket has at most {PATH_BYTES_MAX} bytes"
        ))),
        path if path.contains('\0') => Err(None),
        path => Ok(vec![Address::Unix(path.into())]),
    }
}

fn address_help(text: &str) -> Option<String> {
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let is_port = port.parse::<u16>().is_ok();
    match host {
        _ if text.is_empty() => None,
        _ if text.parse::<std::net::IpAddr>().is_ok() => {
            Some("missing port: write it after a colon, and IPv6 addresses in brackets".into())
        }
        "" if is_port => Some(format!("write \":{port}\"")),
        "*" if is_port => Some(format!("write \":{port}\"")),
        "localhost" if is_port => Some(format!("write the address: \"127.0.0.1:{port}\"")),
        _ if !is_port && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some("ports range from 0 to 65535".into())
        }
        _ if is_port && host.contains(':') && !host.starts_with('[') => {
            Some(format!("write \"[{host}]:{port}\""))
        }
        _ if is_port => Some("names are not resolved here: write the address".into()),
        _ => None,
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Listener {
    pub address: Address,
    /// Networks whose connections start with a PROXY protocol header; others must not send one.
    /// Empty: none.
    pub proxy_protocol_from: Vec<saker_net::Network>,
    /// Exceptions of those; set by Apache's configuration only.
    pub proxy_protocol_except: Vec<saker_net::Network>,
    /// Networks whose headers name the client; those of others are read for variables alone.
    /// `None`: all. Set by nginx's configuration only, where headers never name this server's own
    /// address: it chooses among servers, and is told as `$server_addr`.
    pub proxy_protocol_believed: Option<Vec<saker_net::Network>>,
    /// `listen(2)` backlog.
    pub backlog: u32,
    /// The kernel holds back connections that send nothing, for a few seconds at most. Not set by
    /// nginx's configuration where clients have less time than that.
    pub defers_accept: bool,
    /// Permissions of a Unix socket.
    pub mode: Option<u32>,
    /// TLS; `None`: plain.
    pub tls: Option<ListenerTls>,
    /// HTTP/2: by ALPN over TLS; on a plain listener by prior knowledge, or by upgrade (h2c).
    pub http2: bool,
    /// On a plain listener, by prior knowledge. Only Apache's configuration switches it off.
    pub http2_direct: bool,
    /// On a plain listener, by upgrade. Only Apache's configuration switches it on: through a front
    /// proxy that passes `Upgrade` on, clients would get past that proxy's rules.
    pub http2_upgrade: bool,
    /// WebSockets over HTTP/2 (RFC 8441).
    pub http2_websockets: bool,
    /// HTTP/3, over UDP on the same port; `None`: off.
    pub http3: Option<Http3>,
    /// Size of the kernel's buffers; `None`: its default, which grows as needed. Set by Apache's
    /// configuration only.
    pub send_buffer_bytes: Option<u32>,
    pub receive_buffer_bytes: Option<u32>,
    /// Bytes are passed on as they come, by this server; `None`: HTTP.
    pub stream: Option<Arc<StreamServer>>,
    pub origin: Origin,
}

/// HTTP/3 on a TLS listener's port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http3 {
    pub congestion: Congestion,
    /// 0-RTT (RFC 8470): returning clients may send requests before the handshake completes.
    pub early_data: bool,
    /// Lifetime of `Alt-Svc` (RFC 7838), which advertises HTTP/3 to HTTP/1 and HTTP/2 clients;
    /// `None`: not advertised.
    pub advertised_s: Option<u32>,
    /// Requests at a time on a connection, and bytes that may come ahead on a stream; `None`: those
    /// of HTTP/2. Set by nginx's configuration only.
    pub streams_max: Option<u32>,
    pub stream_window_bytes: Option<u32>,
    /// Clients validate their address in every handshake (Retry, RFC 9000 section 8.1.2), not only
    /// under load. Set by nginx's configuration only.
    pub always_validates: bool,
    /// Directory for qlog traces.
    pub qlog: Option<PathBuf>,
}

impl Http3 {
    pub const ADVERTISED_S: u32 = 86_400;
}

impl Default for Http3 {
    fn default() -> Self {
        Http3 {
            congestion: Congestion::Cubic,
            early_data: true,
            advertised_s: Some(Http3::ADVERTISED_S),
            streams_max: None,
            stream_window_bytes: None,
            always_validates: false,
            qlog: None,
        }
    }
}

/// Congestion control of HTTP/3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    Cubic,
    Bbr,
    NewReno,
}

impl Listener {
    /// HTTP/3 requires TLS, a port, and direct client connections: behind a proxy that sends PROXY
    /// headers no client could reach it.
    pub fn http3_where_possible(&self, http3: Http3) -> Option<Http3> {
        let is_direct =
            self.proxy_protocol_from.is_empty() && matches!(self.address, Address::Tcp(_));
        (self.tls.is_some() && is_direct).then_some(http3)
    }

    pub fn new(address: Address, origin: Origin) -> Listener {
        Listener {
            address,
            proxy_protocol_from: Vec::new(),
            proxy_protocol_except: Vec::new(),
            proxy_protocol_believed: None,
            backlog: 4096,
            defers_accept: true,
            mode: None,
            tls: None,
            http2: true,
            http2_direct: true,
            http2_upgrade: false,
            http2_websockets: true,
            http3: None,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            stream: None,
            origin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let shown = |text| {
            Address::parse_all(text)
                .map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(shown("127.0.0.1:8080"), Ok(vec!["127.0.0.1:8080".into()]));
        assert_eq!(
            shown(":80"),
            Ok(vec!["0.0.0.0:80".into(), "[::]:80".into()])
        );
        assert_eq!(
            shown("unix:/run/x.sock"),
            Ok(vec!["unix:/run/x.sock".into()])
        );
    }

    #[test]
    fn one_address_covers_others_of_its_port() {
        let covers = |all: &str, one: &str| {
            let address = |text: &str| Address::Tcp(text.parse().unwrap());
            address(all).covers(&address(one))
        };
        assert!(covers("0.0.0.0:80", "127.0.0.1:80"));
        assert!(covers("[::]:80", "127.0.0.1:80"));
        assert!(covers("[::]:80", "[::1]:80") && covers("[::]:80", "0.0.0.0:80"));
        assert!(!covers("0.0.0.0:80", "[::1]:80") && !covers("0.0.0.0:80", "[::]:80"));
        assert!(!covers("0.0.0.0:80", "127.0.0.1:81") && !covers("0.0.0.0:80", "0.0.0.0:80"));
        assert!(!covers("0.0.0.0:0", "127.0.0.1:0") && !covers("127.0.0.1:80", "0.0.0.0:80"));
    }

    #[test]
    fn the_way_out() {
        let help = |text| Address::parse_all(text).unwrap_err().unwrap_or_default();
        assert_eq!(help("8080"), "write \":8080\"");
        assert_eq!(help("*:80"), "write \":80\"");
        assert_eq!(help("localhost:80"), "write the address: \"127.0.0.1:80\"");
        assert_eq!(
            help("::1:8080"),
            "missing port: write it after a colon, and IPv6 addresses in brackets"
        );
        assert!(
            help("10.0.0.1").contains("missing port") && help("10.0.0.1:70000").contains("65535")
        );
        assert!(
            help("unix:x").contains("absolute")
                && help(&format!("unix:/{}", "x".repeat(200))).contains("107")
        );
    }
}
