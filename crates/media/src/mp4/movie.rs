//! The index of a file, read into memory once and looked at where it lies.

use super::{
    Atoms, MDHD, MVHD, TKHD,
    atoms::{Atom, outermost},
    edits::Beginning,
    tables::Tables,
};
use crate::{MediaError, Source, bytes::scale};
use std::ops::Range;

/// Maximum size of a file type box.
const FILE_TYPE_BYTES_MAX: u64 = 4096;
/// Maximum number of tracks; no player uses more.
const TRACKS_MAX: usize = 64;
/// Maximum pause; larger values leave no room for later times.
const TIME_MAX: i64 = 1 << 60;

/// A parsed file.
#[derive(Clone, Debug)]
pub struct Movie {
    /// The ftyp box, with its header; empty where the file has none.
    pub file_type: Vec<u8>,
    /// Content of moov.
    index: Vec<u8>,
    pub file_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Video,
    Audio,
    Other,
}

/// The index, taken apart.
#[derive(Debug)]
pub struct View<'m> {
    /// Content of moov.
    pub index: &'m [u8],
    pub timescale: u32,
    pub tracks: Vec<Track<'m>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Track<'m> {
    /// Content of trak.
    pub whole: &'m [u8],
    pub kind: Kind,
    pub number: u32,
    /// Units per second.
    pub timescale: u32,
    /// Its stsd box.
    pub entries: Atom<'m>,
    pub beginning: Beginning,
    /// The pause at its beginning, in its own units.
    pub pause: i64,
    pub tables: Tables<'m>,
}

impl Movie {
    /// Reads the index, wherever it is, and looks whether it is sound.
    pub fn read<S: Source + ?Sized>(source: &S, index_bytes_max: u64) -> Result<Movie, MediaError> {
        let found = outermost(source)?;
        let index = found
            .index
            .ok_or(MediaError::Damaged("it has no index (moov)"))?;
        let bytes = index.end - index.start;
        if bytes > index_bytes_max {
            return Err(MediaError::IndexTooLarge {
                bytes,
                bytes_max: index_bytes_max,
            });
        }
        let file_type = found
            .file_type
            .filter(|range| range.end - range.start <= FILE_TYPE_BYTES_MAX);
        let movie = Movie {
            file_type: file_type
                .map(|range| read(source, range))
                .transpose()?
                .unwrap_or_default(),
            index: read(source, index)?,
            file_bytes: source.length(),
        };
        movie.view()?;
        Ok(movie)
    }

    pub fn view(&self) -> Result<View<'_>, MediaError> {
        let index = &*self.index;
        let mvhd = Atoms::find(index, b"mvhd")
            .ok_or(MediaError::Damaged("its index has no head (mvhd)"))?;
        if Atoms::find(index, b"mvex").is_some() {
            return Err(MediaError::Unsupported("it is fragmented already"));
        }
        let timescale = MVHD.number(mvhd.payload)?;
        let mut tracks = Vec::new();
        for atom in Atoms::new(index) {
            let atom = atom?;
            if atom.kind == *b"trak" && tracks.len() <= TRACKS_MAX {
                tracks.push(Track::read(atom.payload, timescale)?);
            }
        }
        if tracks.is_empty() || tracks.len() > TRACKS_MAX {
            return Err(MediaError::Unsupported("it has no tracks, or too many"));
        }
        Ok(View {
            index,
            timescale,
            tracks,
        })
    }

    /// Duration of the presentation; at least one millisecond.
    pub fn duration_ms(&self) -> Result<u64, MediaError> {
        let view = self.view()?;
        let longest = view
            .tracks
            .iter()
            .map(|track| scale(track.end(), 1000, track.timescale))
            .max()
            .unwrap_or(0);
        Ok(u64::try_from(longest).unwrap_or(0).max(1))
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        self.index.len() + self.file_type.len()
    }
}

impl<'m> View<'m> {
    /// The track by which the others go: the first with pictures, or else with sound.
    pub fn lead(&self) -> Option<usize> {
        let of = |kind: Kind| {
            self.tracks
                .iter()
                .position(|track| track.kind == kind && track.tables.samples > 0)
        };
        of(Kind::Video).or_else(|| of(Kind::Audio)).or_else(|| {
            self.tracks
                .iter()
                .position(|track| track.tables.samples > 0)
        })
    }
}

impl<'m> Track<'m> {
    fn read(whole: &'m [u8], movie_timescale: u32) -> Result<Track<'m>, MediaError> {
        let find = |payload: &'m [u8], kind: &[u8; 4]| {
            Atoms::find(payload, kind).ok_or(MediaError::Damaged("a track lacks a box"))
        };
        let mdia = find(whole, b"mdia")?.payload;
        let handler = find(mdia, b"hdlr")?.payload.get(8..12).unwrap_or_default();
        let stbl = find(find(mdia, b"minf")?.payload, b"stbl")?.payload;
        let timescale = MDHD.number(find(mdia, b"mdhd")?.payload)?;
        if timescale == 0 {
            return Err(MediaError::Damaged("a track has no unit of time"));
        }
        let beginning = Beginning::read(whole);
        let pause = scale(beginning.pause.cast_signed(), timescale, movie_timescale);
        if pause > TIME_MAX {
            return Err(MediaError::Damaged(
                "a track is longer than time can be counted",
            ));
        }
        Ok(Track {
            whole,
            kind: match handler {
                b"vide" => Kind::Video,
                b"soun" => Kind::Audio,
                _ => Kind::Other,
            },
            number: TKHD.number(find(whole, b"tkhd")?.payload)?,
            timescale,
            entries: find(stbl, b"stsd")?,
            beginning,
            pause,
            tables: Tables::read(stbl)?,
        })
    }

    /// Converts a presentation time to the track's own time, as in its tables.
    pub fn own_time(&self, shown: i64) -> i64 {
        shown
            .saturating_sub(self.pause)
            .saturating_add(self.beginning.media_time)
    }

    /// Converts a time of the track's tables to presentation time.
    pub fn shown_time(&self, own: i64) -> i64 {
        own.saturating_sub(self.beginning.media_time)
            .saturating_add(self.pause)
    }

    /// End of the track, in presentation time.
    pub fn end(&self) -> i64 {
        if self.tables.samples == 0 {
            0
        } else {
            self.shown_time(self.tables.shown_end()).max(0)
        }
    }
}

fn read<S: Source + ?Sized>(source: &S, range: Range<u64>) -> Result<Vec<u8>, MediaError> {
    let length = usize::try_from(range.end - range.start)
        .map_err(|_| MediaError::Damaged("a box is larger than memory"))?;
    let mut bytes = vec![0; length];
    source.read_at(range.start, &mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mp4::sample::file;

    #[test]
    fn the_index_is_read_up_to_its_limit() {
        let file = file(50, 200);
        let movie = Movie::read(file.as_slice(), 1 << 20).unwrap();
        let (view, bytes) = (movie.view().unwrap(), movie.index.len() as u64);
        let track = &view.tracks[0];
        assert_eq!(
            (
                view.timescale,
                track.kind,
                track.timescale,
                track.number,
                track.tables.samples
            ),
            (1000, Kind::Video, 1000, 1, 50)
        );
        assert_eq!(
            (
                track.beginning.media_time,
                movie.duration_ms().unwrap(),
                view.lead()
            ),
            (200, 5000, Some(0))
        );
        assert!(Movie::read(file.as_slice(), bytes).is_ok());
        assert!(matches!(
            Movie::read(file.as_slice(), bytes - 1),
            Err(MediaError::IndexTooLarge { .. })
        ));
    }

    #[test]
    fn no_cut_off_file_is_a_panic() {
        let whole = file(50, 200);
        for end in 0..whole.len() {
            let _ = Movie::read(&whole[..end], 1 << 20).and_then(|movie| movie.duration_ms());
        }
    }
}
