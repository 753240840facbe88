//! The file's own metadata (onMetaData, E.5): its duration and key frames. A reader of AMF 0
//! (Action Message Format), as far as it is used there.
//!
//! Caveat: values nest, and a hostile file nests them without end; so depth and number are limited,
//! and an unknown value ends the parsing.

use crate::bytes::{array, be16, be32};

/// Objects in objects.
const DEPTH_MAX: usize = 8;

#[derive(Debug, Default, PartialEq)]
pub struct Metadata {
    pub duration_s: Option<f64>,
    pub times_s: Vec<f64>,
    pub positions: Vec<f64>,
}

/// Parses the content of a script tag.
pub fn read(content: &[u8]) -> Option<Metadata> {
    let mut reader = Reader { rest: content };
    if reader.byte()? != 2 || reader.name()? != b"onMetaData" {
        return None;
    }
    let mut metadata = Metadata::default();
    reader.value(b"", DEPTH_MAX, &mut metadata)?;
    Some(metadata)
}

struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn name(&mut self) -> Option<&'b [u8]> {
        let length = be16(self.take(2)?, 0)?;
        self.take(length.into())
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(be32(self.take(4)?, 0)?).ok()
    }

    fn number(&mut self) -> Option<f64> {
        array(self.take(8)?, 0).map(f64::from_be_bytes)
    }

    /// Reads one value; `name` is its key.
    fn value(&mut self, name: &[u8], depth: usize, into: &mut Metadata) -> Option<()> {
        match self.byte()? {
            0 => {
                let number = self.number()?;
                if name == b"duration" {
                    into.duration_s = Some(number);
                }
            }
            1 => drop(self.byte()?),
            2 => drop(self.name()?),
            3 => self.members(depth.checked_sub(1)?, into)?,
            5 | 6 => {}
            8 => {
                self.count()?;
                self.members(depth.checked_sub(1)?, into)?;
            }
            10 => self.list(name, depth.checked_sub(1)?, into)?,
            11 => drop(self.take(10)?),
            12 => {
                let length = self.count()?;
                self.take(length)?;
            }
            _ => return None,
        }
        Some(())
    }

    /// Up to the mark at their end. Files without it end where their bytes do.
    fn members(&mut self, depth: usize, into: &mut Metadata) -> Option<()> {
        while !self.rest.is_empty() {
            let name = self.name()?;
            if name.is_empty() && self.rest.first() == Some(&9) {
                self.byte()?;
                return Some(());
            }
            self.value(name, depth, into)?;
        }
        Some(())
    }

    fn list(&mut self, name: &[u8], depth: usize, into: &mut Metadata) -> Option<()> {
        let count = self.count()?;
        for _ in 0..count {
            if self.rest.first() == Some(&0) && matches!(name, b"times" | b"filepositions") {
                self.byte()?;
                let number = self.number()?;
                if name == b"times" {
                    into.times_s.push(number)
                } else {
                    into.positions.push(number)
                }
            } else {
                self.value(b"", depth, into)?;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: f64) -> Vec<u8> {
        [&[0][..], &value.to_be_bytes()].concat()
    }

    #[test]
    fn durations_and_key_frames() {
        let list = |name: &[u8], values: &[f64]| {
            let values: Vec<u8> = values.iter().flat_map(|value| number(*value)).collect();
            [
                &(name.len() as u16).to_be_bytes()[..],
                name,
                b"\x0a\0\0\0\x02",
                &values,
            ]
            .concat()
        };
        let bytes = [
            b"\x02\0\x0aonMetaData\x08\0\0\0\x02\0\x08duration".as_slice(),
            &number(12.5),
            b"\0\x01x\x02\0\x01y\0\x09keyframes\x03",
            &list(b"times", &[0.0, 2.0]),
            &list(b"filepositions", &[100.0, 900.0]),
            b"\0\0\x09\0\0\x09",
        ]
        .concat();
        let expected = Metadata {
            duration_s: Some(12.5),
            times_s: vec![0.0, 2.0],
            positions: vec![100.0, 900.0],
        };
        assert_eq!(read(&bytes), Some(expected));
        for end in 0..bytes.len() {
            let _ = read(&bytes[..end]);
        }
    }

    #[test]
    fn what_nests_without_end_is_refused() {
        let bytes = [
            b"\x02\0\x0aonMetaData".as_slice(),
            &b"\x03\0\x01a".repeat(1000),
        ]
        .concat();
        assert_eq!(read(&bytes), None);
        assert_eq!(read(b"\x02\0\x0aonMetaData\x0a\xff\xff\xff\xff"), None);
    }
}
