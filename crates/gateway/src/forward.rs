//! What goes from one connection to another, and what stays.

use saker_config::model::{Backend, BackendAddress};
use saker_http::KnownField;
use saker_pipeline::{CallManner, Exchange, Via};

/// A field line that we say.
pub struct Line {
    pub name: &'static str,
    pub value: Vec<u8>,
}

/// RFC 9110 section 7.6.1, and what older servers send: fields that are for the next hop only. `nominated`: options of Connection.
pub fn is_of_connection(name: &[u8], nominated: &[&[u8]]) -> bool {
    const NAMES: [&str; 9] = [
        "Connection",
        "Keep-Alive",
        "Proxy-Connection",
        "Proxy-Authenticate",
        "Proxy-Authorization",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
    ];
    NAMES.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
        || nominated.iter().any(|option| option.trim_ascii().eq_ignore_ascii_case(name))
}

/// Where the request went to, and who asked (mod_proxy's ProxyAddHeaders), behind what earlier proxies said.
pub fn lines(exchange: &Exchange, manner: &CallManner) -> Vec<Line> {
    let mut lines = Vec::new();
    let head = exchange.head.view();
    let mut list = |name: &'static str, value: &[u8]| {
        let before: Vec<&[u8]> = head.all(name).collect();
        let value = if before.is_empty() { value.to_vec() } else { [before.join(&b", "[..]).as_slice(), b", ", value].concat() };
        lines.push(Line { name, value });
    };
    if manner.adds_forwarded {
        list("X-Forwarded-For", exchange.client.text().as_bytes());
        if let Some(host) = head.known(KnownField::Host) {
            list("X-Forwarded-Host", host);
        }
        list("X-Forwarded-Server", manner.server_name.as_bytes());
    }
    if matches!(manner.via, Via::On | Via::Full) {
        list("Via", &via(exchange, manner));
    }
    lines
}

/// RFC 9110 section 7.6.3.
pub fn via(exchange: &Exchange, manner: &CallManner) -> Vec<u8> {
    let version = exchange.head.view().version().as_str().trim_start_matches("HTTP/").to_owned();
    let comment = if manner.via == Via::Full { " (Saker)" } else { "" };
    format!("{version} {}{comment}", manner.server_name).into_bytes()
}

/// The Host that a backend is asked for.
pub fn host(exchange: &Exchange, backend: &Backend, manner: &CallManner) -> Vec<u8> {
    let received = exchange.head.view().known(KnownField::Host).filter(|host| manner.preserves_host && !host.is_empty());
    match (received, &backend.address) {
        (Some(host), _) => host.to_vec(),
        (None, BackendAddress::Unix(_)) => b"localhost".to_vec(),
        (None, BackendAddress::Tcp { host, port }) if *port == backend.protocol.default_port(backend.tls.is_some()) => {
            host.as_bytes().to_vec()
        }
        (None, BackendAddress::Tcp { host, port }) => format!("{host}:{port}").into_bytes(),
    }
}
