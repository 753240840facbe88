//! Partial content (RFC 9111 sections 3.3 and 3.4): a 206 is stored, combined with a stored range
//! of the same representation, and becomes the page once it is complete.
//!
//! Called by: `write`, which passes on 206 responses, and the look-up, for ranges of pages that are
//! not stored.
//! Caveat: ranges of different versions must never be combined, so that takes a strong validator;
//! a range without one is used by itself. The total length must be known. One contiguous range is
//! kept per page: the last one received, with what touches it; players and downloads request one
//! range after the other.
//! Out of scope: `multipart/byteranges`, and requesting missing ranges from the origin (`complete`).

use crate::{
    body_bytes::{self, log_not_stored},
    cache::{PageCache, content_of},
    decide::Decision,
    page::wanted_range,
    record::{self, Record, StoredRange},
    refusal::Refusal,
    request::CacheRequest,
    storing_body::CollectingBody,
    tags::marks,
};
use saker_cache_rules::rules::{
    Life, Use, age_s, judge_use,
    parts::{ContentRange, Parts},
    validation::same_bytes,
};
use saker_cache_store::{EntryHead, Store, StoredEntry, Validity};
use saker_content::byteranges::content_range;
use saker_http::{
    Fields, HeadView, KnownField, Status,
    conditional::{self, Validators},
    date::parse_date,
    entity_tag::EntityTag,
    range::{self, ByteRange, RangeOutcome},
};
use saker_net::jobs::{self, JobKind};
use saker_pipeline::{Body, Exchange, Response};
use std::{rc::Rc, sync::Arc};
use tokio::sync::oneshot;

/// Longer ranges are not stored, unless they are the whole page.
pub const PIECE_BYTES_MAX: u64 = 16 << 20;

/// A combined range has no more bytes.
pub const JOINED_BYTES_MAX: u64 = PIECE_BYTES_MAX * 4;

/// The key of the stored range of a page.
fn key_of(page: &[u8]) -> Vec<u8> {
    [page, b"\0part"].concat()
}

impl StoredRange {
    /// The range of a response to a request for `wanted`.
    /// # Errors
    /// Why it can't be stored.
    pub fn of(response: &Response, wanted: Option<&[u8]>) -> Result<StoredRange, Refusal> {
        let fields = response.fields();
        let no = |why: &str| Refusal::new("partial", format!("partial content: {why}"));
        let lines = fields
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("Content-Range"))
            .count();
        let line = fields
            .first("Content-Range")
            .filter(|_| lines == 1)
            .and_then(ContentRange::parse);
        let ContentRange { range, total } =
            line.ok_or_else(|| no("missing or invalid Content-Range"))?;
        let total = total.ok_or_else(|| no("unknown total length"))?;
        if fields.has("Content-Encoding") {
            return Err(no("it is encoded"));
        }
        match response.body.length() {
            Some(length) if length != range.len() => {
                let told = StoredRange { range, total };
                told.of_suffix(length, wanted, fields)
                    .ok_or_else(|| no("its length contradicts Content-Range"))
            }
            _ => Ok(StoredRange { range, total }),
        }
    }

    /// The range of content whose Content-Range is wrong in its first position only, a common mistake
    /// of origins with `bytes=-N`: it ends with the page and has as many bytes as were asked for. With
    /// a validator it could be combined with other ranges, and is not stored.
    fn of_suffix(self, length: u64, wanted: Option<&[u8]>, fields: &Fields) -> Option<StoredRange> {
        let wanted = std::str::from_utf8(wanted?).ok()?;
        let is_asked = wanted.strip_prefix("bytes=-")?.parse() == Ok(length);
        let has_validator = fields.has("etag") || fields.has("last-modified");
        let is_end = self.range.last.checked_add(1) == Some(self.total);
        let first = self.total.checked_sub(length)?;
        let range = ByteRange {
            first,
            last: self.range.last,
        };
        let is_sound = is_asked && is_end && !has_validator && length > 0;
        is_sound.then_some(StoredRange { range, ..self })
    }

    pub fn is_whole(self) -> bool {
        self.range.first == 0 && self.range.last.checked_add(1) == Some(self.total)
    }
}

/// Stores a range when it has been sent; `head` is the page's, as it would be stored.
pub fn store(
    cache: &Rc<PageCache>,
    response: &mut Response,
    mut head: EntryHead,
    decision: &Decision,
    piece: StoredRange,
    notice: Option<WrittenNotice>,
) -> Result<(), Refusal> {
    if piece.range.len() > PIECE_BYTES_MAX {
        return Err(Refusal::new(
            "partial",
            "partial content: larger than the limit for ranges",
        ));
    }
    head.fields
        .retain(|(name, _)| !name.eq_ignore_ascii_case(b"Content-Range"));
    let page_rules = std::mem::replace(
        &mut head.rules,
        Record::Part {
            piece,
            life: decision.life.clone(),
        }
        .encode(),
    );
    let joining = PartialJoin {
        store: Arc::clone(&cache.store),
        page: head.key.clone(),
        head,
        page_rules,
        piece,
        _notice: notice,
    };
    match std::mem::take(&mut response.body) {
        Body::Stream(stream) => {
            let bytes_max = usize::try_from(PIECE_BYTES_MAX).unwrap_or(usize::MAX);
            response.body = Body::Stream(Box::new(CollectingBody::new(
                stream,
                bytes_max,
                move |bytes| joining.begin(bytes),
            )));
            Ok(())
        }
        body => {
            let bytes = body_bytes::plain(&body, None);
            response.body = body;
            joining.begin(bytes?);
            Ok(())
        }
    }
}

/// Dropped when a range has been written, or won't be.
#[expect(dead_code, reason = "its end is the notice")]
pub struct WrittenNotice(pub oneshot::Sender<()>);

/// A received range that is to be combined with the stored one.
struct PartialJoin {
    store: Arc<Store>,
    page: Vec<u8>,
    head: EntryHead,
    /// For the page that it may become.
    page_rules: Vec<u8>,
    piece: StoredRange,
    _notice: Option<WrittenNotice>,
}

impl PartialJoin {
    /// Combines and writes on the blocking pool.
    fn begin(self, bytes: Vec<u8>) {
        if bytes.len() as u64 == self.piece.range.len() {
            jobs::begin(JobKind::PageCache, move |_| self.join(bytes));
        }
    }

    fn join(mut self, mut bytes: Vec<u8>) {
        let key = key_of(&self.page);
        if let Some((old, old_piece, old_bytes)) = there(&self.store, &key)
            && old_piece.total == self.piece.total
            && same_bytes(&record::fields(&old), &record::fields(&self.head))
            && let Some((range, joined)) =
                joined((old_piece.range, old_bytes), (self.piece.range, &bytes))
        {
            self.piece.range = range;
            bytes = joined;
            // What was purged since the older range was fetched stays purged.
            self.head.purge_seq = self.head.purge_seq.min(old.purge_seq);
        }
        match self.piece.is_whole() {
            true => {
                self.store.remove(&key);
                self.head.key = self.page;
                self.head.rules = self.page_rules;
                self.head.status = Status::OK.0;
            }
            false => {
                self.head.key = key;
                if let Some(Record::Part { life, .. }) = Record::decode(&self.head.rules) {
                    self.head.rules = Record::Part {
                        piece: self.piece,
                        life,
                    }
                    .encode();
                }
            }
        }
        let written = self.store.write(&self.head).and_then(|mut writer| {
            writer.write(&bytes)?;
            writer.finish()
        });
        if let Err(error) = written {
            log_not_stored(&error);
        }
    }
}

/// Section 3.4: combines two ranges that touch. `None`: there is a gap, or the result would be too
/// long.
fn joined(
    (old, old_bytes): (ByteRange, Vec<u8>),
    (new, bytes): (ByteRange, &[u8]),
) -> Option<(ByteRange, Vec<u8>)> {
    let mut parts = Parts::default();
    let add = |parts: &mut Parts, range| parts.add(ContentRange { range, total: None });
    let [both] = (add(&mut parts, old) && add(&mut parts, new)).then(|| parts.held())? else {
        return None;
    };
    let both = *both;
    if both.len() > JOINED_BYTES_MAX {
        return None;
    }
    let mut all = vec![0; usize::try_from(both.len()).ok()?];
    // The newer range last; where they overlap, they agree.
    for (range, bytes) in [(old, old_bytes.as_slice()), (new, bytes)] {
        let from = usize::try_from(range.first - both.first).ok()?;
        all.get_mut(from..from + bytes.len())?
            .copy_from_slice(bytes);
    }
    Some((both, all))
}

/// The stored range of a page.
fn there(store: &Store, key: &[u8]) -> Option<(EntryHead, StoredRange, Vec<u8>)> {
    let StoredEntry { head, content, .. } = store.find(key, u64::MAX)?;
    let saker_cache_store::Content::Memory(bytes) = content else {
        return None;
    };
    let Record::Part { piece, .. } = Record::decode(&head.rules)? else {
        return None;
    };
    let is_valid =
        store.validity(head.purge_seq, marks(&head).iter().copied(), |_| true) == Validity::Valid;
    (is_valid && bytes.len() as u64 == piece.range.len()).then_some((head, piece, bytes))
}

/// The stored range of the page that a request asks for.
pub struct FoundRange {
    pub key: Vec<u8>,
    pub piece: StoredRange,
    pub fields: Fields,
    life: Life,
    content: saker_cache_store::Content,
}

impl FoundRange {
    /// RFC 9110 section 13.1.5: after a change, the client wants the whole page.
    pub fn range_applies(&self, view: HeadView<'_>, now: i64) -> bool {
        let validators = Validators {
            entity_tag: self.fields.first("ETag").and_then(EntityTag::parse),
            last_modified: self
                .fields
                .first("Last-Modified")
                .and_then(|text| parse_date(text, now)),
            now,
        };
        conditional::range_applies(view, &validators)
    }
}

/// Looks up the stored range of the page; `None`: there is none that may answer this request.
pub async fn find(
    cache: &PageCache,
    exchange: &Exchange,
    request: &CacheRequest,
) -> Option<FoundRange> {
    let view = exchange.head.view();
    if !request.settings.config.obeys_http || has_conditions(view) {
        return None;
    }
    let page = match &request.vary_record {
        Some(vary_record) => request.variant_key(vary_record, view)?,
        None => request.make_first_key(view)?,
    };
    let key = key_of(&page);
    let found = cache.sound(&key).await.filter(|found| {
        request
            .vary_record
            .as_ref()
            .is_none_or(|vary_record| vary_record.leads_to(found.id))
    })?;
    let Record::Part { piece, life } = Record::decode(&found.head.rules)? else {
        return None;
    };
    let now_ms = exchange.now.saturating_mul(1000);
    let is_valid = cache.store.validity(
        found.head.purge_seq,
        marks(&found.head).iter().copied(),
        |_| true,
    ) == Validity::Valid;
    let is_usable = is_valid
        && request.may_use(&life)
        && judge_use(view, &life, &request.settings.http, now_ms) == Use::Fresh;
    is_usable.then(|| FoundRange {
        key,
        piece,
        fields: record::fields(&found.head),
        life,
        content: found.content,
    })
}

/// The response to a range request that lies within the stored range. `None`: it does not.
pub async fn answer(
    cache: &PageCache,
    exchange: &Exchange,
    request: &CacheRequest,
) -> Option<Response> {
    let view = exchange.head.view();
    let wanted = wanted_range(view)?;
    let found = find(cache, exchange, request).await?;
    if !found.range_applies(view, exchange.now) {
        return None;
    }
    let FoundRange {
        piece,
        mut fields,
        life,
        content,
        ..
    } = found;
    let RangeOutcome::One(range) = range::resolve(wanted, piece.total, 1) else {
        return None;
    };
    if range.first < piece.range.first || range.last > piece.range.last {
        return None;
    }
    let from = range.first - piece.range.first;
    let mut response = Response::new(Status::PARTIAL_CONTENT);
    response.body = content_of(content).part(from..from + range.len());
    let now_ms = exchange.now.saturating_mul(1000);
    fields.remove("Content-Length");
    fields.append("Content-Range", content_range(range, piece.total));
    fields.append("Content-Length", range.len().to_string().into_bytes());
    fields.set("Age", age_s(&life, now_ms).to_string().into_bytes());
    *response.fields_mut() = fields;
    Some(response)
}

fn has_conditions(view: HeadView<'_>) -> bool {
    use KnownField::*;
    [IfNoneMatch, IfModifiedSince, IfMatch, IfUnmodifiedSince]
        .iter()
        .any(|field| view.has(*field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u64, last: u64) -> ByteRange {
        ByteRange { first, last }
    }

    #[test]
    fn pieces_that_touch_are_joined() {
        let text = b"0123456789";
        let piece = |first: usize, last: usize| {
            (
                range(first as u64, last as u64),
                text[first..=last].to_vec(),
            )
        };
        let rows = [
            ((0, 3), (4, 6), Some((0, 6))),
            ((4, 6), (0, 3), Some((0, 6))),
            ((0, 5), (3, 9), Some((0, 9))),
            ((2, 8), (4, 5), Some((2, 8))),
            ((0, 3), (5, 6), None),
        ];
        for (old, new, expected) in rows {
            let (new_range, new_bytes) = piece(new.0, new.1);
            let found = joined(piece(old.0, old.1), (new_range, &new_bytes));
            assert_eq!(
                found,
                expected.map(|(first, last)| piece(first, last)),
                "{old:?} {new:?}"
            );
        }
    }

    #[test]
    fn which_pieces_are_kept() {
        let piece = |lines: &[(&'static str, &str)], bytes: usize| {
            let mut response = Response::new(Status::PARTIAL_CONTENT);
            lines.iter().for_each(|(name, value)| {
                response
                    .fields_mut()
                    .append(*name, value.as_bytes().to_vec())
            });
            response.body = Body::Memory(vec![0; bytes].into());
            StoredRange::of(&response, Some(b"bytes=2-5")).map_err(|why| why.sentence)
        };
        let (tag, of_ten) = (("ETag", "\"a\""), ("Content-Range", "bytes 2-5/10"));
        assert_eq!(
            piece(&[tag, of_ten], 4),
            Ok(StoredRange {
                range: range(2, 5),
                total: 10
            })
        );
        assert!(
            piece(&[tag, ("Content-Range", "bytes 0-9/10")], 10).is_ok_and(StoredRange::is_whole)
        );
        assert!(piece(&[of_ten], 4).is_ok() && piece(&[("ETag", "W/\"a\""), of_ten], 4).is_ok());
        let suffix = |lines: &[(&'static str, &str)], bytes: usize, wanted: &str| {
            let mut response = Response::new(Status::PARTIAL_CONTENT);
            let fields = response.fields_mut();
            lines
                .iter()
                .for_each(|(name, value)| fields.append(*name, value.as_bytes().to_vec()));
            response.body = Body::Memory(vec![0; bytes].into());
            StoredRange::of(&response, Some(wanted.as_bytes())).ok()
        };
        let off_by_one = ("Content-Range", "bytes 4-9/10");
        assert_eq!(
            suffix(&[off_by_one], 5, "bytes=-5").map(|piece| piece.range),
            Some(range(5, 9))
        );
        for (lines, bytes, wanted) in [
            (&[off_by_one, tag][..], 5, "bytes=-5"),
            (&[off_by_one], 5, "bytes=-6"),
            (&[off_by_one], 5, "bytes=5-9"),
            (&[("Content-Range", "bytes 3-8/10")], 5, "bytes=-5"),
            (&[off_by_one], 11, "bytes=-11"),
        ] {
            assert_eq!(suffix(lines, bytes, wanted), None, "{lines:?} {wanted}");
        }
        for (lines, bytes) in [
            (&[tag][..], 4),
            (&[tag, ("Content-Range", "bytes 2-5/*")], 4),
            (&[tag, of_ten], 5),
            (&[tag, of_ten, of_ten], 4),
            (&[tag, of_ten, ("Content-Encoding", "gzip")], 4),
        ] {
            assert!(piece(lines, bytes).is_err(), "{lines:?} {bytes}");
        }
    }
}
