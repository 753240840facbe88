//! What goes from one connection to another, and what stays.

use saker_config::model::{BackendAddress, Member};
use saker_http::{HeadView, KnownField, Version, field_name::is_alike};
use saker_pipeline::{Call, CallManner, Exchange, Via};

/// A field line that we say.
pub struct Line {
    pub name: &'static str,
    pub value: Vec<u8>,
}

/// The line and the fields that are ours to say.
pub struct Address {
    pub target: Vec<u8>,
    pub host: Vec<u8>,
    /// Behind the client's own fields; a name that is here is not taken from those, in no spelling.
    pub lines: Vec<Line>,
    /// Via of the client's stays behind (ProxyVia Block).
    pub blocks_via: bool,
    /// Protocols that the client asks to change to, and may.
    pub upgrade: Option<Vec<u8>>,
}

impl Address {
    /// Returns the client's fields and ours; framing, Host and Connection are up to each protocol.
    pub fn fields<'a>(&'a self, head: HeadView<'a>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let nominated: Vec<&[u8]> = head
            .all("connection")
            .flat_map(|value| value.split(|byte| *byte == b','))
            .collect();
        let is_ours = |name: &[u8]| {
            self.lines
                .iter()
                .any(|line| is_alike(line.name.as_bytes(), name))
        };
        let is_blocked = |name: &[u8]| self.blocks_via && name.eq_ignore_ascii_case(b"via");
        let passes = move |name: &[u8]| {
            !is_of_connection(name, &nominated) && !is_ours(name) && !is_blocked(name)
        };
        let ours = self
            .lines
            .iter()
            .map(|line| (line.name.as_bytes(), line.value.as_slice()));
        head.fields()
            .filter(move |(name, _)| passes(name))
            .chain(ours)
    }
}

/// RFC 9110 section 7.6.1, and what older servers send: fields that are for the next hop only.
/// `nominated`: options of Connection.
pub fn is_of_connection(name: &[u8], nominated: &[&[u8]]) -> bool {
    // Proxy-Authorization is for the first that asks for it (RFC 9110 section 11.7.2), and we
    // don't.
    let known: &[&[u8]] = match name.len() {
        2 => &[b"te"],
        7 => &[b"trailer", b"upgrade"],
        10 => &[b"connection", b"keep-alive"],
        16 => &[b"proxy-connection"],
        17 => &[b"transfer-encoding"],
        _ => &[],
    };
    known.iter().any(|known| known.eq_ignore_ascii_case(name))
        || nominated
            .iter()
            .any(|option| option.trim_ascii().eq_ignore_ascii_case(name))
}

/// Returns the forwarding fields: the request's target and the client (mod_proxy's
/// ProxyAddHeaders), appended to those of earlier proxies.
pub fn lines(exchange: &Exchange, call: &Call) -> Vec<Line> {
    let (mut lines, manner) = (Vec::new(), &*call.manner);
    let head = exchange.head.view();
    let mut list = |name: &'static str, value: &[u8]| {
        let before: Vec<&[u8]> = head.all(name).collect();
        let value = if before.is_empty() {
            value.to_vec()
        } else {
            [before.join(&b", "[..]).as_slice(), b", ", value].concat()
        };
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
        list("Via", &via(exchange.head.view().version(), call));
    }
    if manner.tells_scheme {
        // No list: redirects and cookies go by it, and applications take the one word.
        let scheme: &[u8] = if exchange.client.secure {
            b"https"
        } else {
            b"http"
        };
        lines.push(Line {
            name: "X-Forwarded-Proto",
            value: scheme.to_vec(),
        });
    }
    lines
}

/// Returns the protocols that the client asks to upgrade to (RFC 9110 section 7.8) and that may be
/// passed on. Other versions of HTTP are not: requests sent in them would bypass all rules. A
/// request with content is never upgraded; one of HTTP/1.0 can't ask. Requests over HTTP/2 have the
/// two fields if the driver derived them from an extended CONNECT.
pub fn upgrade(exchange: &Exchange, manner: &CallManner, has_content: bool) -> Option<Vec<u8>> {
    let head = exchange.head.view();
    let asks = || {
        head.all("connection")
            .flat_map(protocols)
            .any(|option| option.eq_ignore_ascii_case(b"upgrade"))
    };
    if !manner.upgrades
        || !head.has(KnownField::Upgrade)
        || head.version() == Version::Http10
        || has_content
        || !asks()
    {
        return None;
    }
    let passed: Vec<&[u8]> = head
        .all("upgrade")
        .flat_map(protocols)
        .filter(|name| !is_http(name))
        .collect();
    (!passed.is_empty()).then(|| passed.join(&b", "[..]))
}

/// Members of a list.
pub fn protocols(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

fn is_http(protocol: &[u8]) -> bool {
    let name = protocol
        .split(|byte| *byte == b'/')
        .next()
        .unwrap_or_default();
    [&b"h2c"[..], b"h2", b"h3", b"http", b"tls"]
        .iter()
        .any(|http| http.eq_ignore_ascii_case(name))
}

/// RFC 9110 section 7.6.3: what we say of a message that came in `version`.
pub fn via(version: Version, call: &Call) -> Vec<u8> {
    let version = version.as_str().trim_start_matches("HTTP/").as_bytes();
    let comment: &[u8] = if call.manner.via == Via::Full {
        b" (Saker)"
    } else {
        b""
    };
    [version, b" ", &call.names.via, comment].concat()
}

/// The Host that a backend is asked for.
pub fn host(exchange: &Exchange, member: &Member, manner: &CallManner) -> Vec<u8> {
    let received = exchange
        .head
        .view()
        .known(KnownField::Host)
        .filter(|host| manner.preserves_host && !host.is_empty());
    received.map_or_else(|| authority(member), <[u8]>::to_vec)
}

/// Returns a backend's own authority.
pub fn authority(member: &Member) -> Vec<u8> {
    let backend = &member.backend;
    match &backend.address {
        _ if !member.authority.is_empty() => member.authority.as_bytes().to_vec(),
        BackendAddress::Unix(_) => b"localhost".to_vec(),
        BackendAddress::Tcp { host, port }
            if *port == backend.protocol.default_port(backend.tls.is_some()) =>
        {
            host.as_bytes().to_vec()
        }
        BackendAddress::Tcp { host, port } => format!("{host}:{port}").into_bytes(),
    }
}
