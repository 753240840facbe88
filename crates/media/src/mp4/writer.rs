//! Boxes, written. Their sizes are filled in when they are closed; offsets that depend on the
//! length of everything, at the end.

use crate::bytes::{be32, be64, put};

#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    /// Lists of offsets that count from the first byte after the output: position, length, and
    /// width.
    offsets: Vec<(usize, usize, Width)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    Four,
    Eight,
}

impl Writer {
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn put16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    pub fn put32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    pub fn put64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }

    /// A box with what `fill` writes.
    pub fn atom<T>(&mut self, kind: &[u8; 4], fill: impl FnOnce(&mut Writer) -> T) -> T {
        let at = self.len();
        self.put32(0);
        self.put(kind);
        let value = fill(self);
        self.set_count(at, self.len() - at);
        value
    }

    /// A box with a version and flags (section 4.2.2 of ISO/IEC 14496-12).
    pub fn full_atom<T>(
        &mut self,
        kind: &[u8; 4],
        version: u8,
        flags: u32,
        fill: impl FnOnce(&mut Writer) -> T,
    ) -> T {
        self.atom(kind, |writer| {
            writer.put32(u32::from(version) << 24 | flags & 0x00ff_ffff);
            fill(writer)
        })
    }

    /// Overwrites a number of four bytes.
    pub fn set_count(&mut self, at: usize, count: usize) {
        put(
            &mut self.bytes,
            at,
            &u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes(),
        );
    }

    /// Notes that the following `count` numbers count from the end of the output.
    pub fn offsets_follow(&mut self, count: usize, width: Width) {
        self.offsets.push((self.len(), count, width));
    }

    /// Returns the output. `between` is the distance from its end to the bytes that offsets count
    /// from.
    pub fn finish(mut self, between: u64) -> Vec<u8> {
        let base = self.bytes.len() as u64 + between;
        for (from, count, width) in std::mem::take(&mut self.offsets) {
            for number in 0..count {
                self.shift(from, number, width, base);
            }
        }
        self.bytes
    }

    fn shift(&mut self, from: usize, number: usize, width: Width, base: u64) {
        match width {
            Width::Four => {
                let at = from + number * 4;
                let value = be32(&self.bytes, at).map_or(0, u64::from) + base;
                put(
                    &mut self.bytes,
                    at,
                    &u32::try_from(value).unwrap_or(u32::MAX).to_be_bytes(),
                );
            }
            Width::Eight => {
                let at = from + number * 8;
                let value = be64(&self.bytes, at).unwrap_or(0) + base;
                put(&mut self.bytes, at, &value.to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_offsets() {
        let mut writer = Writer::default();
        writer.atom(b"abcd", |writer| {
            writer.full_atom(b"stco", 1, 2, |writer| {
                writer.offsets_follow(1, Width::Four);
                writer.put32(7);
                writer.offsets_follow(1, Width::Eight);
                writer.put64(8);
            });
        });
        let bytes = writer.finish(10);
        assert_eq!(
            bytes,
            b"\0\0\0\x20abcd\0\0\0\x18stco\x01\0\0\x02\0\0\0\x31\0\0\0\0\0\0\0\x32"
        );
    }
}
