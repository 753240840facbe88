//! Request heads that are not strict, rewritten as strict ones: folded lines, as in Apache, with
//! `HttpProtocolOptions Unsafe` more; or lines that end with a bare LF, as in nginx.
//!
//! Called by: the driver, for a head that the parser or the checks refused, where the configuration
//! asks for it.
//! Caveat: two servers that read one head differently can be played off against each other (RFC 9112
//! section 11.2). So a repaired request has no content, no upgrade and no successor on its
//! connection, and its new head passes [`crate::parse_request`] and [`crate::checked`] before
//! anything looks at it: what is ambiguous is removed, never passed on.
//! Out of scope: HTTP/0.9, white space around names, NUL and CR within a line: those are refused
//! here, too, as by Apache.

use crate::{octets, reject::RejectReason};
use saker_http::{Method, Status, chars::is_token, host::parse_authority};
use std::borrow::Cow;

/// Kind of rewriting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Folded lines.
    Folded,
    /// Those, and more.
    Unsafe,
    /// Lines that end with a bare LF, and empty lines before the request.
    LineFeeds,
}

/// The outcome for the bytes of a refused head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repaired {
    /// A strict head for the first `consumed` bytes.
    Head {
        head: Vec<u8>,
        consumed: usize,
        /// All its lines end alike, so it is read alike by all that understand it: content and
        /// further requests may follow.
        is_uniform: bool,
    },
    /// The head has not ended yet.
    Partial,
    /// It stays refused, perhaps with another status.
    Refused(Option<Status>),
}

/// True if a head that was refused for this reason may be repaired.
pub fn is_repairable(reason: RejectReason, repair: Repair) -> bool {
    use RejectReason::*;
    let is_unsafe = repair == Repair::Unsafe;
    match reason {
        BareLineFeed | EmptyLines if repair == Repair::LineFeeds => true,
        FoldedLine => repair != Repair::LineFeeds,
        BareLineFeed | BadMethod | BadVersion | UnsupportedVersion | BadFieldName
        | BadFieldValue | SeveralHosts | BadHost | BadTarget => is_unsafe,
        _ => false,
    }
}

/// Joins folded lines of the head at the start of `bytes` (section 5.2), and rewrites all else if
/// `is_unsafe`. `head_bytes_max` is where waiting for its end stops.
pub fn repair(bytes: &[u8], head_bytes_max: usize, repair: Repair) -> Repaired {
    if repair == Repair::LineFeeds {
        return with_line_ends(bytes, head_bytes_max);
    }
    let is_unsafe = repair == Repair::Unsafe;
    let window = bytes.get(..head_bytes_max).unwrap_or(bytes);
    let Some((lines, consumed)) = lines(window) else {
        return match bytes.len() < head_bytes_max {
            true => Repaired::Partial,
            false => Repaired::Refused(None),
        };
    };
    let rewritten = unfolded(&lines).and_then(|lines| match is_unsafe {
        true => rewritten(&lines),
        false => joined(&lines),
    });
    match rewritten {
        Ok(head) => Repaired::Head {
            head,
            consumed,
            is_uniform: false,
        },
        Err(status) => Repaired::Refused(status),
    }
}

/// Ends each line of the head with CRLF, and leaves empty lines before it out (section 2.2).
fn with_line_ends(bytes: &[u8], head_bytes_max: usize) -> Repaired {
    let window = bytes.get(..head_bytes_max).unwrap_or(bytes);
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = window.iter().position(|byte| !is_end(byte));
    let start = start.unwrap_or(window.len());
    let Some((lines, bytes_of_lines)) = lines(&window[start..]) else {
        return match bytes.len() < head_bytes_max {
            true => Repaired::Partial,
            false => Repaired::Refused(None),
        };
    };
    let consumed = start + bytes_of_lines;
    let raw = &window[start..consumed];
    let line_feeds = memchr::memchr_iter(b'\n', raw).count();
    let returns = memchr::memchr_iter(b'\r', raw).count();
    let mut head = lines.join(&b"\r\n"[..]);
    head.extend_from_slice(b"\r\n\r\n");
    Repaired::Head {
        head,
        consumed,
        is_uniform: returns == 0 || returns == line_feeds,
    }
}

/// The lines before the first empty one, and the bytes up to its end; a bare LF ends a line, too
/// (section 2.2).
fn lines(bytes: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    let (mut found, mut at) = (Vec::new(), 0);
    loop {
        let rest = &bytes[at..];
        let line = &rest[..memchr::memchr(b'\n', rest)?];
        at += line.len() + 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match line {
            b"" => return Some((found, at)),
            line => found.push(line),
        }
    }
}

type Refusal = Option<Status>;

/// The lines with their continuations, one space in the place of each break. The request line has
/// none.
fn unfolded<'a>(lines: &[&'a [u8]]) -> Result<Vec<Cow<'a, [u8]>>, Refusal> {
    let mut whole: Vec<Cow<'_, [u8]>> = Vec::new();
    for line in lines {
        if !line.first().is_some_and(|byte| octets::is_ows(*byte)) {
            whole.push(Cow::Borrowed(line));
            continue;
        }
        let [_, .., last] = whole.as_mut_slice() else {
            return Err(None);
        };
        let last = last.to_mut();
        while last.last().is_some_and(|byte| octets::is_ows(*byte)) {
            last.pop();
        }
        last.push(b' ');
        last.extend_from_slice(octets::trim_ows(line));
    }
    Ok(whole)
}

/// The head of lines that are strict by themselves, and neither frame content nor change protocols.
fn joined(lines: &[Cow<'_, [u8]>]) -> Result<Vec<u8>, Refusal> {
    let mut head = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if at > 0 {
            field(line)?;
        }
        head.extend_from_slice(line);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    Ok(head)
}

fn rewritten(lines: &[Cow<'_, [u8]>]) -> Result<Vec<u8>, Refusal> {
    let (first, fields) = lines.split_first().ok_or(None)?;
    let RequestLine {
        method,
        target,
        is_http10,
        has_authority,
    } = request_line(first)?;
    let mut host: Option<&[u8]> = None;
    let mut kept = Vec::new();
    for line in fields {
        let Some((name, value)) = field(line)? else {
            continue;
        };
        if name.eq_ignore_ascii_case(b"host") {
            match host {
                None => host = Some(octets::trim_ows(value)),
                Some(known) if known == octets::trim_ows(value) => {}
                Some(_) => return Err(None),
            }
        } else {
            kept.extend_from_slice(name);
            kept.extend_from_slice(b": ");
            kept.extend(octets::trim_ows(value).iter().map(|byte| visible(*byte)));
            kept.extend_from_slice(b"\r\n");
        }
    }
    let host = match host.filter(|_| has_authority != Authority::Removed) {
        Some(host) => usable_host(host)?,
        None => None,
    };
    let mut head = Vec::with_capacity(first.len() + kept.len() + 32);
    let version: &[u8] = if is_http10 {
        b" HTTP/1.0"
    } else {
        b" HTTP/1.1"
    };
    for part in [method, b" ", &target, version, b"\r\n"] {
        head.extend_from_slice(part);
    }
    // RFC 9112 section 3.2: a request of HTTP/1.1 without a host has an empty one.
    if host.is_some() || !is_http10 {
        head.extend_from_slice(b"Host: ");
        head.extend_from_slice(host.unwrap_or_default());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(&kept);
    head.extend_from_slice(b"\r\n");
    Ok(head)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Authority {
    /// As sent, perhaps none.
    Kept,
    /// It names no valid host: the request is for the default one.
    Removed,
}

struct RequestLine<'a> {
    method: &'a [u8],
    target: Vec<u8>,
    is_http10: bool,
    has_authority: Authority,
}

fn request_line(line: &[u8]) -> Result<RequestLine<'_>, Refusal> {
    let end = line.iter().rposition(|byte| *byte != b' ').ok_or(None)?;
    let mut parts = line[..=end].split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(None);
    };
    if method.is_empty() || !method.iter().all(u8::is_ascii_graphic) {
        return Err(None);
    }
    let is_http10 = match version.strip_prefix(b"HTTP/") {
        Some(b"1.0") => true,
        Some([b'1'..=b'9', b'.', minor]) if minor.is_ascii_digit() => false,
        _ => return Err(None),
    };
    // RFC 9110 section 15.6.2.
    if !is_token(method) || method.len() > crate::METHOD_BYTES_MAX {
        return Err(Some(Status::NOT_IMPLEMENTED));
    }
    // A tunnel has no place among requests that end their connection.
    if Method::from_token(method) == Method::Connect {
        return Err(None);
    }
    let (target, has_authority) = usable_target(target)?;
    Ok(RequestLine {
        method,
        target,
        is_http10,
        has_authority,
    })
}

/// The target without user information, and without an authority that is no valid host but harmless.
fn usable_target(target: &[u8]) -> Result<(Vec<u8>, Authority), Refusal> {
    let scheme = [&b"http://"[..], b"https://"].into_iter().find(|scheme| {
        target
            .get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    let Some(scheme) = scheme else {
        return Ok((target.to_vec(), Authority::Kept));
    };
    let rest = &target[scheme.len()..];
    let authority_bytes = rest
        .iter()
        .position(|byte| matches!(byte, b'/' | b'?' | b'#'))
        .unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_bytes);
    let host = match authority.iter().rposition(|byte| *byte == b'@') {
        Some(at) => &authority[at + 1..],
        None => authority,
    };
    let slash: &[u8] = if path.starts_with(b"/") { b"" } else { b"/" };
    if parse_authority(host).is_some() {
        return Ok(([scheme, host, slash, path].concat(), Authority::Kept));
    }
    match is_harmless_name(host) {
        true => Ok(([slash, path].concat(), Authority::Removed)),
        false => Err(None),
    }
}

/// Letters, digits, and what may be an address in another notation; then a port or none.
fn is_harmless_name(authority: &[u8]) -> bool {
    let mut parts = authority.splitn(2, |byte| *byte == b':');
    let name = parts.next().unwrap_or_default();
    let is_port =
        |port: &[u8]| !port.is_empty() && port.len() <= 5 && port.iter().all(u8::is_ascii_digit);
    !name.is_empty()
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'%'))
        && parts.next().is_none_or(is_port)
}

/// The host if it is one, nothing if it is none but harmless.
fn usable_host(host: &[u8]) -> Result<Option<&[u8]>, Refusal> {
    if host.is_empty() || parse_authority(host).is_some() {
        return Ok(Some(host));
    }
    let is_harmful = |byte: &u8| {
        byte.is_ascii_control() || matches!(byte, b' ' | b'/' | b'\\' | b'@' | b'?' | b'#' | b',')
    };
    match host.iter().any(is_harmful) {
        true => Err(None),
        false => Ok(None),
    }
}

/// Name and value.
type Field<'a> = (&'a [u8], &'a [u8]);

/// Name and value of a line; `None`: it is left out, because its name is none.
fn field(line: &[u8]) -> Result<Option<Field<'_>>, Refusal> {
    let colon = memchr::memchr(b':', line).ok_or(None)?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let is_fatal = |byte: &u8| matches!(byte, 0 | b'\t' | 0x0b | 0x0c | b'\r' | b' ');
    if name.is_empty() || name.iter().any(is_fatal) || memchr::memchr2(0, b'\r', value).is_some() {
        return Err(None);
    }
    if FRAMING.iter().any(|held| name.eq_ignore_ascii_case(held)) {
        return Err(None);
    }
    Ok(is_token(name).then_some((name, value)))
}

/// Fields by which servers find the end of a request, or begin another protocol.
const FRAMING: [&[u8]; 6] = [
    b"content-length",
    b"transfer-encoding",
    b"trailer",
    b"expect",
    b"upgrade",
    b"http2-settings",
];

/// RFC 9110 section 5.5: a space in the place of a control character.
fn visible(byte: u8) -> u8 {
    match byte {
        b'\t' => byte,
        byte if byte.is_ascii_control() => b' ',
        byte => byte,
    }
}

#[cfg(test)]
mod tests;
