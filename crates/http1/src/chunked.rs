//! The chunked transfer coding, both ways (RFC 9112 section 7.1).
//!
//! Decoding copies nothing: the decoder is shown bytes and says which of them are content. It keeps
//! no input back, so the caller may drop what was shown and need not bring a line together.
//!
//! The one difficulty is that a sender can make framing cost more than content: endless extensions
//! on one-byte chunks, or endless trailers. Extension bytes are therefore paid for by content bytes
//! beyond a fixed allowance, and trailers are bounded.

use saker_http::Fields;

pub use crate::limits::ChunkLimits;
use crate::octets;
use crate::reject::{Reject, RejectReason};
use crate::response::append_field;
use crate::trailers::{Step, TrailerSection, is_forbidden_trailer};

/// Line end behind the data of each chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// A `u64` has no more.
const SIZE_DIGITS_MAX: u8 = 16;

/// Result of showing bytes to the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// All of them were framing and are used up.
    NeedMore,
    /// Content is `input[consumed_before..consumed_before + len]`, `len` at least 1. Go on with
    /// what follows it.
    Data { consumed_before: usize, len: usize },
    /// The body ended; the next request begins at `input[consumed..]`.
    End { consumed: usize },
}

/// Decoder of one body.
#[derive(Clone, Debug, Default)]
pub struct ChunkedDecoder {
    state: State,
    limits: ChunkLimits,
    /// Size of the chunk while its line is read, then what is left of its data.
    left: u64,
    digits: u8,
    line_extension_bytes: usize,
    /// Extension bytes not yet paid for by content.
    extension_debt: u64,
    /// Line ends of other servers are accepted.
    is_of_response: bool,
    /// A line did not end as it should.
    was_lenient: bool,
    /// The last byte of the trailers was CR.
    is_behind_return: bool,
    trailers: TrailerSection,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Size,
    /// White space after the size, which only an extension may follow (BWS of RFC 9112 section
    /// 7.1.1).
    SizeSpace,
    Extension,
    Quoted,
    QuotedPair,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    Trailers,
    Done,
}

impl ChunkedDecoder {
    pub fn new(limits: ChunkLimits) -> Self {
        ChunkedDecoder {
            limits,
            ..ChunkedDecoder::default()
        }
    }

    /// Decoder of a response's body: blanks behind a size, and lines that end with a bare LF, are
    /// accepted, as in Apache and nginx. The sender alone decides how its content is read.
    pub fn of_response(limits: ChunkLimits) -> Self {
        ChunkedDecoder {
            is_of_response: true,
            ..ChunkedDecoder::new(limits)
        }
    }

    /// True if a line did not end as it should: the connection is not to be used again.
    pub fn was_lenient(&self) -> bool {
        self.was_lenient
    }

    /// Shows the next bytes. After [`Decoded::Data`] call again with the bytes behind the content,
    /// after [`Decoded::NeedMore`] with bytes not seen yet, after [`Decoded::End`] not at all.
    /// After an error the body is lost and so is the connection.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, Reject> {
        let mut at = 0;
        while let Some(&byte) = input.get(at) {
            match self.state {
                State::Done => return Ok(Decoded::End { consumed: at }),
                State::Data => return Ok(self.data(at, input.len() - at)),
                _ => self.state = self.step(byte)?,
            }
            at += 1;
        }
        match self.state {
            State::Done => Ok(Decoded::End { consumed: at }),
            _ => Ok(Decoded::NeedMore),
        }
    }

    /// Bytes of content that the chunk whose size has been read still has.
    pub fn chunk_left(&self) -> u64 {
        match self.state {
            State::Data => self.left,
            _ => 0,
        }
    }

    /// True if the whole body with its trailers was read.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Trailers read so far, without those that RFC 9110 section 6.5.1 forbids.
    pub fn trailers(&self) -> &Fields {
        self.trailers.fields()
    }

    pub fn into_trailers(self) -> Fields {
        self.trailers.into_fields()
    }

    fn data(&mut self, consumed_before: usize, available: usize) -> Decoded {
        let len = usize::try_from(self.left).map_or(available, |left| left.min(available));
        self.left -= len as u64;
        self.extension_debt = self.extension_debt.saturating_sub(len as u64);
        if self.left == 0 {
            self.state = State::DataReturn;
        }
        Decoded::Data {
            consumed_before,
            len,
        }
    }

    /// One byte of framing.
    fn step(&mut self, byte: u8) -> Result<State, RejectReason> {
        match self.state {
            State::Size => self.size(byte),
            State::SizeSpace => match byte {
                b' ' | b'\t' => self.pay_extension(State::SizeSpace),
                b';' => self.pay_extension(State::Extension),
                b'\r' if self.is_of_response => {
                    self.was_lenient = true;
                    Ok(State::SizeLineFeed)
                }
                b'\n' if self.is_of_response => self.bare_line_feed(),
                _ => Err(RejectReason::BadChunkSize),
            },
            State::Extension => self.extension(byte),
            State::Quoted => self.quoted(byte),
            State::QuotedPair if octets::FIELD_VALUE[usize::from(byte)] => {
                self.pay_extension(State::Quoted)
            }
            State::QuotedPair => Err(RejectReason::BadChunkExtension),
            State::SizeLineFeed if byte == b'\n' => Ok(self.line_done()),
            State::SizeLineFeed => Err(RejectReason::BareCarriageReturn),
            State::DataReturn if byte == b'\r' => Ok(State::DataLineFeed),
            State::DataReturn if byte == b'\n' && self.is_of_response => {
                self.was_lenient = true;
                Ok(State::Size)
            }
            State::DataLineFeed if byte == b'\n' => Ok(State::Size),
            State::DataReturn | State::DataLineFeed => Err(RejectReason::BadChunkEnd),
            State::Trailers => self.trailer(byte),
            State::Data | State::Done => Ok(self.state),
        }
    }

    fn trailer(&mut self, byte: u8) -> Result<State, RejectReason> {
        let is_behind_return = std::mem::replace(&mut self.is_behind_return, byte == b'\r');
        if byte == b'\n' && !is_behind_return && self.is_of_response {
            self.was_lenient = true;
            // Both ends of a line are the same.
            self.trailers.take(b'\r', &self.limits)?;
        }
        Ok(match self.trailers.take(byte, &self.limits)? {
            Step::More => State::Trailers,
            Step::End => State::Done,
        })
    }

    fn size(&mut self, byte: u8) -> Result<State, RejectReason> {
        match (byte, hex_digit(byte)) {
            (_, Some(_)) if self.digits == SIZE_DIGITS_MAX => Err(RejectReason::ChunkSizeOverflow),
            (_, Some(digit)) => {
                self.left = self.left << 4 | u64::from(digit);
                self.digits += 1;
                Ok(State::Size)
            }
            _ if self.digits == 0 => Err(RejectReason::BadChunkSize),
            (b'\r', _) => Ok(State::SizeLineFeed),
            (b'\n', _) => self.bare_line_feed(),
            (b';', _) => self.pay_extension(State::Extension),
            (b' ' | b'\t', _) => self.pay_extension(State::SizeSpace),
            _ => Err(RejectReason::BadChunkSize),
        }
    }

    /// Extensions are ignored (RFC 9112 section 7.1.1), but they must end where every reader sees
    /// them end.
    fn extension(&mut self, byte: u8) -> Result<State, RejectReason> {
        match byte {
            b'\r' => Ok(State::SizeLineFeed),
            b'\n' => self.bare_line_feed(),
            b'"' => self.pay_extension(State::Quoted),
            _ if octets::FIELD_VALUE[usize::from(byte)] => self.pay_extension(State::Extension),
            _ => Err(RejectReason::BadChunkExtension),
        }
    }

    fn quoted(&mut self, byte: u8) -> Result<State, RejectReason> {
        match byte {
            b'"' => self.pay_extension(State::Extension),
            b'\\' => self.pay_extension(State::QuotedPair),
            _ if octets::FIELD_VALUE[usize::from(byte)] => self.pay_extension(State::Quoted),
            _ => Err(RejectReason::BadChunkExtension),
        }
    }

    fn pay_extension(&mut self, next: State) -> Result<State, RejectReason> {
        self.line_extension_bytes += 1;
        self.extension_debt += 1;
        let within = self.line_extension_bytes <= self.limits.line_extension_bytes_max
            && self.extension_debt <= self.limits.extension_bytes_max;
        if within {
            Ok(next)
        } else {
            Err(RejectReason::ChunkExtensionsTooLong)
        }
    }

    /// The line of a size ends without CR.
    fn bare_line_feed(&mut self) -> Result<State, RejectReason> {
        if !self.is_of_response {
            return Err(RejectReason::BareLineFeed);
        }
        self.was_lenient = true;
        Ok(self.line_done())
    }

    fn line_done(&mut self) -> State {
        self.digits = 0;
        self.line_extension_bytes = 0;
        if self.left == 0 {
            State::Trailers
        } else {
            State::Data
        }
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// The line before `len` bytes of data, which [`CHUNK_END`] must follow. Writes nothing for 0,
/// which would end the body.
pub fn encode_chunk_head(len: usize, out: &mut Vec<u8>) {
    if len == 0 {
        return;
    }
    let digits = len.ilog2() / 4 + 1;
    out.extend(
        (0..digits)
            .rev()
            .map(|place| b"0123456789abcdef"[len >> (place * 4) & 15]),
    );
    out.extend_from_slice(b"\r\n");
}

/// The last chunk and the trailers, without names that may not stand there.
pub fn encode_last_chunk(trailers: Option<&Fields>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    for (name, value) in trailers.into_iter().flat_map(Fields::iter) {
        if !is_forbidden_trailer(name) {
            append_field(name, value, out);
        }
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests;
