//! Addresses and targets of streams: where they listen, and where their sessions go.
//!
//! Called by: `stream`; `resolve/streams`, which finds upstreams by name.
//! Caveat: an address without a scheme is used over the protocol of the listener; `tcp://`, `tls://`
//! and `udp://` name theirs.

use super::upstream_server::{BYTES_SERVER, ParsedServer, read_bytes_server, read_server_table};
use crate::{
    context::STREAM_SERVER,
    diagnostic::quoted,
    kind::{Kind, TableKind, Word},
    model::Address,
    source::Location,
    value::{Spanned, Value, ValueError},
};
use std::net::SocketAddr;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    Stream(Address),
    Datagrams(SocketAddr),
}

/// Target of sessions, before upstreams are looked up by their names.
#[derive(Clone, Debug)]
pub enum ReadTarget {
    Named(String, Location),
    Servers(Vec<(ParsedServer, Location)>),
}

pub const LISTEN: Kind = Kind::OneOf(&[
    Kind::Word(&LISTEN_ADDRESS),
    Kind::ListOf(&Kind::Word(&LISTEN_ADDRESS)),
]);

static LISTEN_ADDRESS: Word = Word {
    expects: "an address, such as \"127.0.0.1:6379\", \":6379\" (all IPv4 and IPv6 addresses), \
              \"udp:127.0.0.1:53\" or \"unix:/run/redis.sock\"",
    pattern: "^(unix:/.+|((udp|tcp):(//)?)?(\\[[0-9a-fA-F:.]+\\]|[0-9.]+)?:[0-9]+)$",
    read: |text| read_listen(text).map(Value::parsed),
};

pub const TARGET: Kind = Kind::OneOf(&[Kind::Word(&ONE_TARGET), Kind::ListOf(&TARGET_SERVER)]);

static ONE_TARGET: Word = Word {
    expects: "an address, such as \"10.0.0.1:6379\", \"tls://db.example:5432\", \"udp://10.0.0.1:53\" or \
              \"unix:/run/app.sock\", or the name of an [[upstream]]",
    pattern: "",
    read: |text| match is_name(text) {
        true => Ok(Value::Text(text.to_owned())),
        false => read_bytes_server(text).map(Value::parsed),
    },
};

const TARGET_SERVER: Kind = Kind::OneOf(&[
    Kind::Word(&BYTES_SERVER),
    Kind::Table(&TableKind {
        context: STREAM_SERVER,
        read: read_server_table,
    }),
]);

/// Returns the target of a value of [`TARGET`].
pub fn target(given: Spanned) -> ReadTarget {
    match given.value {
        Value::Text(name) => ReadTarget::Named(name, given.at),
        _ => {
            let each = given.one_or_many().into_iter();
            let server = |one: Spanned| Some((one.parsed_as()?, one.at));
            ReadTarget::Servers(each.filter_map(server).collect())
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.contains([':', '/'])
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn read_listen(text: &str) -> Result<Vec<ListenAddress>, ValueError> {
    if let Some((address, protocol)) = text
        .rsplit_once('/')
        .filter(|(_, protocol)| matches!(*protocol, "udp" | "tcp"))
    {
        let plain = address
            .trim_start_matches("udp:")
            .trim_start_matches("tcp:");
        let own = if protocol == "udp" { "udp:" } else { "" };
        let help = format!("write {}", quoted(&format!("{own}{plain}")));
        return Err(ValueError::plain(Some(help)));
    }
    // A line of nginx or HAProxy.
    if let Some((address, protocol)) = text
        .split_once(' ')
        .filter(|(_, protocol)| matches!(*protocol, "udp" | "tcp"))
    {
        let own = if protocol == "udp" { "udp:" } else { "" };
        let port = if address.contains(':') { "" } else { ":" };
        let help = format!("write {}", quoted(&format!("{own}{port}{address}")));
        return Err(ValueError::plain(Some(help)));
    }
    let over = |scheme: &str| {
        let rest = text.strip_prefix(scheme)?;
        Some(rest.strip_prefix("//").unwrap_or(rest))
    };
    let (rest, is_udp) = match (over("udp:"), over("tcp:")) {
        (Some(rest), _) => (rest, true),
        (None, Some(rest)) => (rest, false),
        (None, None) => (text, false),
    };
    let addresses = Address::parse_all(rest).map_err(ValueError::plain)?;
    addresses
        .into_iter()
        .map(|address| match (is_udp, address) {
            (false, address) => Ok(ListenAddress::Stream(address)),
            (true, Address::Tcp(address)) => Ok(ListenAddress::Datagrams(address)),
            (true, Address::Unix(_)) => Err(ValueError::new(
                "datagrams are received on IP addresses only",
            )),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_to_listen_on() {
        let shown = |text| read_listen(text).map(|found| format!("{found:?}")).ok();
        for (text, part) in [
            ("127.0.0.1:53", Some("Stream(Tcp(127.0.0.1:53))")),
            ("tcp:127.0.0.1:53", Some("Stream(Tcp(127.0.0.1:53))")),
            ("udp:127.0.0.1:53", Some("Datagrams(127.0.0.1:53)")),
            ("udp://[::1]:53", Some("Datagrams([::1]:53)")),
            ("udp::53", Some("Datagrams([::]:53)")),
            ("unix:/run/x", Some("Unix(\"/run/x\")")),
            ("udp:unix:/run/x", None),
            (":53/udp", None),
            ("udp:53", None),
            ("localhost:53", None),
        ] {
            let found = shown(text);
            assert_eq!(found.is_some(), part.is_some(), "{text}: {found:?}");
            if let (Some(found), Some(part)) = (found, part) {
                assert!(found.contains(part), "{text}: {found}");
            }
        }
        let help = read_listen("udp::53/udp").unwrap_err().help.unwrap();
        assert_eq!(help, "write \"udp::53\"");
    }

    #[test]
    fn servers_of_streams() {
        for (text, is_right) in [
            ("10.0.0.1:6379", true),
            ("[::1]:6379", true),
            ("db.example:5432", true),
            ("tls://db.example:5432", true),
            ("udp://10.0.0.1:53", true),
            ("unix:/run/redis.sock", true),
            ("tcp+unix:/run/redis.sock", true),
            ("tcp://10.0.0.1", false),
            ("tcp://10.0.0.1:6379/0", false),
            ("http://10.0.0.1:80", false),
            ("udp+unix:/run/x.sock", false),
            ("10.0.0.1", false),
            ("10.0.0.1:0", false),
        ] {
            assert_eq!(read_bytes_server(text).is_ok(), is_right, "{text}");
        }
    }
}
