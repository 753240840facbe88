//! Byte ranges (RFC 9110 section 14).

/// First and last byte position, both inclusive, within the representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    pub first: u64,
    pub last: u64,
}

impl ByteRange {
    pub fn len(self) -> u64 {
        self.last - self.first + 1
    }

    pub fn is_empty(self) -> bool {
        false
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeOutcome {
    /// No usable Range: answer 200 with everything (unknown unit, bad syntax, more than `parts_max` parts, or parts that overlap so
    /// that they add up to more than the whole: RFC 9110 section 14.2 lets a server ignore those).
    Whole,
    One(ByteRange),
    /// Two or more, in the order asked, overlapping or adjacent ones joined.
    Many(Vec<ByteRange>),
    /// Answer 416 with `Content-Range: bytes */length`.
    Unsatisfiable,
}

/// Resolves a Range field value against a length.
pub fn resolve(_value: &[u8], _length: u64, _parts_max: usize) -> RangeOutcome {
    unimplemented!()
}
