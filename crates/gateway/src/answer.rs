//! From what a program said to a response of ours: fields that may pass, URLs that lead back to us, redirects that stay inside.

use crate::{forward::is_of_connection, tunnel::ProgramTunnel};
use saker_cgi::ResponseHead;
use saker_http::{
    Fields, Method, RequestHead, Status, Version,
    conditional::{self, Precondition, Validators},
    date::parse_date,
    entity_tag::EntityTag,
    path,
};
use saker_pipeline::{CallManner, Exchange, NoBody, Response};

/// The response's head, its body still empty.
pub fn response(head: ResponseHead, manner: &CallManner, exchange: &Exchange) -> Response {
    let mut fields = head.fields;
    let nominated = fields.first("Connection").map(<[u8]>::to_vec).unwrap_or_default();
    let nominated: Vec<&[u8]> = nominated.split(|byte| *byte == b',').filter(|option| !option.is_empty()).collect();
    fields.retain(|name| !is_of_connection(name.as_bytes(), &nominated));
    if !manner.reverse.is_empty() || !manner.reverse_cookie_paths.is_empty() || !manner.reverse_cookie_domains.is_empty() {
        reverse(&mut fields, manner, exchange);
    }
    let mut response = Response::new(head.status);
    response.head = saker_pipeline::ResponseHead::Built(fields);
    if response.status == Status::NO_CONTENT {
        // Nothing has no type.
        response.fields_mut().remove("Content-Type");
    }
    response
}

/// 101 with what the connection becomes (RFC 9110 section 15.2.2). Its `Upgrade` goes along; `Connection` is the driver's.
pub fn switched(head: ResponseHead, tunnel: Option<ProgramTunnel>) -> Response {
    let Some(tunnel) = tunnel else { return Response::new(Status::BAD_GATEWAY) };
    let mut response = Response::new(head.status);
    let fields = response.fields_mut();
    let passes = |name: &str| name.eq_ignore_ascii_case("upgrade") || !is_of_connection(name.as_bytes(), &[]);
    head.fields.iter().filter(|line| passes(line.0)).for_each(|(name, value)| fields.append(name.to_owned(), value.to_vec()));
    response.tunnel = Some(Box::new(tunnel));
    response
}

/// The head of a response whose content the client has, or does not want under its conditions.
pub fn unsent(head: ResponseHead, status: Status, manner: &CallManner, exchange: &Exchange) -> Response {
    if status != Status::NOT_MODIFIED {
        return Response::new(status);
    }
    let mut response = response(head, manner, exchange);
    response.status = status;
    for name in ["Content-Type", "Content-Encoding", "Content-Language"] {
        response.fields_mut().remove(name);
    }
    response
}

/// Whether our own page takes the place of what a program sent (ProxyErrorOverride).
pub fn is_overridden(status: Status, manner: &CallManner) -> bool {
    manner.overrides_errors && if manner.overridden.is_empty() { status.is_error() } else { manner.overridden.contains(&status.0) }
}

/// The status of a response without its content; `None`: the client gets the content. What the client has already counts for programs, too,
/// where they say no status of their own (Apache does it for them).
pub fn unwanted(head: &ResponseHead, exchange: &Exchange) -> Option<Status> {
    let view = exchange.head.view();
    if head.is_status_said || head.status != Status::OK || !matches!(view.method(), Method::Get | Method::Head) {
        return None;
    }
    let entity_tag = head.fields.first("ETag").and_then(EntityTag::parse);
    let last_modified = head.fields.first("Last-Modified").and_then(|text| parse_date(text, exchange.now));
    match conditional::evaluate(view, Some(&Validators { entity_tag, last_modified, now: exchange.now })) {
        Precondition::Proceed => None,
        Precondition::NotModified => Some(Status::NOT_MODIFIED),
        Precondition::Failed => Some(Status::PRECONDITION_FAILED),
    }
}

/// RFC 3875 section 6.2.2: the response is that of another path of ours, as if the client had asked for it by GET. `false`: no path of ours.
pub fn follow(location: &[u8], exchange: &mut Exchange) -> bool {
    let (to, query) = match location.iter().position(|byte| *byte == b'?') {
        Some(at) => (location.get(..at).unwrap_or_default(), location.get(at + 1..)),
        None => (location, None),
    };
    let mut read = Vec::with_capacity(to.len());
    if path::normalise(to, &mut read).is_err() {
        return false;
    }
    exchange.path = read;
    exchange.query = query.map(<[u8]>::to_vec);
    exchange.body = Box::new(NoBody);
    exchange.head = as_get(&exchange.head);
    true
}

/// The same request, asked by GET (or still HEAD) and without content.
fn as_get(head: &RequestHead) -> RequestHead {
    let view = head.view();
    if matches!(view.method(), Method::Get | Method::Head) {
        return head.clone();
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // Its type stays, as in Apache.
    let of_content = |name: &[u8]| [&b"content-length"[..], b"transfer-encoding", b"expect"].iter().any(|of| of.eq_ignore_ascii_case(name));
    let target = text(view.target());
    let bare = RequestHead::build("GET", &target, view.version().min(Version::Http11), &[]);
    bare.with_fields(view.fields().filter(|(name, _)| !of_content(name)))
}

/// ProxyPassReverse and its cookie kin.
fn reverse(fields: &mut Fields, manner: &CallManner, exchange: &Exchange) {
    for name in ["Location", "Content-Location", "URI", "Destination"] {
        if let Some(value) = fields.first(name).and_then(|value| reversed(value, manner, exchange)) {
            fields.set(name, value);
        }
    }
    let is_cookie = |name: &str| name.eq_ignore_ascii_case("Set-Cookie");
    if !fields.iter().any(|(name, _)| is_cookie(name)) {
        return;
    }
    let before = std::mem::take(fields);
    for (name, value) in before.iter() {
        let value = if is_cookie(name) { cookie(value, manner) } else { value.to_vec() };
        fields.append(name.to_owned(), value);
    }
}

/// A URL of the backend's, as one of ours.
fn reversed(value: &[u8], manner: &CallManner, exchange: &Exchange) -> Option<Vec<u8>> {
    let (rest, to) = manner.reverse.iter().find_map(|one| Some((strip_url(value, one.url.as_bytes())?, one.path.as_bytes())))?;
    let scheme: &[u8] = if exchange.client.secure { b"https://" } else { b"http://" };
    let host = exchange.head.view().first("host").unwrap_or_default();
    match host.is_empty() || !to.starts_with(b"/") {
        true => Some([to, rest].concat()),
        false => Some([scheme, host, to, rest].concat()),
    }
}

/// Scheme and host in any case, the path as it is.
fn strip_url<'v>(value: &'v [u8], url: &[u8]) -> Option<&'v [u8]> {
    let (start, rest) = value.split_at_checked(url.len())?;
    let authority_end = url.windows(3).position(|window| window == b"://").map_or(0, |at| {
        let after = at + 3;
        url.get(after..).and_then(|rest| rest.iter().position(|byte| *byte == b'/')).map_or(url.len(), |slash| after + slash)
    });
    let (same_host, same_path) = (
        start.get(..authority_end)?.eq_ignore_ascii_case(url.get(..authority_end)?),
        start.get(authority_end..) == url.get(authority_end..),
    );
    (same_host && same_path).then_some(rest)
}

/// Path and domain of a cookie.
fn cookie(value: &[u8], manner: &CallManner) -> Vec<u8> {
    let pieces = value.split(|byte| *byte == b';').enumerate().map(|(at, piece)| {
        let attribute = |name: &str| {
            let trimmed = piece.trim_ascii_start();
            let (before, after) = trimmed.split_at_checked(name.len())?;
            (at > 0 && before.eq_ignore_ascii_case(name.as_bytes())).then_some(after)
        };
        if let Some(path) = attribute("path=") {
            let found = manner.reverse_cookie_paths.iter().find_map(|(from, to)| Some((path.strip_prefix(from.as_bytes())?, to)));
            return found.map_or_else(|| piece.to_vec(), |(rest, to)| [b" path=", to.as_bytes(), rest].concat());
        }
        if let Some(domain) = attribute("domain=") {
            let found = manner.reverse_cookie_domains.iter().find(|(from, _)| from.as_bytes().eq_ignore_ascii_case(domain));
            return found.map_or_else(|| piece.to_vec(), |(_, to)| [b" domain=", to.as_bytes()].concat());
        }
        piece.to_vec()
    });
    pieces.collect::<Vec<_>>().join(&b';')
}

#[cfg(test)]
mod tests;
