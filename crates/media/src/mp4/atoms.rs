//! Boxes ("atoms" in QuickTime) in memory, and the outermost ones in a file (ISO/IEC 14496-12
//! section 4.2).

use crate::{
    MediaError, Source,
    bytes::{array, be32, be64},
};
use std::ops::Range;

/// Outermost boxes that are looked at; a file of many more is fragmented or no such file.
const OUTERMOST_MAX: usize = 4096;

#[derive(Clone, Copy, Debug)]
pub struct Atom<'m> {
    pub kind: [u8; 4],
    /// The whole box, including its header.
    pub whole: &'m [u8],
    pub payload: &'m [u8],
}

/// The boxes that one holds.
pub struct Atoms<'m>(&'m [u8]);

impl<'m> Atoms<'m> {
    pub fn new(payload: &'m [u8]) -> Atoms<'m> {
        Atoms(payload)
    }

    /// Returns the first box of a kind; boxes after a broken one are not found.
    pub fn find(payload: &'m [u8], kind: &[u8; 4]) -> Option<Atom<'m>> {
        Atoms(payload)
            .map_while(Result::ok)
            .find(|atom| atom.kind == *kind)
    }
}

impl<'m> Iterator for Atoms<'m> {
    type Item = Result<Atom<'m>, MediaError>;

    fn next(&mut self) -> Option<Self::Item> {
        // QuickTime ends some lists with four zero bytes.
        let (Some(size), Some(kind)) = (be32(self.0, 0), array(self.0, 4)) else {
            return None;
        };
        let (size, header) = match size {
            1 => (
                be64(self.0, 8).and_then(|size| usize::try_from(size).ok()),
                16,
            ),
            size => (usize::try_from(size).ok(), 8),
        };
        let found = size
            .filter(|size| *size >= header)
            .and_then(|size| self.0.split_at_checked(size));
        let Some((whole, rest)) = found else {
            self.0 = &[];
            return Some(Err(MediaError::Damaged(
                "a box is larger than what it is in",
            )));
        };
        self.0 = rest;
        Some(Ok(Atom {
            kind,
            whole,
            payload: whole.get(header..).unwrap_or_default(),
        }))
    }
}

/// Positions of the top-level boxes of a file.
#[derive(Debug, Default)]
pub struct Outermost {
    pub file_type: Option<Range<u64>>,
    /// Without its header.
    pub index: Option<Range<u64>>,
}

/// Finds the index by walking from box to box, without reading their content.
pub fn outermost<S: Source + ?Sized>(source: &S) -> Result<Outermost, MediaError> {
    let (length, mut at, mut found) = (source.length(), 0, Outermost::default());
    for _ in 0..OUTERMOST_MAX {
        if length - at < 8 {
            return Ok(found);
        }
        let (kind, header, size) = header(source, at, length)?;
        let end = at
            .checked_add(size)
            .filter(|end| *end <= length && size >= header);
        // A truncated last box does not affect those before it.
        let Some(end) = end else { return Ok(found) };
        match &kind {
            b"ftyp" if found.file_type.is_none() => found.file_type = Some(at..end),
            b"moov" if found.index.is_none() => found.index = Some(at + header..end),
            b"moof" => return Err(MediaError::Unsupported("it is fragmented already")),
            _ => {}
        }
        if found.index.is_some() && found.file_type.is_some() {
            return Ok(found);
        }
        at = end;
    }
    Ok(found)
}

/// Kind, bytes of the header, and bytes in all.
fn header<S: Source + ?Sized>(
    source: &S,
    at: u64,
    length: u64,
) -> Result<([u8; 4], u64, u64), MediaError> {
    let mut bytes = [0; 16];
    let there = usize::try_from(length - at).unwrap_or(16).min(16);
    source.read_at(at, bytes.get_mut(..there).unwrap_or_default())?;
    let size = be32(&bytes, 0).map_or(0, u64::from);
    let kind = array(&bytes, 4).unwrap_or_default();
    if !kind
        .iter()
        .all(|byte| (0x20..0x7f).contains(byte) || *byte == 0xa9)
    {
        return Err(MediaError::Damaged("it is no MP4 file"));
    }
    Ok(match size {
        0 => (kind, 8, length - at),
        1 => (kind, 16, be64(&bytes, 8).unwrap_or(0)),
        size => (kind, 8, size),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes() {
        let bytes = b"\0\0\0\x09abcdx\0\0\0\x01long\0\0\0\0\0\0\0\x11y\0\0\0\0";
        let atoms: Vec<_> = Atoms::new(bytes)
            .map(|atom| atom.map(|atom| (atom.kind, atom.payload.to_vec())))
            .map_while(Result::ok)
            .collect();
        assert_eq!(
            atoms,
            [(*b"abcd", b"x".to_vec()), (*b"long", b"y".to_vec())]
        );
        assert!(
            Atoms::new(b"\0\0\0\x0aabcdx")
                .next()
                .is_some_and(|atom| atom.is_err())
        );
        assert!(
            Atoms::new(b"\0\0\0\x07abcd")
                .next()
                .is_some_and(|atom| atom.is_err())
        );
        assert!(Atoms::find(bytes, b"long").is_some() && Atoms::find(bytes, b"none").is_none());
    }

    #[test]
    fn the_index_is_found_wherever_it_is() {
        let behind = b"\0\0\0\x0cftypisom\0\0\0\x0amdatxx\0\0\0\x0bmoovabc".as_slice();
        let found = outermost(behind).unwrap();
        assert_eq!((found.file_type, found.index), (Some(0..12), Some(30..33)));
        let endless = b"\0\0\0\x0cftypisom\0\0\0\0moovabc".as_slice();
        assert_eq!(outermost(endless).unwrap().index, Some(20..23));
        assert!(outermost(b"\0\0\0\x0cftypisom\0\0\0\x08moof".as_slice()).is_err());
        assert!(outermost(b"\x7fELF\x02\x01\x01\0".as_slice()).is_err());
        assert!(
            outermost(b"<html><head>".as_slice())
                .unwrap()
                .index
                .is_none()
        );
        assert!(
            outermost(b"\0\0\0\xffmdat1".as_slice())
                .unwrap()
                .index
                .is_none()
        );
    }
}
