//! Edit lists (ISO/IEC 14496-12 section 8.6.6): the start of a track's presentation.
//!
//! Out of scope: lists that reorder a track; of several edits the first non-empty one counts.

use super::{Writer, atoms::Atoms};
use crate::bytes::{be16, be32, be64};

/// Start of a track, from its edit list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    /// The time in the track, in its units, that is shown first.
    pub media_time: i64,
    /// Nothing of it is shown for so long, in the movie's units.
    pub pause: u64,
}

/// Longer than this is nonsense, and would overflow somewhere.
const TIME_MAX: u64 = 1 << 56;

impl Beginning {
    /// Parses the content of a trak box.
    pub fn read(trak: &[u8]) -> Beginning {
        let list = Atoms::find(trak, b"edts").and_then(|edts| Atoms::find(edts.payload, b"elst"));
        let Some(list) = list.map(|list| list.payload) else {
            return Beginning::default();
        };
        let is_long = list.first() == Some(&1);
        let count = usize::try_from(be32(list, 4).unwrap_or(0)).unwrap_or(0);
        let mut beginning = Beginning::default();
        for (duration, media_time) in (0..count).map_while(|entry| edit(list, is_long, entry)) {
            if media_time >= 0 {
                beginning.media_time = media_time.min(TIME_MAX.cast_signed());
                return beginning;
            }
            beginning.pause = beginning.pause.saturating_add(duration).min(TIME_MAX);
        }
        beginning
    }

    /// Writes an edts box with this start and duration (in the movie's units).
    pub fn write(&self, writer: &mut Writer, duration: u64) {
        let edits = if self.pause > 0 {
            vec![(self.pause, -1), (duration, self.media_time)]
        } else {
            vec![(duration, self.media_time)]
        };
        writer.atom(b"edts", |writer| {
            writer.full_atom(b"elst", 1, 0, |writer| {
                writer.put32(edits.len() as u32);
                for (duration, media_time) in edits {
                    writer.put64(duration);
                    writer.put64(media_time.cast_unsigned());
                    // A rate of 1.
                    writer.put16(1);
                    writer.put16(0);
                }
            });
        });
    }
}

/// Duration and time in the track; -1: nothing is shown.
fn edit(list: &[u8], is_long: bool, entry: usize) -> Option<(u64, i64)> {
    let width = if is_long { 20 } else { 12 };
    let at = entry.checked_mul(width)?.checked_add(8)?;
    be16(list, at.checked_add(width - 4)?)?;
    match is_long {
        true => Some((be64(list, at)?, be64(list, at + 8)?.cast_signed())),
        false => Some((
            be32(list, at)?.into(),
            be32(list, at + 4)?.cast_signed().into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for beginning in [
            Beginning::default(),
            Beginning {
                media_time: 1024,
                pause: 0,
            },
            Beginning {
                media_time: 7,
                pause: 500,
            },
        ] {
            let mut writer = Writer::default();
            beginning.write(&mut writer, 99);
            assert_eq!(Beginning::read(&writer.finish(0)), beginning);
        }
    }

    #[test]
    fn old_and_broken_lists() {
        let old = b"\0\0\0\x24edts\0\0\0\x1celst\0\0\0\0\0\0\0\x01\0\0\0\x63\0\0\x04\0\0\x01\0\0";
        assert_eq!(
            Beginning::read(old),
            Beginning {
                media_time: 1024,
                pause: 0
            }
        );
        let cut_off = b"\0\0\0\x20edts\0\0\0\x18elst\0\0\0\0\xff\xff\xff\xff\0\0\0\x63\0\0\x04\0";
        assert_eq!(Beginning::read(cut_off), Beginning::default());
        assert_eq!(Beginning::read(b""), Beginning::default());
    }
}
