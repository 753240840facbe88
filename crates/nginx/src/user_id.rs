//! `userid`: a cookie that tells clients apart.
//!
//! Called by: `response`, for every response to a client.
//! Caveat: the value is nginx's: 16 bytes in base64, of the service, the time, the process, and a
//! count; it tells clients apart and proves nothing.

use crate::{log_lines, request::Request, state::UserIdWords as Words};
use saker_http::date::format_date;
use saker_nginx_model::{
    modules::filters::{CookieEnd, FiltersConf, UserId},
    variables::Variable,
};
use saker_pipeline::Response;
use saker_telemetry::message::{self, Level};
use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// The last moment of `expires max`.
const FAR: &str = "; expires=Thu, 31-Dec-37 23:55:55 GMT";
/// The first count; the lowest byte stays.
const COUNT: u32 = 0x0303_0302;

static COUNTER: AtomicU32 = AtomicU32::new(COUNT);

/// Returns true if responses of the location may set the cookie.
pub fn is_set(conf: &FiltersConf) -> bool {
    matches!(conf.user_id, Some(UserId::On(_)))
}

/// Sets the cookie where the client has none.
pub fn apply(request: &mut Request<'_>, response: &mut Response) {
    let location = Arc::clone(&request.state.location);
    let conf = &location.conf.filters;
    let Some(UserId::On(is_old)) = conf.user_id else {
        return;
    };
    if request.state.is_subrequest {
        return;
    }
    let Some(words) = new(request, conf, is_old) else {
        return;
    };
    let cookie = cookie(request, conf, words);
    response.fields_mut().append("Set-Cookie", cookie);
    if let Some(policy) = conf
        .user_id_p3p
        .as_deref()
        .filter(|policy| !policy.is_empty())
    {
        response.fields_mut().set("P3P", policy.as_bytes().to_vec());
    }
}

/// Returns the identifier that the client gets. `None`: it has one, or gets none.
pub fn given(request: &mut Request<'_>) -> Option<Words> {
    let location = Arc::clone(&request.state.location);
    let conf = &location.conf.filters;
    match conf.user_id {
        Some(UserId::On(is_old)) => new(request, conf, is_old),
        _ => None,
    }
}

/// The same where the location sets cookies. It is made once.
fn new(request: &mut Request<'_>, conf: &FiltersConf, is_old: bool) -> Option<Words> {
    if request.state.user_id_set.is_some() {
        return request.state.user_id_set;
    }
    let got = received(request);
    let is_reset = is_reset(request, conf, got.map(|(words, _)| words));
    if got.is_none() {
        log_malformed(request, conf);
    }
    let words = match got.filter(|_| !is_reset) {
        Some((words, true)) => {
            request.state.user_id_got = Some(words);
            return None;
        }
        // It has another mark: the same one again.
        Some((words, false)) => words,
        None => fresh(request, conf, is_old),
    };
    request.state.user_id_set = Some(words);
    Some(words)
}

/// True if the configuration has set `$uid_reset`: the client gets another identifier. `log` has that
/// in the error log, too.
fn is_reset(request: &mut Request<'_>, conf: &FiltersConf, got: Option<Words>) -> bool {
    let Some(variable) = request.nginx.variable("uid_reset") else {
        return false;
    };
    // A location that does not set it has no warning about that.
    if let Variable::Named(number) = &variable
        && request.nginx.is_set_by_scripts(*number)
        && !matches!(request.state.values.get(*number), Some(Some(_)))
    {
        return false;
    }
    let value = request.variable(&variable);
    let is_reset = Request::is_true(value.as_deref());
    if let Some(words) = got.filter(|_| value.as_deref() == Some(b"log")) {
        let name = conf.user_id_name.as_deref().unwrap_or("uid");
        let cookie = String::from_utf8_lossy(&shown(name, words)).into_owned();
        let text = format!("userid cookie \"{cookie}\" was reset");
        request.log(&message::NGINX_USER_ID, Level::Notice, text);
    }
    is_reset
}

/// Says what is wrong with a cookie that the client sent.
fn log_malformed(request: &mut Request<'_>, conf: &FiltersConf) {
    let name = conf.user_id_name.as_deref().unwrap_or("uid");
    let Some(value) = request.cookie(name) else {
        return;
    };
    let fault = match value.get(..22) {
        None => "too short",
        Some(text) if decode(text).is_none() => "invalid",
        Some(_) => return,
    };
    let value = log_lines::shown(&value);
    let text = format!("client sent {fault} userid cookie \"{name}={value}\"");
    request.log(&message::NGINX_USER_ID, Level::Error, text);
}

/// Returns the identifier that the client sent, and whether its mark is the one that is wanted.
pub fn received(request: &mut Request<'_>) -> Option<(Words, bool)> {
    let location = Arc::clone(&request.state.location);
    let conf = &location.conf.filters;
    let name = conf.user_id_name.as_deref().unwrap_or("uid");
    let value = request.cookie(name)?;
    let bytes = decode(value.get(..22)?)?;
    // One without a count was not made here.
    if bytes.get(12..16) == Some(&[0; 4]) {
        return None;
    }
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = bytes
            .iter()
            .fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    let has_mark = match conf.user_id_mark.flatten() {
        None => true,
        Some(mark) => value.get(22..24) == Some(&[mark, b'=']),
    };
    Some((words, has_mark))
}

fn fresh(request: &Request<'_>, conf: &FiltersConf, is_old: bool) -> Words {
    let exchange = &request.exchange;
    let now = u32::try_from(exchange.now).unwrap_or_default();
    let pid = std::process::id();
    if is_old {
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        return [conf.user_id_service.unwrap_or(0), now, pid, count];
    }
    let service =
        conf.user_id_service
            .unwrap_or_else(|| match exchange.client.local.ip().to_canonical() {
                IpAddr::V4(address) => address.to_bits(),
                IpAddr::V6(address) => (address.to_bits() & u128::from(u32::MAX)) as u32,
            });
    let count = COUNTER.fetch_add(0x100, Ordering::Relaxed);
    [service, now, pid, count]
}

fn cookie(request: &Request<'_>, conf: &FiltersConf, words: Words) -> Vec<u8> {
    let mut value = encode(&bytes_of(words));
    if let Some(mark) = conf.user_id_mark.flatten()
        && let Some(before_last) = value.len().checked_sub(2).and_then(|at| value.get_mut(at))
    {
        *before_last = mark;
    }
    let name = conf.user_id_name.as_deref().unwrap_or("uid");
    let mut cookie = [name.as_bytes(), b"=", &value].concat();
    match conf.user_id_expires {
        Some(CookieEnd::Max) => cookie.extend_from_slice(FAR.as_bytes()),
        Some(CookieEnd::Seconds(seconds)) => {
            let date = format_date(request.exchange.now.saturating_add(seconds));
            cookie.extend_from_slice(b"; expires=");
            cookie.extend_from_slice(&date);
        }
        Some(CookieEnd::Session) | None => {}
    }
    if let Some(domain) = conf
        .user_id_domain
        .as_deref()
        .filter(|text| !text.is_empty())
    {
        cookie.extend_from_slice(b"; domain=");
        cookie.extend_from_slice(domain.as_bytes());
    }
    cookie.extend_from_slice(b"; path=");
    cookie.extend_from_slice(conf.user_id_path.as_deref().unwrap_or("/").as_bytes());
    for flag in conf.user_id_flags.as_deref().unwrap_or_default() {
        cookie.extend_from_slice(flag.as_bytes());
    }
    cookie
}

/// The words as bytes, in network order.
fn bytes_of(words: Words) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Returns `NAME=` and the words in hexadecimal, for variables.
pub fn shown(name: &str, words: Words) -> Vec<u8> {
    // As numbers of the machine, of bytes in network order.
    let digits = words
        .iter()
        .map(|word| format!("{:08X}", word.swap_bytes()));
    let digits: String = digits.collect();
    format!("{name}={digits}").into_bytes()
}

fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let part = |at: usize| u32::from(group.get(at).copied().unwrap_or_default());
        let bits = part(0) << 16 | part(1) << 8 | part(2);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) as usize & 63;
            let letter = ALPHABET.get(index).copied().unwrap_or(b'=');
            out.push(if digit <= group.len() { letter } else { b'=' });
        }
    }
    out
}

/// Decodes 22 letters to 16 bytes.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bits, mut count) = (0_u32, 0);
    let mut out = Vec::with_capacity(16);
    for letter in text {
        let value = ALPHABET.iter().position(|known| known == letter)?;
        bits = bits << 6 | value as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let words = [0x7f00_0001, 0x6543_2101, 42, COUNT];
        let text = encode(&bytes_of(words));
        assert_eq!(text.len(), 24);
        assert!(text.ends_with(b"=="));
        let bytes = decode(&text[..22]).unwrap();
        assert_eq!(bytes, bytes_of(words));
        assert_eq!(decode(b"a b"), None);
        assert_eq!(
            shown("uid", [1, 2, 3, 0xff]),
            b"uid=010000000200000003000000FF000000"
        );
    }
}
