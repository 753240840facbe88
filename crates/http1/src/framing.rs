//! Framing of a request by its head: the bytes after it, and the connection (RFC 9112 sections 3.2,
//! 6 and 9; RFC 9110 sections 7.8 and 10.1.1).
//!
//! Called once per request by the driver, in the order of [`check_request`]. The one difficulty:
//! every head that two implementations could frame differently must be refused, not interpreted, or
//! a request can be smuggled past one of them (RFC 9112 section 11.2). So where the standard lets a
//! server repair (equal Content-Length lines, Transfer-Encoding overriding Content-Length), this
//! one closes.

use saker_http::effective_host::HostError;
use saker_http::host::parse_authority;
use saker_http::target::{self, Target};
use saker_http::{HeadView, KnownField, Method, RequestHead, Version};

use crate::octets;
use crate::reject::{Reject, RejectReason};

/// Delimiter of a request's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    None,
    Length(u64),
    Chunked,
}

/// Answer that the client expects before it sends content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    None,
    /// `100-continue`: an interim response is due before the content is read.
    Continue,
    /// Anything else: 417.
    Unknown,
}

/// All checks that a request must pass before anyone looks at it; then the framing of its content.
pub fn check_request(head: HeadView<'_>) -> Result<BodyFraming, Reject> {
    check_host(head)?;
    check_target(head)?;
    request_framing(head)
}

/// RFC 9112 section 3.2: exactly one valid Host in HTTP/1.1, which may be empty; at most one in
/// HTTP/1.0.
pub fn check_host(head: HeadView<'_>) -> Result<(), Reject> {
    match (head.known_count(KnownField::Host), head.version()) {
        (0, Version::Http11) => Err(RejectReason::MissingHost.into()),
        (0, _) => Ok(()),
        (1, _)
            if head
                .known(KnownField::Host)
                .is_some_and(|host| host.is_empty() || parse_authority(host).is_some()) =>
        {
            Ok(())
        }
        (1, _) => Err(RejectReason::BadHost.into()),
        _ => Err(RejectReason::SeveralHosts.into()),
    }
}

/// The framing that [`check_request`] has, and an owned copy of the head, whose Host field is the
/// effective host and whose target has no authority. Host and target are read once.
pub fn checked(head: HeadView<'_>) -> Result<(BodyFraming, RequestHead), Reject> {
    if head.known_count(KnownField::Host) == 0 && head.version() == Version::Http11 {
        return Err(RejectReason::MissingHost.into());
    }
    let settled = head.to_request().map_err(|error| match error {
        HostError::Target(_) => RejectReason::BadTarget,
        HostError::Malformed => RejectReason::BadHost,
        HostError::Several => RejectReason::SeveralHosts,
    })?;
    Ok((request_framing(head)?, settled))
}

/// RFC 9112 section 3.2: a request-target that its method takes.
pub fn check_target(head: HeadView<'_>) -> Result<Target<'_>, Reject> {
    target::split(head.method(), head.target()).map_err(|_| RejectReason::BadTarget.into())
}

/// RFC 9112 section 6.3 for requests.
pub fn request_framing(head: HeadView<'_>) -> Result<BodyFraming, Reject> {
    let framing = match (
        head.has(KnownField::TransferEncoding),
        head.known_count(KnownField::ContentLength),
    ) {
        (false, 0) => return Ok(BodyFraming::None),
        // RFC 9112 section 6.1: the framing of such a request is faulty, whatever else it says.
        (true, _) if head.version() == Version::Http10 => {
            return Err(RejectReason::TransferEncodingInHttp10.into());
        }
        (true, 0) => check_chunked(head.all("transfer-encoding")).map(|()| BodyFraming::Chunked)?,
        (true, _) => return Err(RejectReason::LengthAndTransferEncoding.into()),
        (false, 1) => BodyFraming::Length(content_length(
            head.known(KnownField::ContentLength).unwrap_or_default(),
        )?),
        (false, _) => return Err(RejectReason::SeveralLengths.into()),
    };
    match framing {
        BodyFraming::Length(0) => Ok(framing),
        // RFC 9110 section 9.3.6: CONNECT has no content; what follows is the tunnel's, or the next
        // request's, or neither.
        _ if head.method() == Method::Connect => Err(RejectReason::ContentInConnect.into()),
        framing => Ok(framing),
    }
}

/// RFC 9112 section 9.3: whether the connection may serve another request after this one.
pub fn keep_alive(head: HeadView<'_>) -> bool {
    match head.version() {
        Version::Http11 => head.asks_only_to_stay() || !connection_option(head, b"close"),
        Version::Http10 => {
            connection_option(head, b"keep-alive") && !connection_option(head, b"close")
        }
        _ => true,
    }
}

/// RFC 9110 section 10.1.1. A client of HTTP/1.0 can't have meant it.
pub fn expectation(head: HeadView<'_>) -> Expectation {
    if !head.has(KnownField::Expect) || head.version() == Version::Http10 {
        return Expectation::None;
    }
    let members = || {
        head.all("expect")
            .flat_map(octets::list_members)
            .filter(|member| !member.is_empty())
    };
    if members().next().is_none() {
        return Expectation::None;
    }
    let known = members().all(|member| member.eq_ignore_ascii_case(b"100-continue"));
    if known {
        Expectation::Continue
    } else {
        Expectation::Unknown
    }
}

/// RFC 9110 section 7.8: the protocols that the client offers to change to (its first `Upgrade`
/// line), if it means it.
pub fn upgrade(head: HeadView<'_>) -> Option<&[u8]> {
    let protocols = head.known(KnownField::Upgrade)?;
    (head.version() == Version::Http11
        && !protocols.is_empty()
        && connection_option(head, b"upgrade"))
    .then_some(protocols)
}

/// True if `Connection` lists `option`.
pub fn connection_option(head: HeadView<'_>, option: &[u8]) -> bool {
    head.has(KnownField::Connection) && list_has(head.lines(KnownField::Connection), option)
}

pub(crate) fn list_has<'a>(mut lines: impl Iterator<Item = &'a [u8]>, token: &[u8]) -> bool {
    lines.any(|line| octets::list_members(line).any(|member| member.eq_ignore_ascii_case(token)))
}

/// RFC 9110 section 8.6: digits only. No sign, no list, no white space within.
pub(crate) fn content_length(value: &[u8]) -> Result<u64, RejectReason> {
    if value.is_empty() {
        return Err(RejectReason::BadLength);
    }
    let digits = value
        .iter()
        .map(|byte| byte.is_ascii_digit().then(|| u64::from(byte - b'0')));
    let length = digits.into_iter().try_fold(0u64, |length, digit| {
        length.checked_mul(10)?.checked_add(digit?)
    });
    length.ok_or(RejectReason::BadLength)
}

/// RFC 9112 section 6.1: `chunked` and nothing else. Other codings before a final `chunked` are
/// well framed, but unknown here.
pub(crate) fn check_chunked<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Result<(), RejectReason> {
    let codings: Vec<&[u8]> = lines.flat_map(octets::list_members).collect();
    let is_chunked = |coding: &&[u8]| coding.eq_ignore_ascii_case(b"chunked");
    match codings.as_slice() {
        [only] if is_chunked(only) => Ok(()),
        [others @ .., last]
            if is_chunked(last) && others.iter().all(|coding| is_foreign_coding(coding)) =>
        {
            Err(RejectReason::UnknownTransferCoding)
        }
        _ => Err(RejectReason::BadTransferEncoding),
    }
}

/// True for codings of which none is known here.
pub(crate) fn is_all_foreign<'a>(lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut codings = lines.flat_map(octets::list_members).peekable();
    codings.peek().is_some() && codings.all(is_foreign_coding)
}

/// A coding that may stand before `chunked`: a token that is neither `chunked` nor the `identity`
/// of old.
fn is_foreign_coding(coding: &[u8]) -> bool {
    saker_http::chars::is_token(coding)
        && !coding.eq_ignore_ascii_case(b"chunked")
        && !coding.eq_ignore_ascii_case(b"identity")
}

#[cfg(test)]
mod tests;
