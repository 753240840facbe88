//! A server of an upstream: a URL, or a table with its weight and role.
//!
//! Called by: `upstream`; `resolve/upstreams`, for URLs in routes.
//! Caveat: the path of a URL takes the place of the beginning of requests' paths, so `/` alone
//! differs from none.

use crate::{
    context::{STREAM_SERVER, UPSTREAM_SERVER},
    diagnostic::quoted,
    kind::{Kind, TableKind, Word},
    model::{Backend, BackendAddress, BackendTls, Member, Protocol, Tuning},
    report::Report,
    row::{Draft, Row, Rows},
    value::{Fields, Value, ValueError},
};
use std::sync::Arc;

/// One server of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedServer {
    pub backend: Backend,
    pub path: Box<str>,
    /// The URL has a path, even if it is `/` alone.
    names_path: bool,
    pub weight: u32,
    route: Option<String>,
    is_standby: bool,
    /// Its address has no scheme: a stream uses it over the protocol of its listeners.
    pub is_of_any_transport: bool,
}

#[derive(Debug, Default)]
pub struct ServerDraft {
    address: Option<ParsedServer>,
    weight: Option<u32>,
    route: Option<String>,
    is_standby: bool,
}

impl Draft for ServerDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }
}

static SERVER: Word = Word {
    expects: "a URL, such as \"http://127.0.0.1:3000\", \"fcgi://127.0.0.1:9000\" or \"http+unix:/run/app.sock\"",
    pattern: "^[a-z0-9]+(://|\\+unix:/)",
    read: |text| read_server(text).map(Value::parsed),
};

/// A server of a stream.
pub static BYTES_SERVER: Word = Word {
    expects: "an address, such as \"10.0.0.1:6379\", \"tls://db.example:5432\", \
              \"udp://10.0.0.1:53\" or \"unix:/run/app.sock\"",
    pattern: "",
    read: |text| read_bytes_server(text).map(Value::parsed),
};

const SERVER_TABLE: Kind = Kind::Table(&TableKind {
    context: UPSTREAM_SERVER,
    read: read_server_table,
});
pub const ONE_SERVER: Kind = Kind::OneOf(&[Kind::Word(&SERVER), SERVER_TABLE]);
pub const ROWS: &[Row<ServerDraft>] = &[
    Row {
        name: "address",
        contexts: UPSTREAM_SERVER,
        kind: Kind::Word(&SERVER),
        example: Some("\"http://10.0.0.2:8080\""),
        required: true,
        summary: "URL of the server.",
        aliases: &["url", "server"],
        set: |server, given| {
            server.address = given.parsed_as();
        },
        ..Row::BASE
    },
    Row {
        name: "address",
        contexts: STREAM_SERVER,
        kind: Kind::Word(&BYTES_SERVER),
        example: Some("\"10.0.0.2:6379\""),
        required: true,
        summary: "Address of the server.",
        aliases: &["url", "server"],
        since: "0.2",
        set: |server, given| {
            server.address = given.parsed_as();
        },
        ..Row::BASE
    },
    Row {
        name: "weight",
        contexts: UPSTREAM_SERVER.or(STREAM_SERVER),
        kind: Kind::Integer {
            min: 1,
            max: 10_000,
        },
        default: Some("1"),
        summary: "Weight for load balancing.",
        apache: Some("loadfactor of BalancerMember"),
        set: |server, given| server.weight = Some(given.number() as u32),
        ..Row::BASE
    },
    Row {
        name: "route",
        contexts: UPSTREAM_SERVER,
        kind: Kind::Text,
        example: Some("\"a\""),
        summary: "Name of the server in session cookies; see `sticky_cookie`.",
        apache: Some("route of BalancerMember"),
        set: |server, given| server.route = Some(given.text()),
        ..Row::BASE
    },
    Row {
        name: "standby",
        contexts: UPSTREAM_SERVER.or(STREAM_SERVER),
        kind: Kind::Boolean,
        default: Some("false"),
        summary: "Use only if no other server is available.",
        apache: Some("status=+H of BalancerMember"),
        aliases: &["backup"],
        set: |server, given| server.is_standby = given.boolean(),
        ..Row::BASE
    },
];

impl ParsedServer {
    /// Notes that the address was written without a scheme.
    pub fn of_any_transport(self) -> ParsedServer {
        ParsedServer {
            is_of_any_transport: true,
            ..self
        }
    }

    pub fn member(self, tuning: &Arc<Tuning>) -> Member {
        Member {
            tuning: Arc::clone(tuning),
            path: self.path,
            names_path: self.names_path,
            weight: self.weight.saturating_mul(100),
            route: self.route.map(Into::into),
            is_standby: self.is_standby,
            ..Member::new(self.backend, Tuning::default())
        }
    }
}

pub(super) fn read_server_table(_report: &mut Report<'_>, fields: &Fields) -> Option<Value> {
    let mut draft = ServerDraft::default();
    draft.fill(fields);
    let said = draft.address?;
    let weight = draft.weight.unwrap_or(said.weight);
    Some(Value::parsed(ParsedServer {
        weight,
        route: draft.route,
        is_standby: draft.is_standby,
        ..said
    }))
}

pub fn read_server(text: &str) -> Result<ParsedServer, ValueError> {
    let (backend, path) = read_backend(text)?;
    Ok(ParsedServer {
        backend,
        path: path.trim_end_matches('/').into(),
        names_path: !path.is_empty(),
        weight: 1,
        route: None,
        is_standby: false,
        is_of_any_transport: false,
    })
}

/// Returns true if the server takes bytes or datagrams as they are: streams alone can use it.
pub fn is_bytes(server: &ParsedServer) -> bool {
    server.backend.protocol.is_of_streams()
}

/// A server that takes bytes or datagrams as they are.
pub fn read_bytes_server(text: &str) -> Result<ParsedServer, ValueError> {
    let parsed = match text.strip_prefix("unix:") {
        Some(path) => read_server(&format!("tcp+unix:{path}")),
        None if text.contains("://") || text.contains("+unix:") => read_server(text),
        None => read_server(&format!("tcp://{text}")).map(ParsedServer::of_any_transport),
    }?;
    match is_bytes(&parsed) {
        true => Ok(parsed),
        false => Err(ValueError::with_help(
            "a stream passes bytes on as they are, and does not speak this protocol",
            "write tcp://, tls:// or udp://, or use `proxy` of a route of a site",
        )),
    }
}

/// Returns the backend, and the path to prepend to a request's.
fn read_backend(text: &str) -> Result<(Backend, &str), ValueError> {
    if let Some((scheme, socket)) = text.split_once("+unix:") {
        let (protocol, tls) = protocol_of(scheme)?;
        if !socket.starts_with('/') || socket.len() > 107 {
            return Err(ValueError::new(
                "the path of a socket must be absolute and at most 107 bytes long",
            ));
        }
        if protocol == Protocol::Datagrams {
            return Err(ValueError::new("datagrams are sent to IP addresses only"));
        }
        return Ok((
            backend(protocol, BackendAddress::Unix(socket.into()), tls),
            "",
        ));
    }
    let (scheme, rest) = text.split_once("://").ok_or_else(|| {
        let help = match text.strip_prefix("unix:") {
            Some(path) => format!("write {}", quoted(&format!("http+unix:{path}"))),
            None => match text.split_once(" weight=") {
                // A server line of nginx.
                Some((address, weight)) if weight.parse::<u32>().is_ok() => {
                    let address = quoted(&format!("http://{address}"));
                    format!("write {{ address = {address}, weight = {weight} }}")
                }
                _ => format!("write {}", quoted(&format!("http://{text}"))),
            },
        };
        ValueError::plain((!text.is_empty()).then_some(help))
    })?;
    let (protocol, tls) = protocol_of(scheme)?;
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if path.contains(['?', '#', ' ']) {
        return Err(ValueError::new(
            "the URL of a server has no query and no fragment",
        ));
    }
    let address = BackendAddress::tcp(authority, protocol.default_port(tls))
        .ok_or_else(|| ValueError::new(format!("invalid host and port {}", quoted(authority))))?;
    if protocol.is_of_streams() {
        if matches!(&address, BackendAddress::Tcp { port: 0, .. }) {
            let example = format!("{}:6379", authority.split(':').next().unwrap_or_default());
            return Err(ValueError::with_help(
                format!("no port in {}", quoted(authority)),
                format!("write the port, as in {}", quoted(&example)),
            ));
        }
        if !path.is_empty() {
            return Err(ValueError::new("bytes have no path: write host and port"));
        }
    }
    Ok((backend(protocol, address, tls), path))
}

fn backend(protocol: Protocol, address: BackendAddress, tls: bool) -> Backend {
    let tls = tls.then(BackendTls::default);
    Backend {
        tls,
        ..Backend::new(protocol, address)
    }
}

fn protocol_of(scheme: &str) -> Result<(Protocol, bool), ValueError> {
    let of_others = match scheme {
        "grpc" => Some((Protocol::Http2, false)),
        "grpcs" => Some((Protocol::Http2, true)),
        "tcp" => Some((Protocol::Bytes, false)),
        "tls" => Some((Protocol::Bytes, true)),
        "udp" => Some((Protocol::Datagrams, false)),
        _ => None,
    };
    of_others
        .or_else(|| Protocol::from_scheme(scheme))
        .ok_or_else(|| {
            let known = "http, https, h2c, h2, grpc, grpcs, fcgi, scgi, uwsgi, lsapi, ajp, and for streams \
                         tcp, tls and udp";
            ValueError::with_help(
                format!("unknown protocol {}", quoted(scheme)),
                format!("known protocols are {known}"),
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<String> {
        read_backend(text)
            .ok()
            .map(|(backend, path)| format!("{backend} {path}"))
    }

    #[test]
    fn servers() {
        let rows = [
            ("http://127.0.0.1:3000", Some("http://127.0.0.1:3000 ")),
            (
                "https://app.example/base/",
                Some("https://app.example:443 /base/"),
            ),
            ("http://[::1]:8080", Some("http://[::1]:8080 ")),
            (
                "fcgi+unix:/run/php.sock",
                Some("fcgi at unix:/run/php.sock "),
            ),
            ("h2c://a", Some("h2c://a:80 ")),
            ("grpcs://a/x", Some("h2://a:443 /x")),
            ("gopher://a", None),
            ("http://", None),
            ("http://a b", None),
            ("http://a?x", None),
            ("http://a:80#x", None),
            ("http://a:99999", None),
            ("http://::1", None),
            ("http://a/?x", None),
            ("http+unix:relative", None),
            ("app", None),
            ("tcp://a:6379", Some("tcp://a:6379 ")),
            ("tls://a:6379", Some("tls://a:6379 ")),
            ("udp://a:53", Some("udp://a:53 ")),
            ("tcp+unix:/run/x", Some("tcp at unix:/run/x ")),
            ("tcp://a", None),
            ("tcp://a:1/x", None),
            ("udp+unix:/run/x", None),
        ];
        for (text, want) in rows {
            assert_eq!(shown(text).as_deref(), want, "{text}");
        }
    }
}
