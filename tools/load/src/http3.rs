//! As much of HTTP/3 as a load needs: requests as ready bytes, and a reader of responses that wants
//! their status and length.
//!
//! An own and independent reading of RFC 9114 and RFC 9204, so that a mistake of the server's codec
//! is not made twice. The peer is told that there is no dynamic table
//! (SETTINGS_QPACK_MAX_TABLE_CAPACITY is 0 by default), which leaves static entries and literals.
//! Absent on purpose: fields other than the two, priorities, push.

/// Control stream with empty SETTINGS (RFC 9114 sections 6.2.1 and 7.2.4). It stays open.
pub const CONTROL_STREAM: &[u8] = &[0x00, 0x04, 0x00];
/// H3_NO_ERROR (RFC 9114 section 8.1).
pub const NO_ERROR: u32 = 0x100;
pub const REQUEST_CANCELLED: u32 = 0x10c;

const FRAME_DATA: u64 = 0x0;
const FRAME_HEADERS: u64 = 0x1;
/// No server's head is larger.
const HEAD_BYTES_MAX: u64 = 65_536;

// Places in the static table (RFC 9204 appendix A).
const AUTHORITY: u8 = 0;
const PATH: u8 = 1;
const CONTENT_LENGTH: u64 = 4;
const METHOD_GET: u8 = 17;
const METHOD_POST: u8 = 20;
const SCHEME_HTTPS: u8 = 23;
const STATUSES: &[(u64, u16)] = &[
    (24, 103),
    (25, 200),
    (26, 304),
    (27, 404),
    (28, 503),
    (63, 100),
    (64, 204),
    (65, 206),
    (66, 302),
    (67, 400),
    (68, 403),
    (69, 421),
    (70, 425),
    (71, 500),
];

/// Head of a GET, or of a POST with so many bytes of content, and then the DATA frame's head.
pub fn request(authority: &str, path: &str, upload_bytes: Option<u64>) -> Vec<u8> {
    let mut block = vec![0, 0]; // No dynamic table (RFC 9204 section 4.5.1).
    block.extend([
        0xc0 | if upload_bytes.is_some() {
            METHOD_POST
        } else {
            METHOD_GET
        },
        0xc0 | SCHEME_HTTPS,
    ]);
    literal(AUTHORITY, authority, &mut block);
    literal(PATH, path, &mut block);
    if let Some(bytes) = upload_bytes {
        literal(CONTENT_LENGTH as u8, &bytes.to_string(), &mut block);
    }
    let mut out = Vec::new();
    frame_head(FRAME_HEADERS, block.len() as u64, &mut out);
    out.extend(block);
    if let Some(bytes) = upload_bytes {
        frame_head(FRAME_DATA, bytes, &mut out);
    }
    out
}

/// Literal field line with a name from the static table (RFC 9204 section 4.5.4), not Huffman
/// coded. `place` is under 15.
fn literal(place: u8, value: &str, out: &mut Vec<u8>) {
    out.push(0x50 | place);
    if value.len() < 127 {
        out.push(value.len() as u8);
    } else {
        out.push(127);
        let mut rest = value.len() - 127;
        while rest >= 128 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }
    out.extend_from_slice(value.as_bytes());
}

fn frame_head(kind: u64, length: u64, out: &mut Vec<u8>) {
    for number in [kind, length] {
        // RFC 9000 section 16.
        match number {
            0..64 => out.push(number as u8),
            64..16_384 => out.extend((number as u16 | 0x4000).to_be_bytes()),
            16_384..1_073_741_824 => out.extend((number as u32 | 0x8000_0000).to_be_bytes()),
            _ => out.extend((number | 0xc000_0000_0000_0000).to_be_bytes()),
        }
    }
}

/// Received part of a response.
#[derive(Debug, Default)]
pub struct Response {
    /// Status of the final head, once it has arrived.
    pub status: Option<u16>,
    pub content_length: Option<u64>,
    pub body_bytes: u64,
    /// A frame's head, or all of a field section, as long as it is not whole.
    partial: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    FrameHead,
    FieldSection {
        bytes: u64,
    },
    /// Content of a DATA frame.
    Content {
        left: u64,
    },
    Skipped {
        left: u64,
    },
}

impl Response {
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            bytes = match self.state {
                State::FrameHead => self.frame_head(bytes)?,
                State::FieldSection { bytes: wanted } => {
                    self.field_section(bytes, wanted as usize)?
                }
                State::Content { left } => {
                    let (rest, left) = pass(bytes, left);
                    self.body_bytes += (bytes.len() - rest.len()) as u64;
                    self.state = if left > 0 {
                        State::Content { left }
                    } else {
                        State::FrameHead
                    };
                    rest
                }
                State::Skipped { left } => {
                    let (rest, left) = pass(bytes, left);
                    self.state = if left > 0 {
                        State::Skipped { left }
                    } else {
                        State::FrameHead
                    };
                    rest
                }
            };
        }
        Ok(())
    }

    /// True if what came before the end of the stream is a whole response; says what is wrong with
    /// it.
    pub fn end(&self) -> Result<u16, String> {
        if !matches!(self.state, State::FrameHead) || !self.partial.is_empty() {
            return Err("the stream ended within a frame".into());
        }
        let status = self.status.ok_or("the stream ended without a response")?;
        match self.content_length {
            // A 304 may tell the length that a 200 would have.
            Some(length) if length != self.body_bytes && status != 304 => {
                Err(format!("{} bytes came of {length}", self.body_bytes))
            }
            _ => Ok(status),
        }
    }

    fn frame_head<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], String> {
        let before = self.partial.len();
        self.partial
            .extend_from_slice(&bytes[..bytes.len().min(16)]);
        let mut read = &self.partial[..];
        let (Some(kind), Some(length)) = (variable(&mut read), variable(&mut read)) else {
            return Ok(&[]);
        };
        let used = self.partial.len() - read.len() - before;
        self.partial.clear();
        self.state = match kind {
            FRAME_HEADERS if length <= HEAD_BYTES_MAX && length > 0 => {
                State::FieldSection { bytes: length }
            }
            FRAME_HEADERS => return Err(format!("a field section of {length} bytes")),
            FRAME_DATA if self.status.is_none() => return Err("content before the head".into()),
            _ if length == 0 => State::FrameHead,
            FRAME_DATA => State::Content { left: length },
            _ => State::Skipped { left: length },
        };
        Ok(&bytes[used..])
    }

    fn field_section<'b>(&mut self, bytes: &'b [u8], wanted: usize) -> Result<&'b [u8], String> {
        let (now, rest) = bytes.split_at(bytes.len().min(wanted - self.partial.len()));
        self.partial.extend_from_slice(now);
        if self.partial.len() == wanted {
            let section = std::mem::take(&mut self.partial);
            self.fields(&section).ok_or_else(|| {
                format!("field section not understood: {}", section.escape_ascii())
            })?;
            self.state = State::FrameHead;
        }
        Ok(rest)
    }

    fn fields(&mut self, mut section: &[u8]) -> Option<()> {
        let is_trailer = self.status.is_some();
        let [0, 0, ..] = section else { return None };
        section = &section[2..];
        while let Some(&first) = section.first() {
            let (place, value) = field(first, &mut section)?;
            if is_trailer {
                continue;
            }
            match (place, value) {
                (Some(CONTENT_LENGTH), None) => self.content_length = Some(0),
                (Some(CONTENT_LENGTH), Some(value)) => self.content_length = Some(value.number()?),
                (Some(place), value) => {
                    let Some((_, status)) = STATUSES.iter().find(|(known, _)| *known == place)
                    else {
                        continue;
                    };
                    self.status =
                        Some(value.map_or(Some(*status), |value| value.number()?.try_into().ok())?);
                }
                (None, _) => {}
            }
        }
        // Informational ones go before the final one (RFC 9114 section 4.1).
        self.status = self.status.filter(|status| *status >= 200);
        Some(())
    }
}

struct Text<'b> {
    is_huffman: bool,
    bytes: &'b [u8],
}

/// A field line (RFC 9204 section 4.5): the place of its name, or of all of it, in the static
/// table, and its own value.
fn field<'b>(first: u8, section: &mut &'b [u8]) -> Option<(Option<u64>, Option<Text<'b>>)> {
    if first & 0xc0 == 0xc0 {
        Some((Some(integer(section, 6)?), None))
    } else if first & 0xd0 == 0x50 {
        Some((Some(integer(section, 4)?), Some(text(section, 7)?)))
    } else if first & 0xe0 == 0x20 {
        let _name = text(section, 3)?;
        Some((None, Some(text(section, 7)?)))
    } else {
        // The dynamic table, of which there is none.
        None
    }
}

fn text<'b>(section: &mut &'b [u8], prefix_bits: u32) -> Option<Text<'b>> {
    let is_huffman = section.first()? >> prefix_bits & 1 == 1;
    let length = usize::try_from(integer(section, prefix_bits)?).ok()?;
    let (bytes, rest) = section.split_at_checked(length)?;
    *section = rest;
    Some(Text { is_huffman, bytes })
}

impl Text<'_> {
    fn number(&self) -> Option<u64> {
        if self.is_huffman {
            self.huffman_number()
        } else {
            str::from_utf8(self.bytes).ok()?.parse().ok()
        }
    }

    /// Digits alone (RFC 7541 appendix B): 0 to 2 have five bits, the others six.
    fn huffman_number(&self) -> Option<u64> {
        let bit_count = self.bytes.len() * 8;
        let bits = |at: usize, count: usize| {
            (at..at + count).try_fold(0, |sum, bit| {
                Some(sum << 1 | u64::from(self.bytes.get(bit / 8)? >> (7 - bit % 8) & 1))
            })
        };
        let (mut at, mut number) = (0, 0_u64);
        loop {
            let left = bit_count - at;
            if left < 8 && bits(at, left)? == (1 << left) - 1 {
                return Some(number);
            }
            let (digit, length) = match (bits(at, 5)?, bits(at, 6)) {
                (digit @ 0..=2, _) => (digit, 5),
                (_, Some(code @ 0b01_1001..=0b01_1111)) => (code - 0b01_1001 + 3, 6),
                _ => return None,
            };
            number = number.checked_mul(10)?.checked_add(digit)?;
            at += length;
        }
    }
}

/// RFC 7541 section 5.1.
fn integer(section: &mut &[u8], prefix_bits: u32) -> Option<u64> {
    let (first, mut rest) = section.split_first()?;
    let mask = (1_u8 << prefix_bits) - 1;
    let mut value = u64::from(first & mask);
    if first & mask == mask {
        for shift in (0..56).step_by(7) {
            let (next, after) = rest.split_first()?;
            rest = after;
            value += u64::from(next & 0x7f) << shift;
            if next & 0x80 == 0 {
                *section = rest;
                return Some(value);
            }
        }
        return None;
    }
    *section = rest;
    Some(value)
}

/// RFC 9000 section 16.
fn variable(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    let (number, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    *bytes = rest;
    Some(
        number[1..]
            .iter()
            .fold(u64::from(first & 0x3f), |value, byte| {
                value << 8 | u64::from(*byte)
            }),
    )
}

fn pass(bytes: &[u8], left: u64) -> (&[u8], u64) {
    let used = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
    (&bytes[used..], left - used as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 200 of 13 bytes with a literal length, a Huffman-coded one, and a field that does not
    /// matter.
    fn head(length: &[u8], is_huffman: bool) -> Vec<u8> {
        let mut block = vec![0, 0, 0xc0 | 25];
        block.extend([0x54, if is_huffman { 0x80 } else { 0 } | length.len() as u8]);
        block.extend_from_slice(length);
        block.extend([0x23, b'x', b'-', b'y', 2, b'n', b'o']);
        block.extend([0x5f, 0x04, 0x03, b'a', b'b', b'c']);
        [&[0x01, block.len() as u8], &block[..]].concat()
    }

    fn read(bytes: &[u8], step: usize) -> Result<(u16, u64), String> {
        let mut response = Response::default();
        bytes
            .chunks(step)
            .try_for_each(|chunk| response.receive(chunk))?;
        Ok((response.end()?, response.body_bytes))
    }

    #[test]
    fn responses_in_pieces_of_any_size() {
        let informational = [0x01, 3, 0, 0, 0xc0 | 24];
        let unknown = [0x21, 2, 9, 9];
        let content = [&[0x00, 3][..], b"abc", &[0x00, 0x40, 10], b"0123456789"].concat();
        let trailer = [0x01, 6, 0, 0, 0x21, b'x', 1, b'y'];
        let whole = [
            &informational[..],
            &unknown,
            &head(b"13", false),
            &content,
            &unknown,
            &trailer,
        ]
        .concat();
        for step in 1..whole.len() {
            assert_eq!(read(&whole, step), Ok((200, 13)), "{step}");
        }
        assert_eq!(
            read(&whole[..whole.len() - 1], 7).expect_err("cut"),
            "the stream ended within a frame"
        );
    }

    #[test]
    fn numbers_in_huffman_code() {
        // 00001 011001 1 1111: "13", and "0": 00000 111.
        for (code, number) in [
            (&[0b0000_1011, 0b0011_1111][..], 13),
            (&[0b0000_0111], 0),
            (&[], 0),
        ] {
            assert_eq!(
                Text {
                    is_huffman: true,
                    bytes: code
                }
                .number(),
                Some(number)
            );
        }
        // 0123456789 as RFC 7541's code has it.
        let bits: String = (0..10)
            .map(|digit| {
                if digit < 3 {
                    format!("{digit:05b}")
                } else {
                    format!("{:06b}", digit - 3 + 25)
                }
            })
            .collect();
        let padded = bits.clone() + &"1".repeat(8 - bits.len() % 8);
        let bytes: Vec<u8> = padded
            .as_bytes()
            .chunks(8)
            .map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | (bit - b'0')))
            .collect();
        assert_eq!(
            Text {
                is_huffman: true,
                bytes: &bytes
            }
            .number(),
            Some(123_456_789)
        );
        assert_eq!(
            Text {
                is_huffman: true,
                bytes: &[0xff, 0xff]
            }
            .number(),
            None
        );
        let whole = [
            &head(&[0b0000_1011, 0b0011_1111], true)[..],
            &[0x00, 13],
            b"abcdefghijklm",
        ]
        .concat();
        assert_eq!(read(&whole, 5), Ok((200, 13)));
    }

    #[test]
    fn what_is_no_response_is_named() {
        for (bytes, complaint) in [
            (&[][..], "the stream ended without a response"),
            (&[0x00, 1, b'x'], "content before the head"),
            (&[0x01, 0], "a field section of 0 bytes"),
            (
                &[0x01, 0x80, 0x10, 0, 0],
                "a field section of 1048576 bytes",
            ),
            (&[0x01, 3, 0, 0, 0x80], "field section not understood"),
            (&[0x01, 3, 2, 0, 0x80], "field section not understood"),
            (&head(b"3", false), "0 bytes came of 3"),
            (
                &[0x01, 3, 0, 0, 0xc0 | 24],
                "the stream ended without a response",
            ),
        ] {
            let said = read(bytes, 100).expect_err(complaint);
            assert!(said.starts_with(complaint), "{said}");
        }
    }

    #[test]
    fn requests() {
        assert_eq!(
            request("ab", "/", None),
            b"\x01\x0b\0\0\xd1\xd7\x50\x02ab\x51\x01/"
        );
        let upload = request("ab", &format!("/{}", "x".repeat(299)), Some(100_000));
        assert_eq!(upload[..3], [0x01, 0x41, 0x40]);
        assert!(
            upload.ends_with(b"\x54\x06100000\x00\x80\x01\x86\xa0"),
            "{}",
            upload.escape_ascii()
        );
    }
}
