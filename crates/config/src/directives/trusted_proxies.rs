//! `trusted_proxies` of `[server]`: where the address of a client behind proxies comes from.
//!
//! Called by: `server`.
//! Out of scope: reading the files (`resolve/addresses`), the PROXY protocol (`listener`).

use super::{abuse::lists, fields::FIELD_NAME, listener::NETWORK};
use crate::{
    context::SERVER,
    kind::{Kind, Word},
    model::Server,
    row::Row,
    value::{Spanned, Value},
};
use saker_net::Network;

static FIELD: Word = Word {
    expects: "the name of a request field, such as \"X-Forwarded-For\" or \"CF-Connecting-IP\"",
    pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
    read: |text| (FIELD_NAME.read)(text).map(Value::Text),
};

pub const ROWS: &[Row<Server>] = &[
    Row {
        name: "trusted_proxies",
        contexts: SERVER,
        kind: Kind::ListOf(&Kind::OneOf(&[
            Kind::Choice(&["unix"]),
            Kind::Word(&NETWORK),
        ])),
        default: Some("[]"),
        example: Some("[\"10.0.0.0/8\", \"2001:db8::/32\"]"),
        summary: "Proxies in front of this server, by network or address; `unix`: all that \
                  connect to a Unix socket. They are believed to name the client in \
                  `client_address_field`, and its scheme in X-Forwarded-Proto if they connect \
                  without TLS. Limits, bans, access rules, logs, balancing by client and \
                  applications go by that address. The list in the field is read from its end, as \
                  long as the hop before is a trusted proxy. Other clients can't use such fields: \
                  X-Forwarded-*, X-Real-IP, Forwarded, CF-Connecting-IP, True-Client-IP and the like, \
                  and `client_address_field` are removed from their requests.",
        apache: Some("RemoteIPInternalProxy, RemoteIPTrustedProxy"),
        aliases: &["set_real_ip_from", "trusted_proxy", "real_ip_from"],
        since: "0.2",
        set: set_proxies,
        ..Row::BASE
    },
    Row {
        name: "trusted_proxies_files",
        contexts: SERVER,
        kind: Kind::ListOf(&Kind::Path),
        default: Some("[]"),
        example: Some("[\"/usr/share/saker/proxies/cloudflare.txt\"]"),
        summary: "Files with addresses of trusted proxies, in the format of `deny_files` in \
                  [abuse]. A changed file takes effect within a second.",
        apache: Some("RemoteIPInternalProxyList, RemoteIPTrustedProxyList"),
        since: "0.2",
        set: |server, given| server.trusted_proxies.addresses.lists = lists(given),
        ..Row::BASE
    },
    Row {
        name: "client_address_field",
        contexts: SERVER,
        kind: Kind::Word(&FIELD),
        default: Some("\"X-Forwarded-For\""),
        example: Some("\"CF-Connecting-IP\""),
        summary: "Request field in which `trusted_proxies` name the client: X-Forwarded-For, \
                  Forwarded (RFC 7239), or a field with one address, such as CF-Connecting-IP, \
                  True-Client-IP, Fastly-Client-IP or X-Real-IP.",
        apache: Some("RemoteIPHeader"),
        aliases: &["real_ip_header", "client_ip_headers"],
        since: "0.2",
        set: |server, given| server.trusted_proxies.field = given.text().into(),
        ..Row::BASE
    },
];

fn set_proxies(server: &mut Server, given: Spanned) {
    let proxies = given.list();
    server.trusted_proxies.unix = proxies
        .iter()
        .any(|proxy| matches!(&proxy.value, Value::Text(word) if word == "unix"));
    server.trusted_proxies.addresses.networks = proxies
        .iter()
        .filter_map(Spanned::parsed_as::<Network>)
        .collect();
}
