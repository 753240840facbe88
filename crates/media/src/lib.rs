//! Audio and video files for players: MP4 from a start time, MP4 as HLS, FLV from a byte or a time.
//!
//! Called by: `static-files`. Pure: bytes come through a [`Source`]; the output is a list of
//! [`Piece`]s, some generated, most of them ranges of the file, which the caller sends without a
//! copy.
//! Caveat: files are hostile. Every number of a file is checked before use, work is proportional to
//! the bytes of the index that was read (never to the counts it claims), and the size of the index
//! is limited.
//! Out of scope: decoding, transcoding, encrypted files, and fragmented files.

mod bytes;
pub mod flv;
pub mod hls;
pub mod mp4;
mod spans;
pub mod work;

use std::{fmt, io, ops::Range};

/// Random access to the bytes of a file.
pub trait Source {
    fn length(&self) -> u64;

    /// Fills `into` with the bytes from `at` on; fewer bytes are an error.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
}

impl Source for [u8] {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(at).unwrap_or(usize::MAX);
        let found = from
            .checked_add(into.len())
            .and_then(|end| self.get(from..end));
        into.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A part of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Memory(Vec<u8>),
    /// Bytes of the file, as they are there.
    File(Range<u64>),
}

impl Piece {
    pub fn length(&self) -> u64 {
        match self {
            Piece::Memory(bytes) => bytes.len() as u64,
            Piece::File(range) => range.end.saturating_sub(range.start),
        }
    }
}

/// Reason why there is nothing to send.
#[derive(Debug)]
pub enum MediaError {
    Read(io::Error),
    /// The file contradicts itself or its format.
    Damaged(&'static str),
    /// It is sound, as far as one sees, and not for us.
    Unsupported(&'static str),
    /// The index takes more bytes than are allowed.
    IndexTooLarge {
        bytes: u64,
        bytes_max: u64,
    },
    /// The file ends before the requested time, or has no such fragment.
    Beyond,
}

impl fmt::Display for MediaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MediaError::Read(error) => write!(f, "{error}"),
            MediaError::Damaged(what) => write!(f, "damaged: {what}"),
            MediaError::Unsupported(what) => f.write_str(what),
            MediaError::IndexTooLarge { bytes, bytes_max } => {
                write!(
                    f,
                    "its index (moov) has {bytes} bytes, and {bytes_max} are allowed (`media_index_max`)"
                )
            }
            MediaError::Beyond => f.write_str("it ends before"),
        }
    }
}

impl From<io::Error> for MediaError {
    fn from(error: io::Error) -> MediaError {
        MediaError::Read(error)
    }
}

/// A part of a presentation, in milliseconds; no end: to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub start_ms: u64,
    pub end_ms: Option<u64>,
}
