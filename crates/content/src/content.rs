//! Content of a response: in memory when small, an open file when large.
//!
//! Called by: static files and the page cache.
//! Caveat: a file may be written to while it is read. Content in memory was read between two equal
//! looks at the file's metadata and never changes; an open file carries a [`FileCheck`], and a
//! connection whose check fails is closed.
//! Out of scope: choosing the file.

use saker_files::{Metadata, is_settled, read_consistent};
use saker_pipeline::{Body, Chunk, FilePart, StillValid};
use std::{
    collections::VecDeque,
    fs::File,
    ops::Range,
    os::unix::fs::FileExt,
    rc::Rc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Attempts to read a file that is being written to; then it is sent but not kept.
const SETTLE_ATTEMPTS_MAX: u32 = 10;
const SETTLE_PAUSE: Duration = Duration::from_millis(25);

pub enum Content {
    Memory(Chunk),
    /// The file from `offset` on. `check` is set if the file may be written to in the meantime.
    File {
        file: Rc<File>,
        offset: u64,
        length: u64,
        check: Option<Rc<dyn StillValid>>,
    },
    /// A sequence of contents, none of them a list; `length` of all.
    List {
        parts: Rc<[Content]>,
        length: u64,
    },
}

impl Content {
    /// A whole open file with this metadata.
    pub fn open(file: File, metadata: Metadata) -> Content {
        from_file(file, metadata)
    }

    pub fn list(parts: Vec<Content>) -> Content {
        let length = parts.iter().map(Content::length).sum();
        Content::List {
            parts: parts.into(),
            length,
        }
    }

    /// A range of an open file as content of its own; `None`: no open file, or out of range.
    pub fn section(&self, range: &Range<u64>) -> Option<Content> {
        let Content::File {
            file,
            offset,
            length,
            check,
        } = self
        else {
            return None;
        };
        let fits = range.start <= range.end && range.end <= *length;
        fits.then(|| Content::File {
            file: Rc::clone(file),
            offset: offset + range.start,
            length: range.end - range.start,
            check: check.clone(),
        })
    }

    pub fn length(&self) -> u64 {
        match self {
            Content::Memory(chunk) => chunk.len() as u64,
            Content::File { length, .. } | Content::List { length, .. } => *length,
        }
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Content::Memory(chunk) => chunk.len(),
            Content::File { .. } => size_of::<FileCheck>(),
            Content::List { parts, .. } => parts
                .iter()
                .map(|part| part.memory_bytes() + size_of::<Content>())
                .sum(),
        }
    }

    /// Open files that it holds.
    pub fn descriptors(&self) -> usize {
        match self {
            Content::Memory(_) => 0,
            Content::File { .. } => 1,
            // All parts belong to one file.
            Content::List { parts, .. } => {
                parts.iter().map(Content::descriptors).max().unwrap_or(0)
            }
        }
    }

    pub fn whole(&self) -> Body {
        match self {
            Content::Memory(chunk) => Body::Memory(chunk.clone()),
            Content::File { length, .. } | Content::List { length, .. } => self.part(0..*length),
        }
    }

    /// A function for another thread that reads the bytes, for content that does not change.
    pub fn reader(&self) -> Option<impl FnOnce() -> Option<Vec<u8>> + Send + 'static> {
        let (data, file) = match self {
            Content::Memory(chunk) => (Some(chunk.bytes().to_vec()), None),
            Content::File {
                file,
                offset,
                length,
                ..
            } => (None, Some((file.try_clone().ok()?, *offset, *length))),
            Content::List { .. } => return None,
        };
        Some(move || match (data, file) {
            (Some(data), _) => Some(data),
            (None, Some((file, offset, length))) => {
                let mut bytes = vec![0; usize::try_from(length).ok()?];
                file.read_exact_at(&mut bytes, offset).ok().map(|()| bytes)
            }
            (None, None) => None,
        })
    }

    /// `range` must lie within [`Content::length`].
    pub fn part(&self, range: Range<u64>) -> Body {
        match self {
            Content::Memory(chunk) => {
                Body::Memory(chunk.slice(range.start as usize..range.end as usize))
            }
            Content::File {
                file,
                offset,
                check,
                ..
            } => Body::File(FilePart {
                file: Rc::clone(file),
                offset: offset + range.start,
                length: range.end - range.start,
                check: check.clone(),
            }),
            Content::List { parts, .. } => Body::Parts(within(parts, range)),
        }
    }
}

/// The pieces of each part that lie in a range.
fn within(parts: &[Content], range: Range<u64>) -> VecDeque<Body> {
    let mut at = 0;
    let mut bodies = VecDeque::new();
    for part in parts {
        let (from, to) = (
            range.start.clamp(at, at + part.length()),
            range.end.clamp(at, at + part.length()),
        );
        if from < to {
            bodies.push_back(part.part(from - at..to - at));
        }
        at += part.length();
    }
    bodies
}

/// Content, and the file's metadata when it was read.
pub struct Loaded {
    pub content: Content,
    pub metadata: Metadata,
    /// The file was not being written to: the content may be kept.
    pub settled: bool,
}

/// Reads the content of an open regular file. Waits a little for one that is being written to.
pub async fn load(
    file: File,
    metadata: Metadata,
    memory_bytes_max: u64,
) -> std::io::Result<Loaded> {
    let mut metadata = metadata;
    for _ in 0..SETTLE_ATTEMPTS_MAX {
        if metadata.size > memory_bytes_max {
            return Ok(Loaded {
                content: from_file(file, metadata),
                metadata,
                settled: true,
            });
        }
        if is_settled(&metadata, now_ms())
            && let Some(data) = read_consistent(&file, &metadata, memory_bytes_max)?
        {
            return Ok(Loaded {
                content: Content::Memory(Chunk::new(data.into())),
                metadata,
                settled: true,
            });
        }
        tokio::time::sleep(SETTLE_PAUSE).await;
        metadata = saker_files::metadata(&file)?;
    }
    Ok(Loaded {
        content: from_file(file, metadata),
        metadata,
        settled: false,
    })
}

fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        })
}

fn from_file(file: File, metadata: Metadata) -> Content {
    let file = Rc::new(file);
    let check = FileCheck {
        file: Rc::clone(&file),
        metadata,
    };
    Content::File {
        file,
        offset: 0,
        length: metadata.size,
        check: Some(Rc::new(check)),
    }
}

/// Compares an open file with its earlier metadata: size and modification time only. The change
/// time also moves when the file is renamed, linked or replaced, which leaves the bytes behind the
/// descriptor unchanged.
struct FileCheck {
    file: Rc<File>,
    metadata: Metadata,
}

impl StillValid for FileCheck {
    fn still_valid(&self) -> bool {
        let same = |now: Metadata| {
            let was = &self.metadata;
            (now.size, now.mtime_s, now.mtime_ns) == (was.size, was.mtime_s, was.mtime_ns)
        };
        saker_files::metadata(&self.file).is_ok_and(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(body: &Body) -> Vec<u8> {
        match body {
            Body::Empty => Vec::new(),
            Body::Memory(chunk) => chunk.bytes().to_vec(),
            Body::Parts(parts) => parts.iter().flat_map(bytes).collect(),
            Body::File(_) | Body::Stream(_) => panic!("the test has memory only"),
        }
    }

    #[test]
    fn ranges_of_lists() {
        let memory = |text: &[u8]| Content::Memory(Chunk::from(text.to_vec()));
        let list = Content::list(vec![
            memory(b"abc"),
            memory(b""),
            memory(b"defg"),
            memory(b"h"),
        ]);
        assert_eq!((list.length(), list.descriptors()), (8, 0));
        for from in 0..=8 {
            for to in from..=8 {
                let part = list.part(from..to);
                assert_eq!(part.length(), Some(to - from));
                assert_eq!(
                    bytes(&part),
                    b"abcdefgh"[from as usize..to as usize],
                    "{from} {to}"
                );
            }
        }
    }
}
