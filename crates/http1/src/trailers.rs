//! Trailer lines of a chunked body (RFC 9112 section 7.1.2; RFC 9110 section 6.5).
//!
//! Collects lines that the chunked decoder feeds byte by byte, checks them as strictly as head
//! lines, and keeps those names that may come after the content. Absent on purpose: merging
//! trailers into the head. RFC 9110 section 6.5.1 allows it only for fields whose definition says
//! so, and no feature here needs one.

use saker_http::{Fields, field_name::is_alike_any};

use crate::limits::ChunkLimits;
use crate::octets;
use crate::reject::RejectReason;

/// Names that RFC 9110 section 6.5.1 forbids in trailers: framing, routing, modifiers of the
/// request, authentication, control of the response, and what says how to read the content; and
/// those by which proxies name the client and its user. Lower case, sorted.
const FORBIDDEN: &[&str] = &[
    "age",
    "authorization",
    "cache-control",
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "client-ip",
    "connection",
    "content-encoding",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "expect",
    "expires",
    "fastly-client-ip",
    "fly-client-ip",
    "forwarded",
    "forwarded-for",
    "front-end-https",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "incap-client-ip",
    "keep-alive",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "remote-user",
    "retry-after",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "true-client-ip",
    "upgrade",
    "vary",
    "warning",
    "wl-proxy-client-ip",
    "www-authenticate",
    "x-azure-clientip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-forwarded",
    "x-forwarded-email",
    "x-forwarded-for",
    "x-forwarded-groups",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-preferred-username",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-forwarded-scheme",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-forwarded-user",
    "x-original-forwarded-for",
    "x-real-ip",
    "x-remote-user",
];

/// True if a field of that name, in any spelling that programs take for it, must not be taken from
/// (or sent in) trailers.
pub fn is_forbidden_trailer(name: &str) -> bool {
    is_alike_any(name.as_bytes(), FORBIDDEN)
}

/// Trailers under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrailerSection {
    line: Vec<u8>,
    fields: Fields,
    bytes_seen: usize,
    lines_seen: usize,
}

/// Effect of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    More,
    /// The empty line was read.
    End,
}

impl TrailerSection {
    /// Takes one byte of the section.
    pub(crate) fn take(&mut self, byte: u8, limits: &ChunkLimits) -> Result<Step, RejectReason> {
        self.bytes_seen += 1;
        if self.bytes_seen > limits.trailer_bytes_max {
            return Err(RejectReason::TrailersTooLarge);
        }
        let after_return = self.line.last() == Some(&b'\r');
        match (byte, after_return) {
            (b'\n', true) => {}
            (b'\n', false) => return Err(RejectReason::BareLineFeed),
            (_, true) => return Err(RejectReason::BareCarriageReturn),
            (_, false) => {
                self.line.push(byte);
                return Ok(Step::More);
            }
        }
        self.line.pop();
        if self.line.is_empty() {
            return Ok(Step::End);
        }
        self.lines_seen += 1;
        if self.lines_seen > limits.trailer_count_max {
            return Err(RejectReason::TooManyTrailers);
        }
        self.keep_line(limits.trailer_line_bytes_max)?;
        self.line.clear();
        Ok(Step::More)
    }

    fn keep_line(&mut self, bytes_max: usize) -> Result<(), RejectReason> {
        let (name, value) = split_line(&self.line).ok_or(RejectReason::BadTrailer)?;
        if name.len() + b": ".len() + value.len() > bytes_max {
            return Err(RejectReason::TrailersTooLarge);
        }
        if !is_forbidden_trailer(name) {
            self.fields.append(name.to_owned(), value.to_vec());
        }
        Ok(())
    }

    pub(crate) fn fields(&self) -> &Fields {
        &self.fields
    }

    pub(crate) fn into_fields(self) -> Fields {
        self.fields
    }
}

/// `None` for anything but `token ":" OWS value OWS` (RFC 9112 section 5), which excludes folded
/// lines as well.
fn split_line(line: &[u8]) -> Option<(&str, &[u8])> {
    let (name, rest) = line.split_at_checked(octets::run_length(line, &octets::TOKEN))?;
    let value = rest.strip_prefix(b":")?;
    let sound = !name.is_empty() && octets::run_length(value, &octets::FIELD_VALUE) == value.len();
    sound.then_some((std::str::from_utf8(name).ok()?, octets::trim_ows(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_name_no_client_and_no_user() {
        assert!(FORBIDDEN.is_sorted());
        for name in [
            "CF-Connecting-IP",
            "client_ip",
            "X-Remote-User",
            "X-Forwarded-User",
        ] {
            assert!(is_forbidden_trailer(name), "{name}");
        }
        assert!(!is_forbidden_trailer("x-checksum"));
    }
}
