//! An entry as a file: a prologue of fixed size, the head, then the content as it is sent to
//! clients.
//!
//! Called by: the writer, `Store::find` and the rebuild after a start.
//! Caveat: an on-disk format. All numbers are little-endian. The prologue is written last, over
//! zeros, and carries checksums of itself with the head, and of the content. Codings of an entry
//! are separate files, which name the entry that they were made from by its id.
//! Out of scope: where files are (`entry_name`).

use crate::versions::Version;
use std::{fs::File, io, os::unix::fs::FileExt};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

pub const PROLOGUE_BYTES: usize = 88;

const _: () = assert!(PROLOGUE_BYTES.is_multiple_of(8));

const SUM_AT: usize = PROLOGUE_BYTES - 8;

const MAGIC: [u8; 4] = *b"SKC1";

/// First read: covers most heads with their contents.
const FIRST_READ_BYTES: usize = 64 << 10;

/// Longer heads are not valid.
const HEAD_BYTES_MAX: u32 = 4 << 20;

/// The coding of the content in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Coding {
    Identity = 0,
    Gzip = 1,
    Brotli = 2,
    Zstd = 3,
}

impl Coding {
    pub const ALL: [Coding; 4] = [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd];

    fn from_number(number: u8) -> Option<Coding> {
        Coding::ALL
            .into_iter()
            .find(|coding| *coding as u8 == number)
    }
}

/// Metadata of a stored response. The store reads the first seven fields; the others belong to the
/// caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryHead {
    /// The whole key: an entry is found by its hash, and returned only if this is equal.
    pub key: Vec<u8>,
    /// The site, whose limits apply and which bounds a purge of everything.
    pub site: Vec<u8>,
    /// Tags by which it can be purged, each within its scope.
    pub tags: Vec<Vec<u8>>,
    /// Unix milliseconds; the entry is useless afterwards.
    pub keep_until_ms: u64,
    /// The last purge when its making began; see `Store::purge_seq`.
    pub purge_seq: u64,
    /// Number of its generation's beginning; see `Store::begin`. 0: taken when it is written.
    pub began: u64,
    /// Marks of those tags that any client's requests may purge (its URL, its owner); see
    /// `Store::may_have`.
    pub probes: [u64; 2],
    pub status: u16,
    /// The caller's own data, such as the lifetime of the response.
    pub rules: Vec<u8>,
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// An entry as found in the store.
#[derive(Debug)]
pub struct StoredEntry {
    pub head: EntryHead,
    /// Unique among all entries of the key; greater than those of entries whose making began
    /// earlier.
    pub id: u64,
    pub content: Content,
    pub version: Version,
}

#[derive(Debug)]
pub enum Content {
    /// Matches its checksum.
    Memory(Vec<u8>),
    /// Not verified yet; see [`Content::is_sound`].
    File {
        file: File,
        offset: u64,
        length: u64,
        sum: u64,
    },
}

impl Content {
    pub fn len(&self) -> u64 {
        match self {
            Content::Memory(bytes) => bytes.len() as u64,
            Content::File { length, .. } => *length,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Verifies the checksum. Reads the whole content, so it must not run on a worker's thread.
    pub fn is_sound(&self) -> bool {
        let Content::File {
            file,
            offset,
            length,
            sum,
        } = self
        else {
            return true;
        };
        let mut hasher = Xxh3::new();
        let mut buffer = vec![0; FIRST_READ_BYTES];
        let (mut at, end) = (*offset, offset + length);
        while at < end {
            let wanted = buffer
                .len()
                .min(usize::try_from(end - at).unwrap_or(usize::MAX));
            match file.read_at(&mut buffer[..wanted], at) {
                Ok(bytes) if bytes > 0 => {
                    hasher.update(&buffer[..bytes]);
                    at += bytes as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return false,
            }
        }
        hasher.digest() == *sum
    }
}

/// The fixed-size part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prologue {
    pub coding: Coding,
    pub head_bytes: u32,
    pub content_bytes: u64,
    pub content_sum: u64,
    pub id: u64,
    pub purge_seq: u64,
    pub keep_until_ms: u64,
    /// Hash of the site.
    pub site: u64,
    /// Marks that any client's requests may purge; see [`EntryHead::probes`].
    pub probes: [u64; 2],
}

impl Prologue {
    pub fn file_bytes(&self) -> u64 {
        PROLOGUE_BYTES as u64 + u64::from(self.head_bytes) + self.content_bytes
    }

    /// With the checksum over itself and the head that follows it.
    pub fn encode(&self, head: &[u8]) -> [u8; PROLOGUE_BYTES] {
        let mut out = [0; PROLOGUE_BYTES];
        out[..4].copy_from_slice(&MAGIC);
        out[4] = self.coding as u8;
        out[8..12].copy_from_slice(&self.head_bytes.to_le_bytes());
        let [one, other] = self.probes;
        let numbers = [
            self.content_bytes,
            self.content_sum,
            self.id,
            self.purge_seq,
            self.keep_until_ms,
            self.site,
            one,
            other,
        ];
        for (place, number) in out[16..SUM_AT].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let sum = sum(&out, head);
        out[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes without verifying the checksum, which needs the head.
    pub fn decode(bytes: &[u8]) -> Option<Prologue> {
        let bytes = bytes.get(..PROLOGUE_BYTES)?;
        if bytes[..4] != MAGIC {
            return None;
        }
        let number = |at: usize| {
            bytes[at..at + 8]
                .try_into()
                .map(u64::from_le_bytes)
                .unwrap_or_default()
        };
        let head_bytes = bytes[8..12].try_into().map(u32::from_le_bytes).ok()?;
        let prologue = Prologue {
            coding: Coding::from_number(bytes[4])?,
            head_bytes,
            content_bytes: number(16),
            content_sum: number(24),
            id: number(32),
            purge_seq: number(40),
            keep_until_ms: number(48),
            site: number(56),
            probes: [number(64), number(72)],
        };
        (head_bytes <= HEAD_BYTES_MAX).then_some(prologue)
    }
}

fn sum(prologue: &[u8; PROLOGUE_BYTES], head: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&prologue[..SUM_AT]);
    hasher.update(head);
    hasher.digest()
}

impl EntryHead {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        out.extend_from_slice(&self.status.to_le_bytes());
        for bytes in [&self.key, &self.site, &self.rules] {
            push(bytes, &mut out);
        }
        out.extend_from_slice(&(self.tags.len() as u32).to_le_bytes());
        self.tags.iter().for_each(|tag| push(tag, &mut out));
        out.extend_from_slice(&(self.fields.len() as u32).to_le_bytes());
        for (name, value) in &self.fields {
            push(name, &mut out);
            push(value, &mut out);
        }
        out
    }

    fn decode(bytes: &[u8], prologue: &Prologue) -> Option<EntryHead> {
        let mut rest = bytes;
        let status = u16::from_le_bytes(take(&mut rest, 2)?.try_into().ok()?);
        let (key, site, rules) = (text(&mut rest)?, text(&mut rest)?, text(&mut rest)?);
        let tags = (0..count(&mut rest)?)
            .map(|_| text(&mut rest))
            .collect::<Option<_>>()?;
        let fields = (0..count(&mut rest)?)
            .map(|_| Some((text(&mut rest)?, text(&mut rest)?)))
            .collect::<Option<_>>()?;
        let Prologue {
            keep_until_ms,
            purge_seq,
            id: began,
            probes,
            ..
        } = *prologue;
        rest.is_empty().then_some(EntryHead {
            key,
            site,
            tags,
            keep_until_ms,
            purge_seq,
            began,
            probes,
            status,
            rules,
            fields,
        })
    }
}

fn push(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn take<'b>(rest: &mut &'b [u8], bytes: usize) -> Option<&'b [u8]> {
    let (taken, left) = rest.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}

fn count(rest: &mut &[u8]) -> Option<u32> {
    take(rest, 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn text(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let length = count(rest)? as usize;
    take(rest, length).map(<[u8]>::to_vec)
}

/// Reads an entry. `None`: the file is not an entry, or damaged. Contents up to `memory_bytes_max`
/// are read and verified.
pub fn read(
    file: File,
    memory_bytes_max: u64,
) -> io::Result<Option<(Prologue, EntryHead, Content)>> {
    let mut bytes = vec![0; FIRST_READ_BYTES];
    let read = read_up_to(&file, &mut bytes, 0)?;
    bytes.truncate(read);
    let Some(prologue) = Prologue::decode(&bytes) else {
        return Ok(None);
    };
    let content_at = PROLOGUE_BYTES + prologue.head_bytes as usize;
    let in_memory = prologue.content_bytes <= memory_bytes_max;
    let wanted = content_at
        + if in_memory {
            prologue.content_bytes as usize
        } else {
            0
        };
    if wanted > bytes.len() && read == FIRST_READ_BYTES {
        bytes.resize(wanted, 0);
        let more = read_up_to(&file, &mut bytes[read..], read as u64)?;
        bytes.truncate(read + more);
    }
    let Some(head_bytes) = bytes.get(PROLOGUE_BYTES..content_at) else {
        return Ok(None);
    };
    if prologue.encode(head_bytes)[..] != bytes[..PROLOGUE_BYTES] {
        return Ok(None);
    }
    let Some(head) = EntryHead::decode(head_bytes, &prologue) else {
        return Ok(None);
    };
    if !in_memory {
        let is_whole = file.metadata()?.len() == prologue.file_bytes();
        let content = Content::File {
            file,
            offset: content_at as u64,
            length: prologue.content_bytes,
            sum: prologue.content_sum,
        };
        return Ok(is_whole.then_some((prologue, head, content)));
    }
    bytes.drain(..content_at);
    bytes.truncate(prologue.content_bytes as usize);
    let is_sound =
        bytes.len() as u64 == prologue.content_bytes && xxh3_64(&bytes) == prologue.content_sum;
    bytes.shrink_to_fit();
    Ok(is_sound.then_some((prologue, head, Content::Memory(bytes))))
}

fn read_up_to(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use saker_testkit::TempDir;

    fn head() -> EntryHead {
        EntryHead {
            key: b"http://a/".to_vec(),
            site: b"a".to_vec(),
            tags: vec![b"one".to_vec(), Vec::new()],
            keep_until_ms: 7,
            purge_seq: 3,
            began: 9,
            probes: [4, 5],
            status: 200,
            rules: vec![1, 2, 3],
            fields: vec![(b"Content-Type".to_vec(), b"text/html".to_vec())],
        }
    }

    fn file(head: &EntryHead, content: &[u8]) -> Vec<u8> {
        let encoded = head.encode();
        let prologue = Prologue {
            coding: Coding::Identity,
            head_bytes: encoded.len() as u32,
            content_bytes: content.len() as u64,
            content_sum: xxh3_64(content),
            id: 9,
            purge_seq: head.purge_seq,
            keep_until_ms: head.keep_until_ms,
            site: 1,
            probes: head.probes,
        };
        [&prologue.encode(&encoded)[..], &encoded, content].concat()
    }

    fn read_back(
        dir: &TempDir,
        bytes: &[u8],
        memory_bytes_max: u64,
    ) -> Option<(Prologue, EntryHead, Content)> {
        let path = dir.join("entry");
        std::fs::write(&path, bytes).unwrap();
        read(File::open(path).unwrap(), memory_bytes_max).unwrap()
    }

    #[test]
    fn entries_come_back() {
        let dir = TempDir::new("store-entry").unwrap();
        for length in [0, 1, 300, FIRST_READ_BYTES, FIRST_READ_BYTES * 3 + 7] {
            let content = vec![b'x'; length];
            let (prologue, found, got) =
                read_back(&dir, &file(&head(), &content), 1 << 20).unwrap();
            assert_eq!((found, prologue.id), (head(), 9));
            assert!(
                matches!(got, Content::Memory(bytes) if bytes == content),
                "{length}"
            );
        }
        let (_, found, got) = read_back(&dir, &file(&head(), b"large"), 4).unwrap();
        assert_eq!((found, got.len(), got.is_sound()), (head(), 5, true));
        let mut many = head();
        many.fields = (0..3_000)
            .map(|at| (format!("X-{at}").into_bytes(), vec![b'v'; 40]))
            .collect();
        assert_eq!(
            read_back(&dir, &file(&many, b"behind a long head"), 100)
                .unwrap()
                .1,
            many
        );
    }

    /// Any bit, anywhere.
    #[test]
    fn damage_is_noticed() {
        let dir = TempDir::new("store-damage").unwrap();
        let whole = file(&head(), b"content");
        for at in 0..whole.len() {
            // Unused bytes of the prologue are zero, and the checksum covers them.
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            assert!(read_back(&dir, &damaged, 100).is_none(), "byte {at}");
            assert!(read_back(&dir, &whole[..at], 100).is_none(), "cut at {at}");
        }
        let mut damaged = whole.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let (_, _, content) = read_back(&dir, &damaged, 0).unwrap();
        assert!(!content.is_sound());
        assert!(
            read_back(&dir, &whole[..whole.len() - 1], 0).is_none(),
            "too short for what it promises"
        );
    }

    proptest! {
        #[test]
        fn nothing_read_makes_it_stumble(bytes in proptest::collection::vec(any::<u8>(), 0..300), with_magic in any::<bool>()) {
            let dir = TempDir::new("store-any").unwrap();
            let bytes = if with_magic { [&MAGIC[..], &bytes].concat() } else { bytes };
            prop_assert!(read_back(&dir, &bytes, 1 << 20).is_none());
        }
    }
}
