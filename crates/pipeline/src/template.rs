//! Values of texts with variables, for a request.
//!
//! Called by: features whose settings have such texts (request fields and variables of upstreams).
//! Caveat: a value may come from the client, decoded: control characters are left out, so that
//! nothing of it can end a line.
//! Out of scope: parsing (`saker_config::model::FieldTemplate`).

use crate::{Exchange, Forwarding};
use saker_config::model::{FieldTemplate, FieldTemplatePiece, FieldVariable};
use saker_http::query;
use std::{collections::hash_map::RandomState, hash::BuildHasher, io::Write};

/// FieldVariable of programs and logs with the id of the request.
pub const REQUEST_ID: &[u8] = b"REQUEST_ID";

/// Longest id that is accepted from a trusted proxy.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// Returns the value of a text; variables without a value are empty.
pub fn value(template: &FieldTemplate, exchange: &Exchange) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in &template.pieces {
        match piece {
            FieldTemplatePiece::Text(text) => out.extend_from_slice(text.as_bytes()),
            FieldTemplatePiece::FieldVariable(variable) => {
                let from = out.len();
                push(variable, exchange, &mut out);
                if out[from..].iter().any(u8::is_ascii_control) {
                    let clean: Vec<u8> = out
                        .drain(from..)
                        .filter(|byte| !byte.is_ascii_control())
                        .collect();
                    out.extend_from_slice(&clean);
                }
            }
        }
    }
    out
}

fn push(variable: &FieldVariable, exchange: &Exchange, out: &mut Vec<u8>) {
    let (head, client) = (exchange.head.view(), &exchange.client);
    let bytes: &[u8] = match variable {
        FieldVariable::Host => &exchange.host,
        FieldVariable::RemoteAddress => client.text().as_bytes(),
        FieldVariable::RemoteUser => exchange
            .access
            .user
            .as_deref()
            .unwrap_or_default()
            .as_bytes(),
        FieldVariable::Scheme if client.secure => b"https",
        FieldVariable::Scheme => b"http",
        FieldVariable::RequestId => exchange.environment.first(REQUEST_ID).unwrap_or_default(),
        FieldVariable::Method => head.method_token(),
        FieldVariable::RequestUri => head.target(),
        FieldVariable::Path => &exchange.path,
        FieldVariable::Query => exchange.query.as_deref().unwrap_or_default(),
        FieldVariable::Protocol => head.version().as_str().as_bytes(),
        FieldVariable::Cookie(name) => head.cookie(name.as_bytes()).unwrap_or_default(),
        FieldVariable::Argument(name) => {
            let query = exchange.query.as_deref().unwrap_or_default();
            query::value(query, name.as_bytes()).unwrap_or_default()
        }
        FieldVariable::Field(name) => {
            let lines: Vec<&[u8]> = head
                .fields()
                .filter(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))
                .map(|(_, value)| value)
                .collect();
            return out.extend_from_slice(&lines.join(&b", "[..]));
        }
        FieldVariable::ForwardedFor => return out.extend_from_slice(&forwarded_for(exchange)),
        FieldVariable::RemotePort => return number(client.address.port(), out),
        FieldVariable::ServerPort => return number(client.local.port(), out),
        FieldVariable::ServerAddress => {
            let _ = write!(out, "{}", client.local.ip().to_canonical());
            return;
        }
    };
    out.extend_from_slice(bytes);
}

fn number(number: u16, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = write!(out, "{number}");
}

/// Returns the value of `X-Forwarded-For` for an upstream: the earlier hops, as far as they may be
/// believed, and the peer of the connection.
pub fn forwarded_for(exchange: &Exchange) -> Vec<u8> {
    let client = &exchange.client;
    let peer = match client.forwarding {
        Forwarding::Proxied => client.peer.ip().to_canonical().to_string().into_bytes(),
        Forwarding::Unknown | Forwarding::Direct => client.text().as_bytes().to_vec(),
    };
    if client.forwarding == Forwarding::Direct {
        return peer;
    }
    let head = exchange.head.view();
    let hops: Vec<&[u8]> = head.all("x-forwarded-for").chain([&*peer]).collect();
    hops.join(&b", "[..])
}

/// Gives the request an id, if its settings want that: the one in the field `name` that a trusted
/// proxy has sent, or a new one. Keeps an id that it has.
pub fn identify(exchange: &mut Exchange, name: &str) {
    if exchange.environment.first(REQUEST_ID).is_some() {
        return;
    }
    let is_trusted = exchange.client.forwarding == Forwarding::Proxied;
    let head = exchange.head.view();
    let mut lines = head
        .fields()
        .filter(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))
        .map(|(_, value)| value);
    let accepted = match (lines.next(), lines.next()) {
        (Some(id), None) if is_trusted && is_request_id(id) => Some(id.to_vec()),
        _ => None,
    };
    let id = accepted.unwrap_or_else(new_request_id);
    exchange.environment.set(REQUEST_ID, &id);
}

fn is_request_id(id: &[u8]) -> bool {
    (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

/// 128 bits as hexadecimal digits. Ids need not be secret, only different.
fn new_request_id() -> Vec<u8> {
    thread_local! {
        static KEYS: (RandomState, RandomState) = (RandomState::new(), RandomState::new());
        static COUNT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }
    let count = COUNT.get().wrapping_add(1);
    COUNT.set(count);
    let seed = (count, saker_net::clock::realtime_precise_ns());
    KEYS.with(|(one, other)| {
        format!("{:016x}{:016x}", one.hash_one(seed), other.hash_one(seed)).into_bytes()
    })
}

#[cfg(test)]
mod tests;
