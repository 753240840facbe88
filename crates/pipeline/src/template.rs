//! Values that texts with variables have of a request, and that nothing else knows: its id, and the
//! list of proxies.
//!
//! Called by: facts about exchanges; the gateway.
//! Out of scope: evaluation (`texts`).

use crate::{Exchange, Forwarding};
use std::{collections::hash_map::RandomState, hash::BuildHasher};

/// Variable of programs and logs with the id of the request.
pub const REQUEST_ID: &[u8] = b"REQUEST_ID";

/// Longest id that is accepted from a trusted proxy.
const REQUEST_ID_BYTES_MAX: usize = 128;

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

/// Gives the request its id as a variable for programs and logs. Keeps an id that it has.
pub fn identify(exchange: &mut Exchange, name: &str) {
    if exchange.environment.first(REQUEST_ID).is_some() {
        return;
    }
    let id = exchange
        .log
        .request_id
        .take()
        .unwrap_or_else(|| chosen_id(exchange, name));
    exchange.environment.set(REQUEST_ID, &id);
}

/// Returns the id of the request, if its settings want one; empty otherwise.
pub fn request_id(exchange: &Exchange) -> &[u8] {
    if let Some(id) = exchange.environment.first(REQUEST_ID) {
        return id;
    }
    match exchange.routing.settings.request_id.as_deref() {
        Some(name) => {
            let make = || chosen_id(exchange, name);
            exchange.log.request_id.get_or_init(make)
        }
        None => b"",
    }
}

/// The id in the field `name` that a trusted proxy has sent, or a new one.
fn chosen_id(exchange: &Exchange, name: &str) -> Vec<u8> {
    let is_trusted = exchange.client.forwarding == Forwarding::Proxied;
    let head = exchange.head.view();
    let mut lines = head
        .fields()
        .filter(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))
        .map(|(_, value)| value);
    match (lines.next(), lines.next()) {
        (Some(id), None) if is_trusted && is_request_id(id) => id.to_vec(),
        _ => new_request_id(),
    }
}

fn is_request_id(id: &[u8]) -> bool {
    (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

/// Returns a new id: 128 bits as hexadecimal digits. Ids need not be secret, only different.
pub fn new_request_id() -> Vec<u8> {
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
