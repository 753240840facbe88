//! Shared parts of the fuzz targets: the places at which an input cuts its bytes.
//!
//! Each target is one file in `fuzz_targets` that states a property, and has its first inputs in
//! `seeds` or from `seed.sh`.

use arbitrary::Unstructured;

/// Knobs in front, and the bytes that the property is about. Inputs too short for their knobs are
/// none.
pub struct Input<'a> {
    unstructured: Unstructured<'a>,
}

impl<'a> Input<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Input {
            unstructured: Unstructured::new(data),
        }
    }

    pub fn byte(&mut self) -> Option<u8> {
        self.number::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.number().map(u16::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.number().map(u64::from_le_bytes)
    }

    pub fn rest(self) -> &'a [u8] {
        self.unstructured.take_rest()
    }

    fn number<const N: usize>(&mut self) -> Option<[u8; N]> {
        (self.unstructured.len() >= N).then(|| self.unstructured.arbitrary().ok())?
    }
}

/// Cuts `bytes` into pieces whose sizes follow from `knob` alone: 0 leaves them whole, 1 cuts at
/// every byte, others mix.
pub fn cut(bytes: &[u8], knob: u16) -> Vec<&[u8]> {
    let mut state = u32::from(knob).wrapping_mul(0x9e37_79b9) | 1;
    let (mut rest, mut pieces) = (bytes, Vec::new());
    while !rest.is_empty() {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let size = match knob {
            0 => rest.len(),
            1 => 1,
            knob => 1 + state as usize % (1 + usize::from(knob & 63)),
        };
        let (piece, next) = rest.split_at(size.min(rest.len()));
        pieces.push(piece);
        rest = next;
    }
    pieces
}

/// Lines of a head as anyone reads them who knows CRLF and the colon only: lower-case names, values
/// without white space around.
pub fn plain_field_lines(head: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let head = head.strip_prefix(b"\r\n").unwrap_or(head);
    let mut lines = Vec::new();
    for line in head.split(|byte| *byte == b'\n').skip(1) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(colon) = line.iter().position(|byte| *byte == b':') {
            lines.push((
                line[..colon].to_ascii_lowercase(),
                line[colon + 1..].trim_ascii().to_vec(),
            ));
        }
    }
    lines
}
