//! Connections of clients, and the peculiarities of their programs: `keepalive_timeout` and its kin,
//! `chunked_transfer_encoding`, `msie_padding`, `msie_refresh`.
//!
//! Called by: `response`, before content is chosen and with the response; `errors` and the rules,
//! for pages of errors.
//! Caveat: limits of `http` are those of the listeners; a location that differs is evaluated for each
//! request. Only HTTP/1 has these connections.

use crate::{pages, request::Request};
use saker_ap_expr::{Pattern, PatternOptions};
use saker_http::{Method, Status};
use saker_nginx_model::{Location, modules::clients::KeepAliveDisabled, server::KeepAlive};
use saker_pipeline::{Body, Chunk, Exchange, Response};
use std::sync::LazyLock;

/// Gives the connection the limits of the location.
pub fn prepare(request: &mut Request<'_>, location: &Location) {
    let conf = &location.conf.clients;
    let own = KeepAlive::of(&location.conf);
    let all = request.nginx.keep_alive;
    let field_s = conf.keepalive_field_s.flatten();
    let is_refreshed = conf.msie_refresh == Some(true);
    if own != all || field_s.is_some() || conf.chunks == Some(false) || is_refreshed {
        request.depends_on_request();
    }
    let client = &request.exchange.client;
    let age_ms = saker_net::clock::monotonic_ms().saturating_sub(client.began_ms);
    let is_over = own.timeout_ms == 0
        || own.requests_max <= u64::from(client.requests.get())
        || own.age_ms_max <= age_ms;
    let is_disabled = is_disabled(request, conf.keepalive_disabled) || request.state.is_last;
    let limits = &mut request.exchange.limits;
    limits.closes_connection = own != all && is_over || is_disabled;
    limits.idle_timeout_ms = (own.timeout_ms != all.timeout_ms).then_some(own.timeout_ms);
    limits.keep_alive_s = field_s;
    limits.is_without_chunks = conf.chunks == Some(false);
}

/// `keepalive_disable`, which concerns posts of old versions of Internet Explorer by default.
fn is_disabled(request: &mut Request<'_>, disabled: Option<KeepAliveDisabled>) -> bool {
    let disabled = disabled.unwrap_or(KeepAliveDisabled {
        msie6: true,
        safari: false,
    });
    let is_post = request.exchange.head.view().method() == Method::Post;
    if !(disabled.safari || disabled.msie6 && is_post) {
        return false;
    }
    let view = request.exchange.head.view();
    let agent = view.first("user-agent").unwrap_or_default().to_vec();
    // Most browsers name Safari, so they are suspected only where it counts.
    let suspected = match disabled.safari {
        true => &SUSPECTED,
        false => &OLD_MSIE,
    };
    match suspected
        .as_ref()
        .map(|pattern| (pattern, pattern.captures(&agent)))
    {
        Some((pattern, Ok(None))) => {
            request.depends_on_match("user-agent", pattern, &agent, None);
            return false;
        }
        _ => request.depends_on_request(),
    }
    disabled.msie6 && is_post && is_msie6(&agent) || disabled.safari && is_safari(&agent)
}

/// Programs that may be those that `keepalive_disable` is about, which are then looked at.
static SUSPECTED: LazyLock<Option<Pattern>> = LazyLock::new(|| pattern("MSIE [456]|Safari/"));
static OLD_MSIE: LazyLock<Option<Pattern>> = LazyLock::new(|| pattern("MSIE [456]"));

fn has(agent: &[u8], word: &[u8]) -> bool {
    memchr::memmem::find(agent, word).is_some()
}

fn is_msie(agent: &[u8]) -> bool {
    has(agent, b"MSIE ") && !has(agent, b"Opera")
}

fn is_msie6(agent: &[u8]) -> bool {
    let at = memchr::memmem::find(agent, b"MSIE ");
    let version = at.and_then(|at| agent.get(at + 5));
    is_msie(agent)
        && match version {
            Some(b'4' | b'5') => true,
            Some(b'6') => !has(agent, b"SV1"),
            _ => false,
        }
}

/// Safari, and what says to be it alone.
fn is_safari(agent: &[u8]) -> bool {
    let is_other = ["Opera", "Gecko/", "Chrome/"]
        .iter()
        .any(|other| has(agent, other.as_bytes()));
    !is_other && has(agent, b"Safari/") && has(agent, b"Mac OS X")
}

/// Comments behind pages of errors, which browsers show instead of their own when they are as long.
const PADDING: &str =
    "<!-- so that browsers show this page, it has more than 512 bytes of content -->\r\n";
const PADDING_LINES: usize = 6;

/// Programs whose pages of errors are padded.
static PADDED: LazyLock<Option<Pattern>> = LazyLock::new(|| pattern("MSIE |Chrome/"));

fn pattern(text: &str) -> Option<Pattern> {
    let options = PatternOptions {
        caseless: false,
        multiline: false,
        dotall: false,
        dollar_endonly: false,
        extended: false,
    };
    Pattern::compile(text, options).ok()
}

/// Records that the page of an error depends on the client's program.
pub fn depends_on_program(request: &mut Request<'_>, status: Status) {
    if !pads(&request.state.location, status) {
        return;
    }
    let view = request.exchange.head.view();
    let agent = view.first("user-agent").unwrap_or_default().to_vec();
    match PADDED
        .as_ref()
        .map(|pattern| (pattern, pattern.captures(&agent)))
    {
        Some((pattern, Ok(spans))) => {
            request.depends_on_match("user-agent", pattern, &agent, spans.as_ref());
        }
        _ => request.depends_on_request(),
    }
}

fn pads(location: &Location, status: Status) -> bool {
    status.is_error() && location.conf.clients.msie_padding != Some(false)
}

/// Lengthens the page of an error for clients that would show one of their own.
pub fn pad(exchange: &Exchange, location: &Location, response: &mut Response) {
    let view = exchange.head.view();
    let agent = view.first("user-agent").unwrap_or_default();
    let is_shy = is_msie(agent) || has(agent, b"Chrome/");
    if !is_shy || !pads(location, response.status) {
        return;
    }
    if let Body::Memory(chunk) = &response.body {
        let padding = PADDING.repeat(PADDING_LINES);
        let content = [chunk.bytes(), padding.as_bytes()].concat();
        response.body = Body::Memory(Chunk::from(content));
    }
}

/// Redirects by the page instead of the status (`msie_refresh`).
pub fn refresh(request: &mut Request<'_>, location: &Location, response: &mut Response) {
    let is_own = !request.exchange.upstream.is_answered_by_program;
    let is_on = location.conf.clients.msie_refresh == Some(true) && is_own;
    if !is_on || !matches!(response.status.0, 301 | 302) {
        return;
    }
    let view = request.exchange.head.view();
    if !is_msie(view.first("user-agent").unwrap_or_default()) {
        return;
    }
    let fields = response.fields_mut();
    let Some(target) = fields.first("Location").map(pages::escape_attribute) else {
        return;
    };
    fields.remove("Location");
    let page = [
        &b"<html><head><meta http-equiv=\"Refresh\" content=\"0; URL="[..],
        &target,
        b"\"></head><body></body></html>\r\n",
    ]
    .concat();
    fields.set("Content-Type", &b"text/html"[..]);
    response.status = Status::OK;
    response.body = Body::Memory(Chunk::from(page));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_apart() {
        let chrome = b"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) AppleWebKit/537 (KHTML, like Gecko) Chrome/120.0 Safari/537";
        let safari = b"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) AppleWebKit/605 (KHTML, like Gecko) Version/17 Safari/605";
        assert!(is_safari(safari) && !is_safari(chrome));
        assert!(is_msie6(
            b"Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)"
        ));
        assert!(!is_msie6(
            b"Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)"
        ));
        assert!(!is_msie(b"Mozilla/4.0 (compatible; MSIE 6.0) Opera 8"));
    }
}
