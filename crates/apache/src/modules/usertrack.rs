//! mod_usertrack: a cookie that tells one client's requests from another's.
//!
//! Called by: the fixups.
//! Caveat: the cookie is sent with every outcome of the request, errors and redirects included, and
//! the first line of a log tells it already.
//! Out of scope: Set-Cookie2 (`CookieStyle Cookie2`), which no client reads; such a cookie is sent
//! in Set-Cookie.

use crate::{
    state::{peek, state},
    time::chance,
};
use saker_apache_model::dir_config::DirConfig;
use saker_http::{KnownField, cookies::cookies_with_commas};
use saker_pipeline::Exchange;
use std::time::{SystemTime, UNIX_EPOCH};

/// Finds the visitor's cookie, or gives him one. Logs find it as the note `cookie`.
pub fn spot(exchange: &mut Exchange, local: &DirConfig) {
    let Some(settings) = local.usertrack.active() else {
        return;
    };
    if peek(exchange).is_some_and(|state| state.is_subrequest) {
        return;
    }
    exchange.depends_on_request();
    if let Some(value) = known(exchange, settings.name()) {
        exchange.log.notes.set(b"cookie", &value);
        return;
    }
    let name = settings.name().as_bytes().to_vec();
    if peek(exchange).is_some_and(|state| state.cookies.iter().any(|(other, _)| *other == name)) {
        return;
    }
    let now_us = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_micros();
    let value = format!("{:x}.{now_us:x}", chance() as u32);
    let cookie = settings.cookie(&value, exchange.now).into_bytes();
    exchange.log.notes.set(b"cookie", value.as_bytes());
    state(exchange).cookies.push((name, cookie));
}

fn known(exchange: &Exchange, name: &str) -> Option<Vec<u8>> {
    let lines = exchange.head.view().lines(KnownField::Cookie);
    cookies_with_commas(lines)
        .filter(|cookie| cookie.name == name.as_bytes())
        .find_map(|cookie| cookie.value)
        .filter(|value| !value.is_empty())
        .map(<[u8]>::to_vec)
}
