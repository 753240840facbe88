//! The Huffman code of RFC 7541 section 5.2 and Appendix B, which QPACK uses too (RFC 9204 section
//! 4.1.2).
//!
//! The code is canonical (codes of one length follow each other in the order of their symbols), so
//! the lengths say everything and the tables are computed from them when this is compiled. Decoding
//! looks at 10 bits at a time, which is a symbol of nearly every field that there is in practice;
//! what is longer is found by comparing with the last code of each length. 2 kB of tables stay in
//! the cache beside everything else.

use crate::{CodingError, integer};

/// Length of each symbol's code in bits; the last is EOS.
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, // controls
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15,
    6, 12, 10, // space to ?
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13,
    14, 6, // @ to _
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14,
    13, 28, // ` to DEL
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23,
    23, 21, 22, 23, 22, 23, 23, 24, // 0x80
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23,
    20, 22, 22, 22, 23, 22, 22, 23, // 0xa0
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, // 0xc0
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27,
    27, 28, 27, 27, 27, 27, 27, 26, // 0xe0
    30,
];

const SYMBOLS: usize = 257;
const LENGTH_MAX: usize = 30;
const LENGTH_MIN: usize = 5;
const INDEX_BITS: usize = 10;

/// Symbol in the lower byte, length above; 0 where the code is longer than the index.
static SHORT: [u16; 1 << INDEX_BITS] = short_codes();
/// Code in the upper bits, length in the lowest byte.
static CODES: [u64; 256] = packed_codes();
/// Symbols in the order of their codes. EOS would be the last and is left out.
static SORTED: [u8; 256] = sorted();
static LONG: [Level; LENGTH_MAX + 1] = levels();

/// The codes of one length.
#[derive(Clone, Copy)]
struct Level {
    /// One beyond the last code, at the upper end of 32 bits.
    limit: u64,
    first_code: u32,
    /// Index in [`SORTED`] of the symbol of the first code.
    first_symbol: u32,
}

/// The most bytes that `len` bytes can stand for.
pub fn decoded_len_max(len: usize) -> usize {
    len.saturating_mul(8) / LENGTH_MIN
}

/// Decodes into `room`, of which [`decoded_len_max`] bytes are enough, and says how many there are.
pub fn decode(code: &[u8], room: &mut [u8]) -> Result<usize, CodingError> {
    // The next bits are at the upper end of `window`; `count` of them are the string's.
    let (mut rest, mut window, mut count) = (code, 0u64, 0);
    let room_len = room.len();
    let mut slots = room.iter_mut();
    while let Some((word, after)) = rest.split_first_chunk::<4>() {
        window |= u64::from(u32::from_be_bytes(*word)) << (32 - count);
        (rest, count) = (after, count + 32);
        // The longest code is in the window.
        while count >= LENGTH_MAX as u32 {
            let (symbol, len) = first_symbol(window).ok_or(CodingError::HuffmanEndOfString)?;
            window <<= len;
            count -= len;
            let Some(slot) = slots.next() else { break };
            *slot = symbol;
        }
    }
    for byte in rest {
        window |= u64::from(*byte) << (56 - count);
        count += 8;
    }
    while let Some((symbol, len)) = first_symbol(window)
        && len <= count
        && let Some(slot) = slots.next()
    {
        window <<= len;
        count -= len;
        *slot = symbol;
    }
    check_padding(window, count)?;
    Ok(room_len - slots.len())
}

/// The symbol that the window begins with, and the length of its code; `None` for EOS.
#[inline]
fn first_symbol(window: u64) -> Option<(u8, u32)> {
    let entry = SHORT[(window >> (64 - INDEX_BITS)) as usize];
    if entry != 0 {
        Some((entry as u8, u32::from(entry >> 8)))
    } else {
        long_code(window)
    }
}

#[cold]
fn long_code(window: u64) -> Option<(u8, u32)> {
    let next = window >> 32;
    let (len, level) = LONG
        .iter()
        .enumerate()
        .skip(INDEX_BITS + 1)
        .find(|(_, level)| next < level.limit)?;
    let nth = (next >> (32 - len)) as u32 - level.first_code;
    SORTED
        .get((level.first_symbol + nth) as usize)
        .map(|symbol| (*symbol, len as u32))
}

/// Checks the padding at the end of a string. RFC 7541 section 5.2: at most 7 bits, and those the
/// first of EOS, which are ones.
fn check_padding(window: u64, count: u32) -> Result<(), CodingError> {
    match count {
        0..8 if window.leading_ones() >= count => Ok(()),
        _ if window.leading_ones() >= LENGTH_MAX as u32 => Err(CodingError::HuffmanEndOfString),
        _ => Err(CodingError::HuffmanPadding),
    }
}

/// Appends `text` as a string literal (RFC 7541 section 5.2, RFC 9204 section 4.1.2), in this code
/// where that is shorter. `mask`: the bits of the first byte that begin its length, with the bit
/// above them for the code; `pattern`: what is above that. `map` is applied to each byte.
#[inline]
pub fn encode_string(
    text: &[u8],
    (pattern, mask): (u8, u8),
    map: impl Fn(u8) -> u8 + Copy,
    out: &mut Vec<u8>,
) {
    let coded = pattern | (mask + 1);
    if text.len() < usize::from(mask) {
        // One byte holds either length, so the text is looked at once, and the length written when
        // it is known.
        let start = out.len();
        out.push(0);
        encode(text, map, out);
        let len = out.len() - start - 1;
        if len < text.len() {
            out[start] = coded | len as u8;
            return;
        }
        out.truncate(start);
    } else {
        let len = encoded_len(text, map);
        if len < text.len() {
            integer::encode(coded, mask, len, out);
            return encode(text, map, out);
        }
    }
    integer::encode(pattern, mask, text.len(), out);
    out.extend(text.iter().map(|byte| map(*byte)));
}

fn encoded_len(text: &[u8], map: impl Fn(u8) -> u8) -> usize {
    text.iter()
        .map(|byte| usize::from(LENGTHS[usize::from(map(*byte))]))
        .sum::<usize>()
        .div_ceil(8)
}

#[inline]
fn encode(text: &[u8], map: impl Fn(u8) -> u8, out: &mut Vec<u8>) {
    let (mut window, mut count) = (0u64, 0u32);
    for byte in text {
        let code = CODES[usize::from(map(*byte))];
        let len = code as u32 & 0xff;
        window = window << len | code >> 8;
        count += len;
        if count >= 32 {
            count -= 32;
            out.extend_from_slice(&((window >> count) as u32).to_be_bytes());
        }
    }
    // Padding: the beginning of EOS, ones.
    let padding = count.wrapping_neg() % 8;
    count += padding;
    window = window << padding | ((1 << padding) - 1);
    for place in (0..count / 8).rev() {
        out.push((window >> (8 * place)) as u8);
    }
}

const fn codes() -> [u32; SYMBOLS] {
    let mut codes = [0; SYMBOLS];
    let (mut next, mut len) = (0, LENGTH_MIN);
    while len <= LENGTH_MAX {
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == len {
                codes[symbol] = next;
                next += 1;
            }
            symbol += 1;
        }
        next <<= 1;
        len += 1;
    }
    codes
}

const fn packed_codes() -> [u64; 256] {
    let (codes, mut packed) = (codes(), [0; 256]);
    let mut symbol = 0;
    while symbol < 256 {
        packed[symbol] = (codes[symbol] as u64) << 8 | LENGTHS[symbol] as u64;
        symbol += 1;
    }
    packed
}

const fn short_codes() -> [u16; 1 << INDEX_BITS] {
    let (codes, mut table) = (codes(), [0; 1 << INDEX_BITS]);
    let mut symbol = 0;
    while symbol < 256 {
        let len = LENGTHS[symbol] as usize;
        if len <= INDEX_BITS {
            let spare = INDEX_BITS - len;
            let first = (codes[symbol] as usize) << spare;
            let mut at = first;
            while at < first + (1 << spare) {
                table[at] = (len as u16) << 8 | symbol as u16;
                at += 1;
            }
        }
        symbol += 1;
    }
    table
}

const fn sorted() -> [u8; 256] {
    let (mut sorted, mut at, mut len) = ([0; 256], 0, LENGTH_MIN);
    while len <= LENGTH_MAX {
        let mut symbol = 0;
        while symbol < 256 {
            if LENGTHS[symbol] as usize == len {
                sorted[at] = symbol as u8;
                at += 1;
            }
            symbol += 1;
        }
        len += 1;
    }
    sorted
}

const fn levels() -> [Level; LENGTH_MAX + 1] {
    let mut levels = [Level {
        limit: 0,
        first_code: 0,
        first_symbol: 0,
    }; LENGTH_MAX + 1];
    let (mut code, mut symbols, mut len) = (0, 0, LENGTH_MIN);
    while len <= LENGTH_MAX {
        let (first_code, first_symbol) = (code, symbols);
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == len {
                code += 1;
                symbols += 1;
            }
            symbol += 1;
        }
        levels[len] = Level {
            limit: (code as u64) << (32 - len),
            first_code,
            first_symbol,
        };
        code <<= 1;
        len += 1;
    }
    levels
}

#[cfg(test)]
mod tests;
