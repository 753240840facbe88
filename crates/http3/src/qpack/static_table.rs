//! The static table (RFC 9204 Appendix A), with what each name is to the server.
//!
//! The encoder finds a name by its length, its first, last but one and last byte: one look into
//! [`SLOT`], one comparison. Rows of one name do not all stand together, so each knows the next of
//! its name.

use saker_http::KnownField;
use saker_http_mux::NameKind::{self, Authority, Known, Method, Other, Path, Scheme, Status};

pub(super) struct Row {
    pub name: &'static [u8],
    pub value: &'static [u8],
    pub kind: NameKind,
}

/// The row of an index, which counts from 0.
#[inline]
pub(super) fn row(index: u64) -> Option<&'static Row> {
    ROWS.get(usize::try_from(index).ok()?)
}

/// The first index of that name, in any case.
#[inline]
pub(super) fn name_index(name: &[u8]) -> Option<usize> {
    let (first, last, before) = (
        *name.first()?,
        *name.last()?,
        *name.get(name.len().checked_sub(2)?)?,
    );
    let index = usize::from(SLOT[slot(name.len(), first, before, last)]);
    let there = ROWS.get(index)?.name;
    (there == name || there.eq_ignore_ascii_case(name)).then_some(index)
}

/// The index of that value among the rows of the name whose first is at `name_index`.
#[inline]
pub(super) fn pair_index(name_index: usize, value: &[u8]) -> Option<usize> {
    let mut index = name_index;
    while let Some(row) = ROWS.get(index) {
        if row.value == value {
            return Some(index);
        }
        index = usize::from(NEXT[index]);
    }
    None
}

const SLOTS: usize = 256;
const NO_ROW: u8 = u8::MAX;
const LEN_FACTOR: usize = 9;
const FIRST_FACTOR: usize = 227;
const BEFORE_LAST_FACTOR: usize = 13;
const LAST_FACTOR: usize = 86;

/// First index of a name by [`slot`]. The factors were searched for so that no two names meet.
static SLOT: [u8; SLOTS] = slots();
/// The next row of the same name.
static NEXT: [u8; ROWS.len()] = next_rows();

const fn slot(len: usize, first: u8, before_last: u8, last: u8) -> usize {
    let (first, before, last) = (
        (first | 0x20) as usize,
        (before_last | 0x20) as usize,
        (last | 0x20) as usize,
    );
    len.wrapping_mul(LEN_FACTOR)
        .wrapping_add(first * FIRST_FACTOR + before * BEFORE_LAST_FACTOR + last * LAST_FACTOR)
        % SLOTS
}

const fn slots() -> [u8; SLOTS] {
    let mut slots = [NO_ROW; SLOTS];
    let mut index = ROWS.len();
    // From the end, so that the first row of a name stays.
    while index > 0 {
        index -= 1;
        let name = ROWS[index].name;
        let at = slot(
            name.len(),
            name[0],
            name[name.len() - 2],
            name[name.len() - 1],
        );
        assert!(
            slots[at] == NO_ROW || is_same(ROWS[slots[at] as usize].name, name),
            "two names in one slot"
        );
        slots[at] = index as u8;
    }
    slots
}

const fn next_rows() -> [u8; ROWS.len()] {
    let mut next = [NO_ROW; ROWS.len()];
    let mut index = 0;
    while index < ROWS.len() {
        let mut other = index + 1;
        while other < ROWS.len() && !is_same(ROWS[other].name, ROWS[index].name) {
            other += 1;
        }
        if other < ROWS.len() {
            next[index] = other as u8;
        }
        index += 1;
    }
    next
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

const fn new(name: &'static [u8], value: &'static [u8], kind: NameKind) -> Row {
    Row { name, value, kind }
}

static ROWS: [Row; 99] = [
    new(b":authority", b"", Authority),
    new(b":path", b"/", Path),
    new(b"age", b"0", Other),
    new(b"content-disposition", b"", Other),
    new(b"content-length", b"0", Known(KnownField::ContentLength)),
    new(b"cookie", b"", Known(KnownField::Cookie)),
    new(b"date", b"", Other),
    new(b"etag", b"", Other),
    new(
        b"if-modified-since",
        b"",
        Known(KnownField::IfModifiedSince),
    ),
    new(b"if-none-match", b"", Known(KnownField::IfNoneMatch)),
    new(b"last-modified", b"", Other),
    new(b"link", b"", Other),
    new(b"location", b"", Other),
    new(b"referer", b"", Known(KnownField::Referer)),
    new(b"set-cookie", b"", Other),
    new(b":method", b"CONNECT", Method),
    new(b":method", b"DELETE", Method),
    new(b":method", b"GET", Method),
    new(b":method", b"HEAD", Method),
    new(b":method", b"OPTIONS", Method),
    new(b":method", b"POST", Method),
    new(b":method", b"PUT", Method),
    new(b":scheme", b"http", Scheme),
    new(b":scheme", b"https", Scheme),
    new(b":status", b"103", Status),
    new(b":status", b"200", Status),
    new(b":status", b"304", Status),
    new(b":status", b"404", Status),
    new(b":status", b"503", Status),
    new(b"accept", b"*/*", Other),
    new(b"accept", b"application/dns-message", Other),
    new(
        b"accept-encoding",
        b"gzip, deflate, br",
        Known(KnownField::AcceptEncoding),
    ),
    new(b"accept-ranges", b"bytes", Other),
    new(b"access-control-allow-headers", b"cache-control", Other),
    new(b"access-control-allow-headers", b"content-type", Other),
    new(b"access-control-allow-origin", b"*", Other),
    new(
        b"cache-control",
        b"max-age=0",
        Known(KnownField::CacheControl),
    ),
    new(
        b"cache-control",
        b"max-age=2592000",
        Known(KnownField::CacheControl),
    ),
    new(
        b"cache-control",
        b"max-age=604800",
        Known(KnownField::CacheControl),
    ),
    new(
        b"cache-control",
        b"no-cache",
        Known(KnownField::CacheControl),
    ),
    new(
        b"cache-control",
        b"no-store",
        Known(KnownField::CacheControl),
    ),
    new(
        b"cache-control",
        b"public, max-age=31536000",
        Known(KnownField::CacheControl),
    ),
    new(b"content-encoding", b"br", Other),
    new(b"content-encoding", b"gzip", Other),
    new(b"content-type", b"application/dns-message", Other),
    new(b"content-type", b"application/javascript", Other),
    new(b"content-type", b"application/json", Other),
    new(b"content-type", b"application/x-www-form-urlencoded", Other),
    new(b"content-type", b"image/gif", Other),
    new(b"content-type", b"image/jpeg", Other),
    new(b"content-type", b"image/png", Other),
    new(b"content-type", b"text/css", Other),
    new(b"content-type", b"text/html; charset=utf-8", Other),
    new(b"content-type", b"text/plain", Other),
    new(b"content-type", b"text/plain;charset=utf-8", Other),
    new(b"range", b"bytes=0-", Known(KnownField::Range)),
    new(b"strict-transport-security", b"max-age=31536000", Other),
    new(
        b"strict-transport-security",
        b"max-age=31536000; includesubdomains",
        Other,
    ),
    new(
        b"strict-transport-security",
        b"max-age=31536000; includesubdomains; preload",
        Other,
    ),
    new(b"vary", b"accept-encoding", Other),
    new(b"vary", b"origin", Other),
    new(b"x-content-type-options", b"nosniff", Other),
    new(b"x-xss-protection", b"1; mode=block", Other),
    new(b":status", b"100", Status),
    new(b":status", b"204", Status),
    new(b":status", b"206", Status),
    new(b":status", b"302", Status),
    new(b":status", b"400", Status),
    new(b":status", b"403", Status),
    new(b":status", b"421", Status),
    new(b":status", b"425", Status),
    new(b":status", b"500", Status),
    new(b"accept-language", b"", Other),
    new(b"access-control-allow-credentials", b"FALSE", Other),
    new(b"access-control-allow-credentials", b"TRUE", Other),
    new(b"access-control-allow-headers", b"*", Other),
    new(b"access-control-allow-methods", b"get", Other),
    new(
        b"access-control-allow-methods",
        b"get, post, options",
        Other,
    ),
    new(b"access-control-allow-methods", b"options", Other),
    new(b"access-control-expose-headers", b"content-length", Other),
    new(b"access-control-request-headers", b"content-type", Other),
    new(b"access-control-request-method", b"get", Other),
    new(b"access-control-request-method", b"post", Other),
    new(b"alt-svc", b"clear", Other),
    new(b"authorization", b"", Known(KnownField::Authorization)),
    new(
        b"content-security-policy",
        b"script-src 'none'; object-src 'none'; base-uri 'none'",
        Other,
    ),
    new(b"early-data", b"1", Other),
    new(b"expect-ct", b"", Other),
    new(b"forwarded", b"", Other),
    new(b"if-range", b"", Known(KnownField::IfRange)),
    new(b"origin", b"", Other),
    new(b"purpose", b"prefetch", Other),
    new(b"server", b"", Other),
    new(b"timing-allow-origin", b"*", Other),
    new(b"upgrade-insecure-requests", b"1", Other),
    new(b"user-agent", b"", Known(KnownField::UserAgent)),
    new(b"x-forwarded-for", b"", Other),
    new(b"x-frame-options", b"deny", Other),
    new(b"x-frame-options", b"sameorigin", Other),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_classified_as_a_literal_would_be() {
        for (at, row) in ROWS.iter().enumerate() {
            let first = ROWS
                .iter()
                .position(|other| other.name == row.name)
                .unwrap();
            assert_eq!(name_index(row.name), Some(first), "{:?}", row.name);
            assert_eq!(name_index(&row.name.to_ascii_uppercase()), Some(first));
            assert_eq!(pair_index(first, row.value), Some(at), "{:?}", row.name);
            assert_eq!(NameKind::of_name(row.name), row.kind, "{:?}", row.name);
        }
    }

    #[test]
    fn others_are_not_found() {
        for name in [
            &b""[..],
            b"x",
            b":methox",
            b"x-ccept",
            b"hosu",
            b":statut",
            b"etagg",
            b"te",
        ] {
            assert_eq!(name_index(name), None, "{name:?}");
        }
        for (name, value) in [
            (&b":status"[..], &b"201"[..]),
            (b"etag", b"x"),
            (b":path", b""),
            (b"vary", b"Origin"),
        ] {
            assert_eq!(
                name_index(name).and_then(|index| pair_index(index, value)),
                None,
                "{name:?}"
            );
        }
        assert!(row(98).is_some() && row(99).is_none() && row(u64::MAX).is_none());
    }
}
