//! From what a program said to a response of ours: fields that may pass, URLs that lead back to us,
//! redirects that stay inside.

use crate::{
    forward::{self, OF_CONNECTION, is_of_connection},
    tunnel::ProgramTunnel,
};
use saker_cgi::ResponseHead;
use saker_config::model::Protocol;
use saker_http::{
    Fields, Method, RequestHead, Status, Version,
    conditional::{self, Precondition, Validators},
    date::{format_date, parse_date, parse_loosely},
    entity_tag::EntityTag,
    path,
};
use saker_pipeline::{
    Exchange, NoBody, ProxyOptions, Response, UpstreamRequest, UpstreamTarget, Via,
};
use std::cell::Cell;

/// The response's head, its body still empty.
pub fn response(head: ResponseHead, call: &UpstreamRequest) -> Response {
    let (manner, is_server) = (&*call.manner, call.script.is_none());
    let mut fields = head.fields;
    // Other names share their places in that set.
    let is_of = |(name, _): (&str, &[u8])| is_of_connection(name.as_bytes(), &[]);
    if fields.may_have(OF_CONNECTION) && fields.iter().any(is_of) {
        remove_fields_of_connection(&mut fields, is_server);
    }
    remove_invalid_date(&mut fields);
    if !manner.reverse.is_empty()
        || !manner.reverse_cookie_paths.is_empty()
        || !manner.reverse_cookie_domains.is_empty()
    {
        reverse(&mut fields, manner, &call.names.origin);
    }
    if is_server && matches!(manner.via, Via::On | Via::Full) {
        fields.append("Via", forward::via(Version::Http11, call));
    }
    // A Location alone is a redirect (RFC 3875 section 6.2.3), but not to everybody.
    let is_redirect = manner.is_like_nginx && fields.has("Location");
    let status = if head.is_status_said || manner.follows_locations {
        head.status
    } else if is_redirect {
        Status::FOUND
    } else {
        Status::OK
    };
    let mut response = Response::new(status);
    // Where the upstream has said the usual phrase, nginx's own does not take its place.
    let is_usual = manner.is_like_nginx && head.is_status_said && has_own_words(status);
    let usual = || Box::from(status.reason().as_bytes());
    let reason = head.reason.or_else(|| is_usual.then(usual));
    response.reason = reason.map(|reason| Box::new((head.status, reason)));
    response.head = saker_pipeline::ResponseHead::Built(fields);
    if response.status == Status::NO_CONTENT && !is_server {
        // Nothing has no type; what servers say goes on as they say it.
        response.fields_mut().remove("Content-Type");
    }
    response
}

/// True for statuses that nginx has other words for, or none.
fn has_own_words(status: Status) -> bool {
    !matches!(
        status.0,
        200 | 201 | 204 | 206 | 301 | 304 | 400 | 401 | 403 | 404 | 500 | 502
    )
}

/// Fields of the connection to the program, and those that it names.
fn remove_fields_of_connection(fields: &mut Fields, is_server: bool) {
    let nominated = fields
        .first("Connection")
        .map(<[u8]>::to_vec)
        .unwrap_or_default();
    let nominated: Vec<&[u8]> = nominated
        .split(|byte| *byte == b',')
        .filter(|option| !option.is_empty())
        .collect();
    // RFC 9110 section 6.6.2: an announcement of what comes behind the content, and does.
    fields.retain(|name| {
        is_server && name.eq_ignore_ascii_case("trailer")
            || !is_of_connection(name.as_bytes(), &nominated)
    });
}

/// RFC 9110 section 6.6.1: an origin's `Date` stays; without a valid one, the driver adds its own.
fn remove_invalid_date(fields: &mut Fields) {
    let (mut count, mut is_valid) = (0, true);
    for (name, value) in fields.iter() {
        if name.eq_ignore_ascii_case("date") {
            count += 1;
            is_valid = count == 1 && is_date(value);
        }
    }
    if !is_valid {
        fields.remove("Date");
    }
}

/// RFC 9110 section 8.8.2: a program's `Last-Modified` is an HTTP date, and not in the future. Odd
/// forms are written anew, as by Apache; what is no date at all is no validator, and removed.
pub fn mend_modified(fields: &mut Fields, now: i64) {
    let lines = || {
        fields
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("last-modified"))
            .map(|(_, value)| value)
    };
    let is_usual = |value: &[u8]| {
        parse_date(value, now)
            .is_some_and(|date| (1..=now).contains(&date) && *value == format_date(date))
    };
    if lines()
        .enumerate()
        .all(|(at, value)| at == 0 && is_usual(value))
    {
        return;
    }
    // Of several, the latest counts. The epoch is what programs say that know no date.
    let modified = lines().filter_map(|value| parse_loosely(value, now)).max();
    match modified.filter(|modified| *modified > 0) {
        Some(modified) => fields.set("Last-Modified", format_date(modified.min(now)).to_vec()),
        None => {
            fields.remove("Last-Modified");
        }
    }
}

/// Bytes of a date in the usual form.
const DATE_BYTES: usize = 29;

thread_local! {
    /// The last valid date. Origins say the time, so that it is mostly that of the next response,
    /// too.
    static LAST_DATE: Cell<[u8; DATE_BYTES]> = const { Cell::new([0; DATE_BYTES]) };
}

fn is_date(value: &[u8]) -> bool {
    let usual = <&[u8; DATE_BYTES]>::try_from(value).ok();
    if usual.is_some_and(|date| LAST_DATE.get() == *date) {
        return true;
    }
    let is_valid = parse_date(value, 0).is_some();
    if let Some(date) = usual.filter(|_| is_valid) {
        LAST_DATE.set(*date);
    }
    is_valid
}

/// In the place of an error of the backend's: with its challenge, which is all that a client needs
/// of it. As in Apache, other fields of FastCGI and SCGI programs survive errors.
pub fn overriding(head: ResponseHead, call: &UpstreamRequest) -> Response {
    if call.manner.keeps_program_fields && has_lasting_fields(call) {
        let mut lasting = response(head, call);
        lasting.reason = None;
        lasting.fields_mut().retain(|name| !is_of_content(name));
        return lasting;
    }
    let mut response = Response::new(head.status);
    if head.status == Status::UNAUTHORIZED
        && let Some(challenge) = head.fields.first("WWW-Authenticate")
    {
        response
            .fields_mut()
            .set("WWW-Authenticate", challenge.to_vec());
    }
    response
}

/// True for fields of a content, and an error's page is another one.
fn is_of_content(name: &str) -> bool {
    const OTHERS: [&str; 5] = [
        "Transfer-Encoding",
        "Accept-Ranges",
        "ETag",
        "Last-Modified",
        "Location",
    ];
    let is_described = name
        .get(..8)
        .is_some_and(|start| start.eq_ignore_ascii_case("content-"));
    is_described || OTHERS.iter().any(|of| of.eq_ignore_ascii_case(name))
}

fn has_lasting_fields(call: &UpstreamRequest) -> bool {
    let UpstreamTarget::Upstream(upstream) = &call.to else {
        return false;
    };
    let member = upstream.members.first();
    member
        .is_some_and(|member| matches!(member.backend.protocol, Protocol::FastCgi | Protocol::Scgi))
}

/// 101 with what the connection becomes (RFC 9110 section 15.2.2). Its `Upgrade` goes along;
/// `Connection` is the driver's.
pub fn switched(head: ResponseHead, tunnel: Option<ProgramTunnel>, is_connect: bool) -> Response {
    let Some(tunnel) = tunnel else {
        return Response::new(Status::BAD_GATEWAY);
    };
    // RFC 9110 section 9.3.6: a tunnel that was asked for by CONNECT begins behind any 2xx.
    let mut response = Response::new(if is_connect { Status::OK } else { head.status });
    let fields = response.fields_mut();
    let passes = |name: &str| {
        name.eq_ignore_ascii_case("upgrade") || !is_of_connection(name.as_bytes(), &[])
    };
    head.fields
        .iter()
        .filter(|line| passes(line.0))
        .for_each(|(name, value)| fields.append(name.to_owned(), value.to_vec()));
    response.tunnel = Some(Box::new(tunnel));
    response
}

/// The head of a response whose content the client has, or does not want under its conditions.
pub fn unsent(head: ResponseHead, status: Status, call: &UpstreamRequest) -> Response {
    match status {
        Status::FOUND => return response(head, call),
        Status::NOT_MODIFIED => {}
        _ => return Response::new(status),
    }
    let mut response = response(head, call);
    response.status = status;
    for name in ["Content-Type", "Content-Encoding", "Content-Language"] {
        response.fields_mut().remove(name);
    }
    response
}

/// True if our own page takes the place of what a program sent (ProxyErrorOverride).
pub fn is_overridden(status: Status, manner: &ProxyOptions) -> bool {
    manner.overrides_errors
        && if manner.overridden.is_empty() {
            status.is_error()
        } else {
            manner.overridden.contains(&status.0)
        }
}

/// The status of a response without its content; `None`: the client gets the content. What the
/// client has already counts for programs, too, where they say no status of their own (Apache does
/// it for them). Apache also drops the content of a redirect without a status if it started the
/// program itself.
pub fn unwanted(
    head: &ResponseHead,
    exchange: &Exchange,
    call: &UpstreamRequest,
) -> Option<Status> {
    let is_process = matches!(call.to, UpstreamTarget::Process(_));
    if is_process && head.status == Status::FOUND && !head.is_status_said {
        return Some(Status::FOUND);
    }
    call.script.as_ref()?;
    let view = exchange.head.view();
    if head.is_status_said
        || head.status != Status::OK
        || !matches!(view.method(), Method::Get | Method::Head)
    {
        return None;
    }
    let entity_tag = head.fields.first("ETag").and_then(EntityTag::parse);
    let last_modified = head
        .fields
        .first("Last-Modified")
        .and_then(|text| parse_date(text, exchange.now));
    match conditional::evaluate(
        view,
        Some(&Validators {
            entity_tag,
            last_modified,
            now: exchange.now,
        }),
    ) {
        Precondition::Proceed => None,
        Precondition::NotModified => Some(Status::NOT_MODIFIED),
        Precondition::Failed => Some(Status::PRECONDITION_FAILED),
    }
}

/// Returns true if a path that an upstream names has a segment that leads upwards, in whatever
/// writing. Such a path is not followed, as by nginx: the upstream may have put a client's text
/// behind the name of a folder.
pub fn leads_upwards(location: &[u8]) -> bool {
    let path = location.split(|byte| *byte == b'?').next();
    path.is_some_and(path::leads_upwards)
}

/// RFC 3875 section 6.2.2: the response is that of another path of ours, as if the client had asked
/// for it by GET. `false`: no path of ours.
pub fn follow(location: &[u8], exchange: &mut Exchange) -> bool {
    let (to, query) = match location.iter().position(|byte| *byte == b'?') {
        Some(at) => (
            location.get(..at).unwrap_or_default(),
            location.get(at + 1..),
        ),
        None => (location, None),
    };
    let mut read = Vec::with_capacity(to.len());
    if path::normalize(to, &mut read).is_err() {
        return false;
    }
    exchange.path = read;
    exchange.query = query.map(<[u8]>::to_vec);
    exchange.body = Box::new(NoBody);
    // There is none with GET.
    exchange.upstream.has_lost_content = false;
    exchange.head = as_get(&exchange.head);
    true
}

/// The same request, asked by GET (or still HEAD) and without content.
pub fn as_get(head: &RequestHead) -> RequestHead {
    let view = head.view();
    if matches!(view.method(), Method::Get | Method::Head) {
        return head.clone();
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // Its type stays, as in Apache.
    let of_content = |name: &[u8]| {
        [&b"content-length"[..], b"transfer-encoding", b"expect"]
            .iter()
            .any(|of| of.eq_ignore_ascii_case(name))
    };
    let target = text(view.target());
    let bare = RequestHead::build("GET", &target, view.version().min(Version::Http11), &[]);
    bare.with_fields(view.fields().filter(|(name, _)| !of_content(name)))
}

/// ProxyPassReverse and its cookie kin.
fn reverse(fields: &mut Fields, manner: &ProxyOptions, origin: &[u8]) {
    for name in ["Location", "Content-Location", "URI", "Destination"] {
        if let Some(value) = fields
            .first(name)
            .and_then(|value| reversed(value, manner, origin))
        {
            fields.set(name, value);
        }
    }
    let is_cookie = |name: &str| name.eq_ignore_ascii_case("Set-Cookie");
    if !fields.iter().any(|(name, _)| is_cookie(name)) {
        return;
    }
    let before = std::mem::take(fields);
    for (name, value) in before.iter() {
        let value = if is_cookie(name) {
            cookie(value, manner)
        } else {
            value.to_vec()
        };
        fields.append(name.to_owned(), value);
    }
}

/// A URL of the backend's, as one of ours. As Apache: compared without regard to case; a path alone
/// is compared with the path of a URL.
fn reversed(value: &[u8], manner: &ProxyOptions, origin: &[u8]) -> Option<Vec<u8>> {
    let (to, rest) = manner.reverse.iter().find_map(|one| {
        let part = if one.url.starts_with('/') {
            path_of(value)
        } else {
            value
        };
        let (start, rest) = part.split_at_checked(one.url.len())?;
        (!start.is_empty() && start.eq_ignore_ascii_case(one.url.as_bytes()))
            .then_some((one.path.as_bytes(), rest))
    })?;
    let path = [to, rest].concat();
    Some(if path.starts_with(b"/") {
        [origin, &path].concat()
    } else {
        path
    })
}

/// Returns the path of an absolute URL.
fn path_of(url: &[u8]) -> &[u8] {
    let authority = url
        .windows(3)
        .position(|window| window == b"://")
        .and_then(|at| url.get(at + 3..));
    authority
        .and_then(|rest| rest.get(rest.iter().position(|byte| *byte == b'/')?..))
        .unwrap_or(url)
}

/// Path and domain of a cookie: what begins like one of ours is replaced whole, as Apache does, and
/// the text around it left as it is.
fn cookie(value: &[u8], manner: &ProxyOptions) -> Vec<u8> {
    let paths = |text: &[u8]| {
        manner
            .reverse_cookie_paths
            .iter()
            .find(|(from, _)| text.starts_with(from.as_bytes()))
            .map(|(_, to)| to.as_bytes().to_vec())
    };
    let domains = |text: &[u8]| {
        manner.reverse_cookie_domains.iter().find_map(|(from, to)| {
            let start = text.get(..from.len())?;
            start
                .eq_ignore_ascii_case(from.as_bytes())
                .then(|| to.as_bytes().to_vec())
        })
    };
    let replaced = replace_attribute(value, b"path=", &paths);
    replace_attribute(&replaced, b"domain=", &domains)
}

fn replace_attribute(
    value: &[u8],
    name: &[u8],
    replace: &dyn Fn(&[u8]) -> Option<Vec<u8>>,
) -> Vec<u8> {
    let unchanged = || value.to_vec();
    // Not in the cookie itself, which may be called so.
    let own = value
        .iter()
        .position(|byte| *byte == b';')
        .unwrap_or(value.len());
    let attributes = value.get(own..).unwrap_or_default();
    let Some(at) = attributes
        .windows(name.len())
        .position(|window| window.eq_ignore_ascii_case(name))
    else {
        return unchanged();
    };
    let (before, rest) = value.split_at(own + at + name.len());
    let (text, behind) = rest.split_at(
        rest.iter()
            .position(|byte| *byte == b';')
            .unwrap_or(rest.len()),
    );
    replace(text).map_or_else(unchanged, |text| [before, &text, behind].concat())
}

#[cfg(test)]
mod tests;
