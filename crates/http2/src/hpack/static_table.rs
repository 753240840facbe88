//! The static table (RFC 7541 Appendix A), with what each name is to the server.
//!
//! The encoder finds a name by length, first and last byte: one look into [`SLOT`], one comparison.

use super::NameKind::{self, Authority, Known, Method, Other, Path, Scheme, Status};
use saker_http::KnownField;

pub(super) struct Row {
    pub(super) name: &'static [u8],
    pub(super) value: &'static [u8],
    pub(super) kind: NameKind,
}

/// The row of an index, which counts from 1.
#[inline]
pub(super) fn row(index: usize) -> Option<&'static Row> {
    ROWS.get(index.wrapping_sub(1))
}

/// The first index of that name, in any case.
#[inline]
pub(super) fn name_index(name: &[u8]) -> Option<usize> {
    let (first, last) = (*name.first()?, *name.last()?);
    let index = usize::from(SLOT[slot(name.len(), first, last)]);
    let there = row(index)?.name;
    (there == name || there.eq_ignore_ascii_case(name)).then_some(index)
}

/// The index of that value among the rows of the name that begin at `name_index`.
#[inline]
pub(super) fn pair_index(name_index: usize, value: &[u8]) -> Option<usize> {
    let name = row(name_index)?.name;
    if row(name_index)?.value.is_empty() && !value.is_empty() {
        return None;
    }
    (name_index..)
        .map_while(|index| Some((index, row(index)?)))
        .take_while(|(_, row)| row.name == name)
        .find_map(|(index, row)| (row.value == value).then_some(index))
}

const SLOTS: usize = 128;
const LEN_FACTOR: usize = 3;
const FIRST_FACTOR: usize = 54;
const LAST_FACTOR: usize = 59;

/// First index of a name by [`slot`], 0 for none. The factors were searched for so that no two
/// names meet.
static SLOT: [u8; SLOTS] = slots();

const fn slot(len: usize, first: u8, last: u8) -> usize {
    let (first, last) = ((first | 0x20) as usize, (last | 0x20) as usize);
    len.wrapping_mul(LEN_FACTOR)
        .wrapping_add(first * FIRST_FACTOR)
        .wrapping_add(last * LAST_FACTOR)
        % SLOTS
}

const fn slots() -> [u8; SLOTS] {
    let mut slots = [0; SLOTS];
    let mut index = ROWS.len();
    // From the end, so that the first row of a name stays.
    while index > 0 {
        let name = ROWS[index - 1].name;
        let at = slot(name.len(), name[0], name[name.len() - 1]);
        let there = slots[at] as usize;
        assert!(
            there == 0 || ROWS[there - 1].name.len() == name.len(),
            "two names in one slot"
        );
        slots[at] = index as u8;
        index -= 1;
    }
    slots
}

const fn new(name: &'static [u8], value: &'static [u8], kind: NameKind) -> Row {
    Row { name, value, kind }
}

pub(super) const ROWS_COUNT: usize = ROWS.len();

static ROWS: [Row; 61] = [
    new(b":authority", b"", Authority),
    new(b":method", b"GET", Method),
    new(b":method", b"POST", Method),
    new(b":path", b"/", Path),
    new(b":path", b"/index.html", Path),
    new(b":scheme", b"http", Scheme),
    new(b":scheme", b"https", Scheme),
    new(b":status", b"200", Status),
    new(b":status", b"204", Status),
    new(b":status", b"206", Status),
    new(b":status", b"304", Status),
    new(b":status", b"400", Status),
    new(b":status", b"404", Status),
    new(b":status", b"500", Status),
    new(b"accept-charset", b"", Other),
    new(
        b"accept-encoding",
        b"gzip, deflate",
        Known(KnownField::AcceptEncoding),
    ),
    new(b"accept-language", b"", Other),
    new(b"accept-ranges", b"", Other),
    new(b"accept", b"", Other),
    new(b"access-control-allow-origin", b"", Other),
    new(b"age", b"", Other),
    new(b"allow", b"", Other),
    new(b"authorization", b"", Known(KnownField::Authorization)),
    new(b"cache-control", b"", Known(KnownField::CacheControl)),
    new(b"content-disposition", b"", Other),
    new(b"content-encoding", b"", Other),
    new(b"content-language", b"", Other),
    new(b"content-length", b"", Known(KnownField::ContentLength)),
    new(b"content-location", b"", Other),
    new(b"content-range", b"", Known(KnownField::ContentRange)),
    new(b"content-type", b"", Other),
    new(b"cookie", b"", Known(KnownField::Cookie)),
    new(b"date", b"", Other),
    new(b"etag", b"", Other),
    new(b"expect", b"", Known(KnownField::Expect)),
    new(b"expires", b"", Other),
    new(b"from", b"", Other),
    new(b"host", b"", Known(KnownField::Host)),
    new(b"if-match", b"", Known(KnownField::IfMatch)),
    new(
        b"if-modified-since",
        b"",
        Known(KnownField::IfModifiedSince),
    ),
    new(b"if-none-match", b"", Known(KnownField::IfNoneMatch)),
    new(b"if-range", b"", Known(KnownField::IfRange)),
    new(
        b"if-unmodified-since",
        b"",
        Known(KnownField::IfUnmodifiedSince),
    ),
    new(b"last-modified", b"", Other),
    new(b"link", b"", Other),
    new(b"location", b"", Other),
    new(b"max-forwards", b"", Other),
    new(b"proxy-authenticate", b"", Other),
    new(b"proxy-authorization", b"", Other),
    new(b"range", b"", Known(KnownField::Range)),
    new(b"referer", b"", Known(KnownField::Referer)),
    new(b"refresh", b"", Other),
    new(b"retry-after", b"", Other),
    new(b"server", b"", Other),
    new(b"set-cookie", b"", Other),
    new(b"strict-transport-security", b"", Other),
    new(
        b"transfer-encoding",
        b"",
        Known(KnownField::TransferEncoding),
    ),
    new(b"user-agent", b"", Known(KnownField::UserAgent)),
    new(b"vary", b"", Other),
    new(b"via", b"", Other),
    new(b"www-authenticate", b"", Other),
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
                .unwrap()
                + 1;
            assert_eq!(name_index(row.name), Some(first), "{:?}", row.name);
            assert_eq!(name_index(&row.name.to_ascii_uppercase()), Some(first));
            assert_eq!(pair_index(first, row.value), Some(at + 1), "{:?}", row.name);
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
        ] {
            assert_eq!(name_index(name), None, "{name:?}");
        }
        for (name, value) in [
            (&b":status"[..], &b"201"[..]),
            (b"etag", b"x"),
            (b":path", b""),
            (b"www-authenticate", b"Basic"),
        ] {
            assert_eq!(
                name_index(name).and_then(|index| pair_index(index, value)),
                None,
                "{name:?}"
            );
        }
    }
}
