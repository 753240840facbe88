//! MP4, M4A and QuickTime files (ISO/IEC 14496-12): the index (moov), and the file cut at a time.
//!
//! [`Movie::read`] finds the index wherever it is, [`cut`] makes another one for a part of the
//! presentation, before the bytes of that part.

mod atoms;
mod chunks;
mod cut;
mod edits;
mod head;
mod movie;
mod tables;
mod times;
mod writer;

pub use atoms::{Atom, Atoms};
pub use cut::{Start, cut, cut_at};
pub use movie::{Kind, Movie, Track};

pub(crate) use chunks::{Chunk, chunks, joined};
pub(crate) use head::{MDHD, MVHD, TKHD, with_duration};
pub(crate) use times::{Points, Seeker, Syncs};
pub(crate) use writer::{Width, Writer};

#[cfg(test)]
pub(crate) mod sample;
