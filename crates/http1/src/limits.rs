//! Limits on request heads and on the framing of chunked bodies.
//!
//! Called by: the parsers, which refuse what is beyond them.
//! Out of scope: limits on response heads of servers, which `client` has.

/// The longest method that is looked at (RFC 9112 section 3: longer than any that is implemented is
/// 501).
pub const METHOD_BYTES_MAX: usize = 64;

/// Limits on a request head. Beyond `head_bytes_max`, `header_count_max` and `field_bytes_max`
/// the answer is 431, beyond `target_bytes_max` 414.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// From the first byte of the request line to the empty line, both included. At most 1 GiB
    /// counts.
    pub head_bytes_max: usize,
    /// Field lines. At most 65535 count.
    pub header_count_max: usize,
    pub target_bytes_max: usize,
    /// Name and value of one field line together. The lines of one name have less than that
    /// together.
    pub field_bytes_max: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        RequestLimits {
            head_bytes_max: 32 * 1024,
            header_count_max: 100,
            target_bytes_max: 8 * 1024,
            field_bytes_max: usize::MAX,
        }
    }
}

impl RequestLimits {
    /// Spans are 32 bits wide.
    pub(crate) fn head_bytes_cap(&self) -> usize {
        self.head_bytes_max.min(1 << 30)
    }

    /// The index numbers its lines in 16 bits.
    pub(crate) fn header_count_cap(&self) -> usize {
        self.header_count_max.min(usize::from(u16::MAX))
    }
}

/// Limits on the framing of one chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLimits {
    /// Extension bytes on one chunk's line.
    pub line_extension_bytes_max: usize,
    /// By how many bytes all extensions of a body may exceed its content so far.
    pub extension_bytes_max: u64,
    pub trailer_bytes_max: usize,
    pub trailer_count_max: usize,
    /// Name and value of one trailer line together.
    pub trailer_line_bytes_max: usize,
}

impl Default for ChunkLimits {
    fn default() -> Self {
        ChunkLimits {
            line_extension_bytes_max: 4096,
            extension_bytes_max: 16 * 1024,
            trailer_bytes_max: 8192,
            trailer_count_max: 64,
            trailer_line_bytes_max: usize::MAX,
        }
    }
}
