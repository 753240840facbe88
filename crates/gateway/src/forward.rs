//! Fields that are forwarded from one connection to another, and fields that are not.

use crate::upstream_fields;
use saker_config::model::{BackendAddress, Member};
use saker_http::{
    HeadView, KnownField, Version,
    chars::is_token,
    field_name::{NameSet, is_alike},
};
use saker_pipeline::{
    Exchange, Forwarding, NameValues, ProxyOptions, Upgrades, UpstreamRequest, Via, template,
};
use smallvec::SmallVec;
use std::borrow::Cow;

/// A field line that we say.
pub struct Line<'a> {
    pub name: &'a str,
    /// `None`: no line is said, and none of the client's is passed on.
    pub value: Option<Cow<'a, [u8]>>,
}

/// Most requests need no memory for theirs.
pub type Lines<'a> = SmallVec<[Line<'a>; LINES]>;

/// The line and the fields that are ours to say.
pub struct Address<'a> {
    pub target: &'a [u8],
    pub host: Cow<'a, [u8]>,
    /// Behind the client's own fields; a name that is here is not taken from those, in no spelling.
    pub lines: Lines<'a>,
    /// Via of the client's stays behind (ProxyVia Block).
    pub blocks_via: bool,
    /// Protocols that the client asks to change to, and may.
    pub upgrade: Option<Vec<u8>>,
}

impl Address<'_> {
    /// Returns the client's fields and ours; framing, Host and Connection are up to each protocol.
    pub fn fields<'a>(&'a self, head: HeadView<'a>) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let is_left_out = self.left_out();
        let own = self.own().map(|(name, value)| (name.as_bytes(), value));
        head.fields()
            .filter(move |(name, _)| !is_left_out(name))
            .chain(own)
    }

    /// Lines that are ours to say.
    pub fn own(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let lines = self.lines.iter();
        lines.filter_map(|line| Some((line.name, line.value.as_deref()?)))
    }

    /// Returns a test that is true for names of fields of the client's that are not passed on. Those
    /// that a client's Connection nominates have been taken away where its head was read
    /// ([`saker_http::HeadIndex::remove_nominated`]): what is there now, rules and keys have seen.
    pub fn left_out<'a>(&'a self) -> impl Fn(&[u8]) -> bool + 'a {
        move |name| {
            let is_ours = |line: &Line<'_>| is_alike(line.name.as_bytes(), name);
            is_of_connection(name, &[])
                || self.lines.iter().any(is_ours)
                || self.blocks_via && name.eq_ignore_ascii_case(b"via")
        }
    }

    /// The names that [`Address::left_out`] is true for.
    pub fn names_left_out(&self) -> NameSet {
        let mut names = OF_CONNECTION;
        for line in &self.lines {
            match line.name.as_bytes() {
                // Alike names begin alike, if they begin with these.
                [b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z', ..] => names.insert(line.name.as_bytes()),
                _ => names = NameSet::ALL,
            }
        }
        if self.blocks_via {
            names.insert(b"via");
        }
        names
    }
}

/// The names that are always of the connection.
pub const OF_CONNECTION: NameSet = NameSet::of(&[
    "te",
    "close",
    "trailer",
    "upgrade",
    "connection",
    "keep-alive",
    "http2-settings",
    "proxy-connection",
    "transfer-encoding",
]);

/// RFC 9110 section 7.6.1, and what older servers send: fields that are for the next hop only.
/// `nominated`: options of Connection.
#[inline]
pub fn is_of_connection(name: &[u8], nominated: &[&[u8]]) -> bool {
    // Proxy-Authorization is for the first that asks for it (RFC 9110 section 11.7.2), and we
    // don't.
    OF_CONNECTION.may_have(name) && is_always_of_connection(name)
        || nominated
            .iter()
            .any(|option| option.trim_ascii().eq_ignore_ascii_case(name))
}

fn is_always_of_connection(name: &[u8]) -> bool {
    let known: &[&[u8]] = match name.len() {
        2 => &[b"te"],
        // Reserved, and no field (RFC 9110 section 18.4).
        5 => &[b"close"],
        7 => &[b"trailer", b"upgrade"],
        10 => &[b"connection", b"keep-alive"],
        // RFC 7540 section 3.2.1.
        14 => &[b"http2-settings"],
        16 => &[b"proxy-connection"],
        17 => &[b"transfer-encoding"],
        _ => &[],
    };
    known.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// False if the name is none of those that [`lines`] adds to. Lengths and first letters tell.
fn may_be_of_proxy(name: &[u8]) -> bool {
    match name {
        [b'x' | b'X', ..] => matches!(name.len(), 15 | 16 | 18),
        [b'v' | b'V', ..] => name.len() == 3,
        _ => false,
    }
}

/// Room for the lines of most requests.
const LINES: usize = 6;

/// Returns the forwarding fields: the request's target and the client (mod_proxy's
/// ProxyAddHeaders), appended to those of earlier proxies.
pub fn lines<'a>(exchange: &'a Exchange, call: &'a UpstreamRequest) -> Lines<'a> {
    let (mut lines, manner) = (Lines::new(), &*call.manner);
    let head = exchange.head.view();
    // Most requests come from clients: none of these is there.
    let is_forwarded = head.fields().any(|(name, _)| may_be_of_proxy(name));
    if manner.adds_forwarded {
        let is_first = !is_forwarded || head.first("x-forwarded-for").is_none();
        lines.push(Line {
            name: "X-Forwarded-For",
            value: Some(
                match is_first && exchange.client.forwarding != Forwarding::Proxied {
                    true => Cow::Borrowed(exchange.client.text().as_bytes()),
                    false => Cow::Owned(template::forwarded_for(exchange)),
                },
            ),
        });
    }
    // What a client says about itself is not passed on as if a proxy had said it.
    let is_direct = exchange.client.forwarding == Forwarding::Direct;
    let mut list = |name: &'static str, value: Cow<'a, [u8]>| {
        let is_listed = is_forwarded && (!is_direct || name == "Via");
        let value = match is_listed && head.first(name).is_some() {
            false => value,
            true => {
                let before: Vec<&[u8]> = head.all(name).collect();
                Cow::Owned([before.join(&b", "[..]).as_slice(), b", ", &value].concat())
            }
        };
        lines.push(Line {
            name,
            value: Some(value),
        });
    };
    if manner.adds_forwarded {
        if let Some(host) = head.known(KnownField::Host) {
            list("X-Forwarded-Host", Cow::Borrowed(host));
        }
        list(
            "X-Forwarded-Server",
            Cow::Borrowed(manner.server_name.as_bytes()),
        );
    }
    if matches!(manner.via, Via::On | Via::Full) {
        list("Via", Cow::Owned(via(head.version(), call)));
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
            value: Some(Cow::Borrowed(scheme)),
        });
    }
    if !call.names.public_prefix.is_empty() {
        lines.push(Line {
            name: "X-Forwarded-Prefix",
            value: Some(Cow::Borrowed(call.names.public_prefix.as_bytes())),
        });
    }
    let edits = &exchange.routing.settings.upstream_fields;
    if !edits.is_empty() {
        lines.retain(|line| !edits.iter().any(|edit| edit.decides(line.name.as_bytes())));
    }
    add_own(&exchange.upstream.own_fields, &mut lines);
    lines
}

/// Adds the fields that rules have made for this request, in place of those of the same names. Host
/// is part of no list ([`host`]), and framing is each protocol's.
fn add_own<'a>(own: &'a NameValues, lines: &mut Lines<'a>) {
    if own.is_empty() {
        return;
    }
    lines.retain(|line| {
        let mut own = own.iter();
        !own.any(|(name, _)| is_alike(name, line.name.as_bytes()))
    });
    for (name, value) in own.iter() {
        let token = std::str::from_utf8(name)
            .ok()
            .filter(|_| is_token(name) && !is_said_otherwise(name));
        lines.extend(token.map(|name| Line {
            name,
            value: (!value.is_empty()).then_some(Cow::Borrowed(value)),
        }));
    }
}

fn is_said_otherwise(name: &[u8]) -> bool {
    is_of_connection(name, &[])
        || name.eq_ignore_ascii_case(b"host")
        || name.eq_ignore_ascii_case(b"content-length")
}

/// Returns the protocols that the client asks to upgrade to (RFC 9110 section 7.8) and that may be
/// passed on. Other versions of HTTP are not: requests sent in them would bypass all rules. A
/// request with content is never upgraded; one of HTTP/1.0 can't ask. Requests over HTTP/2 have the
/// two fields if the driver derived them from an extended CONNECT.
pub fn upgrade(exchange: &Exchange, manner: &ProxyOptions, has_content: bool) -> Option<Vec<u8>> {
    let head = exchange.head.view();
    let asks = || {
        head.all("connection")
            .flat_map(protocols)
            .any(|option| option.eq_ignore_ascii_case(b"upgrade"))
    };
    if manner.upgrades == Upgrades::None
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
        .filter(|name| !is_http(name) && manner.upgrades.allows(name))
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
pub fn via(version: Version, call: &UpstreamRequest) -> Vec<u8> {
    let version = version.as_str().trim_start_matches("HTTP/").as_bytes();
    let comment: &[u8] = if call.manner.via == Via::Full {
        b" (Saker)"
    } else {
        b""
    };
    [version, b" ", &call.names.via, comment].concat()
}

/// The Host that a backend is asked for.
pub fn host<'a>(
    exchange: &'a Exchange,
    member: &'a Member,
    manner: &ProxyOptions,
) -> Cow<'a, [u8]> {
    let own = exchange.upstream.own_fields.first("host");
    if let Some(own) = own.filter(|own| !own.is_empty()) {
        return Cow::Borrowed(own);
    }
    if let Some(own) = upstream_fields::host(exchange) {
        return Cow::Owned(own);
    }
    let received = exchange
        .head
        .view()
        .known(KnownField::Host)
        .filter(|host| manner.preserves_host && !host.is_empty());
    received.map_or_else(|| authority(member), Cow::Borrowed)
}

/// Returns a backend's own authority.
pub fn authority(member: &Member) -> Cow<'_, [u8]> {
    let backend = &member.backend;
    match &backend.address {
        _ if !member.authority.is_empty() => Cow::Borrowed(member.authority.as_bytes()),
        BackendAddress::Unix(_) => Cow::Borrowed(b"localhost"),
        BackendAddress::Tcp { host, port }
            if *port == backend.protocol.default_port(backend.tls.is_some()) =>
        {
            Cow::Borrowed(host.as_bytes())
        }
        BackendAddress::Tcp { host, port } => Cow::Owned(format!("{host}:{port}").into_bytes()),
    }
}
