//! Audio and video files as players ask for them: MP4 from a time on, MP4 as HLS, FLV from a byte
//! or a time on.
//!
//! Floor 2, pure: bytes come through a [`Source`], and what goes out is a list of [`Piece`]s, some
//! made here, most of them ranges of the file, which whoever asked sends without a copy.
//! Difficulty: files are hostile. Every number of a file is checked before it is used, work is
//! proportional to the bytes of the index that was read (never to what these claim), and the index
//! is bounded. Absent on purpose: decoding, transcoding, encrypted files, and files that are
//! fragmented already.

mod bytes;
pub mod flv;
pub mod hls;
pub mod mp4;
mod spans;
pub mod work;

use std::{fmt, io, ops::Range};

/// Where the bytes of a file come from.
pub trait Source {
    fn length(&self) -> u64;

    /// Fills `into` with what is there from `at` on; less is an error.
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

/// A run of what goes out.
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

/// Why there is nothing to send.
#[derive(Debug)]
pub enum Fault {
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
    /// The file ends before the time that was asked for, or has no such fragment.
    Beyond,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Read(error) => write!(f, "{error}"),
            Fault::Damaged(what) => write!(f, "damaged: {what}"),
            Fault::Unsupported(what) => f.write_str(what),
            Fault::IndexTooLarge { bytes, bytes_max } => {
                write!(
                    f,
                    "its index (moov) has {bytes} bytes, and {bytes_max} are allowed (`media_index_max`)"
                )
            }
            Fault::Beyond => f.write_str("it ends before"),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Read(error)
    }
}

/// A part of a presentation, in milliseconds; no end: to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub start_ms: u64,
    pub end_ms: Option<u64>,
}
