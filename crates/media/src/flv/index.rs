//! Key frames of a file, and the tags that decoders need: from the file's own index, or by walking
//! from tag to tag.

use super::{
    head,
    metadata::{self, Metadata},
    near::Near,
    tags::{AUDIO, BEHIND_BYTES, HEAD_BYTES, SCRIPT, Tag, VIDEO},
};
use crate::{MediaError, Piece, Source, bytes::be32, work::step};
use std::ops::Range;

/// Tags in which decoders are looked for.
const FIRST_TAGS: usize = 64;
/// Maximum size of a decoder's tag, and of the file's own metadata.
const DECODER_BYTES_MAX: u64 = 64 << 10;
const METADATA_BYTES_MAX: u64 = 1 << 20;
/// Tags of a file of hours; more are not gone through.
const TAGS_MAX: usize = 4 << 20;
/// Key frames that are noted down. Of more every other one is as good.
const KEYS_MAX: usize = 256 << 10;

#[derive(Clone, Debug)]
pub struct Index {
    flags: u8,
    pub first_tag: u64,
    /// End of the last complete tag, as far as known.
    pub end: u64,
    pub duration_ms: u64,
    /// Key frames in order: when, and where.
    keys: Vec<(u64, u64)>,
    /// Decoders' tags, in order.
    decoders: Vec<Tag>,
    has_pictures: bool,
}

impl Index {
    /// Without the key frames.
    pub fn read<S: Source + ?Sized>(source: &S) -> Result<Index, MediaError> {
        Ok(Index::begin(source)?.0)
    }

    /// Reads the index including key frames.
    pub fn read_with_keys<S: Source + ?Sized>(source: &S) -> Result<Index, MediaError> {
        let (mut index, metadata) = Index::begin(source)?;
        match said(source, metadata.unwrap_or_default()) {
            Some(keys) => index.keys = keys,
            None => index.walk(source)?,
        }
        Ok(index)
    }

    fn begin<S: Source + ?Sized>(source: &S) -> Result<(Index, Option<Metadata>), MediaError> {
        let mut bytes = [0; 9];
        if source.length() < 13 {
            return Err(MediaError::Damaged("it is no FLV file"));
        }
        source.read_at(0, &mut bytes)?;
        let [b'F', b'L', b'V', _, flags, ..] = bytes else {
            return Err(MediaError::Damaged("it is no FLV file"));
        };
        let head_bytes = be32(&bytes, 5).map_or(0, u64::from);
        if !(9..=64).contains(&head_bytes) {
            return Err(MediaError::Damaged("its head has a length that none has"));
        }
        let first_tag = head_bytes + BEHIND_BYTES;
        if first_tag > source.length() {
            return Err(MediaError::Damaged("it ends within its head"));
        }
        let mut index = Index {
            // A file without flags may still have both kinds.
            flags: if flags & 5 == 0 { 5 } else { flags & 5 },
            first_tag,
            end: source.length(),
            duration_ms: 0,
            keys: Vec::new(),
            decoders: Vec::new(),
            has_pictures: false,
        };
        let metadata = index.first_tags(source)?;
        let said_ms = metadata
            .as_ref()
            .and_then(|metadata| milliseconds(metadata.duration_s?));
        index.duration_ms = last_time(source).or(said_ms).unwrap_or(0);
        Ok((index, metadata))
    }

    fn first_tags<S: Source + ?Sized>(
        &mut self,
        source: &S,
    ) -> Result<Option<Metadata>, MediaError> {
        let (mut at, mut metadata) = (self.first_tag, None);
        for _ in 0..FIRST_TAGS {
            let Some(tag) = Tag::read(source, at)? else {
                break;
            };
            at = tag.end();
            self.has_pictures |= tag.kind == VIDEO;
            if tag.is_decoder()
                && tag.content_bytes <= DECODER_BYTES_MAX
                && !self.decoders.iter().any(|known| known.kind == tag.kind)
            {
                self.decoders.push(tag);
            }
            if tag.kind == SCRIPT && metadata.is_none() && tag.content_bytes <= METADATA_BYTES_MAX {
                let mut content = vec![0; usize::try_from(tag.content_bytes).unwrap_or(0)];
                source.read_at(tag.content_at(), &mut content)?;
                metadata = metadata::read(&content);
            }
        }
        Ok(metadata)
    }

    /// Walks from tag to tag. In a file without video every audio tag serves as a key frame, and
    /// one per second is enough.
    fn walk<S: Source + ?Sized>(&mut self, source: &S) -> Result<(), MediaError> {
        let source = &Near::new(source);
        let mut at = self.first_tag;
        for _ in 0..TAGS_MAX {
            step();
            // Damage at the end does not affect what precedes it.
            let Ok(Some(tag)) = Tag::read(source, at) else {
                break;
            };
            let last = self.keys.last().map(|key| key.0);
            let is_sound = !self.has_pictures && tag.kind == AUDIO && !tag.is_decoder();
            if tag.is_key() || is_sound && last.is_none_or(|last| tag.time_ms >= last + 1000) {
                self.note(tag.time_ms, at);
            }
            self.duration_ms = self.duration_ms.max(tag.time_ms);
            at = tag.end();
        }
        self.end = at;
        Ok(())
    }

    fn note(&mut self, time_ms: u64, at: u64) {
        if self.keys.len() >= KEYS_MAX {
            let mut is_kept = false;
            self.keys.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
        self.keys.push((time_ms, at));
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        self.keys.capacity() * size_of::<(u64, u64)>() + self.decoders.capacity() * size_of::<Tag>()
    }

    /// The last key frame at or before a time; the first where none is.
    pub fn key_at(&self, time_ms: u64) -> Option<(u64, u64)> {
        let behind = self.keys.partition_point(|key| key.0 <= time_ms);
        self.keys.get(behind.saturating_sub(1)).copied()
    }

    /// Offset after the last tag before a time.
    pub fn end_at<S: Source + ?Sized>(&self, source: &S, time_ms: u64) -> Result<u64, MediaError> {
        let source = &Near::new(source);
        let mut at = self.key_at(time_ms).map_or(self.first_tag, |key| key.1);
        for _ in 0..TAGS_MAX {
            step();
            let Ok(Some(tag)) = Tag::read(source, at) else {
                break;
            };
            if tag.time_ms >= time_ms {
                break;
            }
            at = tag.end();
        }
        Ok(at)
    }

    /// A head, what decoders need (where it is known when they begin), and the range.
    pub fn part<S: Source + ?Sized>(
        &self,
        source: &S,
        range: Range<u64>,
        time_ms: Option<u64>,
    ) -> Result<Vec<Piece>, MediaError> {
        let mut before = head(self.flags);
        for tag in &self.decoders {
            // Those that lie in the range are seen there.
            let (Some(time_ms), false) = (time_ms, range.contains(&tag.at)) else {
                continue;
            };
            before.extend_from_slice(&tag.head_at(time_ms));
            let from = before.len();
            before.resize(from + usize::try_from(tag.content_bytes).unwrap_or(0), 0);
            source.read_at(tag.content_at(), before.get_mut(from..).unwrap_or_default())?;
            before.extend_from_slice(
                &u32::try_from(HEAD_BYTES + tag.content_bytes)
                    .unwrap_or(0)
                    .to_be_bytes(),
            );
        }
        Ok(vec![Piece::Memory(before), Piece::File(range)])
    }
}

/// The key frames that a file tells, if they are where it says.
fn said<S: Source + ?Sized>(source: &S, metadata: Metadata) -> Option<Vec<(u64, u64)>> {
    let Metadata {
        times_s, positions, ..
    } = metadata;
    if times_s.len() != positions.len() || times_s.is_empty() {
        return None;
    }
    let keys: Option<Vec<_>> = times_s
        .iter()
        .zip(&positions)
        .map(|(time, at)| Some((milliseconds(*time)?, whole(*at)?)))
        .collect();
    let mut keys = keys?;
    // Some name the tag with the decoder as the first.
    let is_key = |at: u64| matches!(Tag::read(source, at), Ok(Some(tag)) if tag.kind == VIDEO && (tag.is_key() || tag.is_decoder()));
    let in_order = keys
        .windows(2)
        .all(|pair| matches!(pair, [one, next] if one.0 <= next.0 && one.1 <= next.1));
    keys.dedup();
    (in_order && keys.iter().all(|key| is_key(key.1))).then_some(keys)
}

/// Time of the last tag; the file ends with that tag's length.
fn last_time<S: Source + ?Sized>(source: &S) -> Option<u64> {
    let mut bytes = [0; 4];
    let behind = source.length().checked_sub(BEHIND_BYTES)?;
    source.read_at(behind, &mut bytes).ok()?;
    let at = behind.checked_sub(u32::from_be_bytes(bytes).into())?;
    let tag = Tag::read(source, at).ok().flatten()?;
    (tag.end() == source.length()).then_some(tag.time_ms)
}

fn milliseconds(seconds: f64) -> Option<u64> {
    whole(seconds * 1000.0)
}

/// Converts a number that is at most the length of a file.
fn whole(number: f64) -> Option<u64> {
    (number.is_finite() && (0.0..9e15).contains(&number)).then_some(number.round() as u64)
}

#[cfg(test)]
mod tests;
