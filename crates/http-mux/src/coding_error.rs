//! Why a coded integer or string can't be read.

/// HPACK and QPACK have errors of their own, which these become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodingError {
    /// The input ends within it.
    Truncated,
    /// More than the reader takes, or spread over more bytes than such a one needs (RFC 7541
    /// section 5.1).
    IntegerTooLarge,
    /// The code of EOS within a string (RFC 7541 section 5.2).
    HuffmanEndOfString,
    /// Padding of more than 7 bits, or not the beginning of EOS (RFC 7541 section 5.2).
    HuffmanPadding,
}
