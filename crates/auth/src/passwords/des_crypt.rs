//! Traditional crypt(3): DES twenty-five times, modified by two characters of salt. Only the first
//! eight characters of a password count.
//!
//! Implemented bit by bit as FIPS 46-3 describes it: it should not be used, but some files still
//! contain it.
//!
//! Called by: `passwords`, on its threads.

use super::encoding::{letter, number};

type Bits = Vec<u8>;

/// Hashes a password with the salt of `stored`; `None` if `stored` has another form.
pub fn crypt(password: &[u8], stored: &str) -> Option<String> {
    let salt: [u8; 2] = stored.as_bytes().get(..2)?.try_into().ok()?;
    if stored.len() != 13 {
        return None;
    }
    let expansion = salted_expansion(number(salt[0])? | number(salt[1])? << 6);
    let keys = keys(password);
    let mut block = vec![0; 64];
    for _ in 0..25 {
        block = encrypted(block, &keys, &expansion);
    }
    block.extend([0, 0]);
    let mut text = String::from_utf8_lossy(&salt).into_owned();
    text.extend(block.chunks(6).map(|bits| {
        letter(
            bits.iter()
                .fold(0, |number, bit| number << 1 | u32::from(*bit)),
        )
    }));
    Some(text)
}

/// Each bit of the salt swaps two bits of the expansion.
fn salted_expansion(salt: u32) -> Vec<u8> {
    let mut expansion = EXPANSION.to_vec();
    for bit in (0..12).filter(|bit| salt >> bit & 1 == 1) {
        expansion.swap(bit, bit + 24);
    }
    expansion
}

/// Seven bits of each letter, the eighth being parity.
fn keys(password: &[u8]) -> Vec<Bits> {
    let letters = password.iter().copied().chain(std::iter::repeat(0)).take(8);
    let bits: Bits = letters
        .flat_map(|letter| (0..8).map(move |bit| if bit < 7 { letter >> (6 - bit) & 1 } else { 0 }))
        .collect();
    let chosen = permuted(&bits, CHOICE_1);
    let (mut left, mut right) = (half(&chosen, 0).to_vec(), half(&chosen, 1).to_vec());
    let key = |shift: &u8| {
        left.rotate_left(usize::from(*shift));
        right.rotate_left(usize::from(*shift));
        permuted(&[left.as_slice(), &right].concat(), CHOICE_2)
    };
    SHIFTS.iter().map(key).collect()
}

fn encrypted(block: Bits, keys: &[Bits], expansion: &[u8]) -> Bits {
    let block = permuted(&block, INITIAL);
    let (mut left, mut right) = (half(&block, 0).to_vec(), half(&block, 1).to_vec());
    for key in keys {
        let mixed = xor(&left, &function(&right, key, expansion));
        left = std::mem::replace(&mut right, mixed);
    }
    // The halves are not swapped after the last round.
    let block = [right, left].concat();
    let mut result = vec![0; 64];
    for (place, bit) in INITIAL.iter().zip(block) {
        if let Some(slot) = result.get_mut(usize::from(*place) - 1) {
            *slot = bit;
        }
    }
    result
}

fn function(half: &[u8], key: &[u8], expansion: &[u8]) -> Bits {
    let mixed = xor(&permuted(half, expansion), key);
    let substituted: Bits = mixed
        .chunks(6)
        .zip(BOXES)
        .flat_map(|(bits, table)| substituted(bits, table))
        .collect();
    permuted(&substituted, PERMUTATION)
}

/// Six bits to four: the outer ones choose the row, the inner ones the column.
fn substituted(bits: &[u8], table: &[u8; 64]) -> [u8; 4] {
    let number = bits
        .iter()
        .fold(0, |number, bit| number << 1 | usize::from(*bit));
    let (row, column) = (number >> 5 << 1 | number & 1, number >> 1 & 15);
    let value = table.get(row * 16 + column).copied().unwrap_or_default();
    [value >> 3 & 1, value >> 2 & 1, value >> 1 & 1, value & 1]
}

fn permuted(bits: &[u8], places: &[u8]) -> Bits {
    places
        .iter()
        .map(|place| {
            bits.get(usize::from(*place) - 1)
                .copied()
                .unwrap_or_default()
        })
        .collect()
}

fn xor(one: &[u8], other: &[u8]) -> Bits {
    one.iter()
        .zip(other)
        .map(|(left, right)| left ^ right)
        .collect()
}

fn half(bits: &[u8], which: usize) -> &[u8] {
    bits.chunks(bits.len().div_ceil(2))
        .nth(which)
        .unwrap_or_default()
}

// The tables of FIPS 46-3. Places count from 1.

/// Its inverse is applied by writing where this one reads.
const INITIAL: &[u8] = &[
    58, 50, 42, 34, 26, 18, 10, 2, 60, 52, 44, 36, 28, 20, 12, 4, 62, 54, 46, 38, 30, 22, 14, 6,
    64, 56, 48, 40, 32, 24, 16, 8, 57, 49, 41, 33, 25, 17, 9, 1, 59, 51, 43, 35, 27, 19, 11, 3, 61,
    53, 45, 37, 29, 21, 13, 5, 63, 55, 47, 39, 31, 23, 15, 7,
];
const EXPANSION: [u8; 48] = [
    32, 1, 2, 3, 4, 5, 4, 5, 6, 7, 8, 9, 8, 9, 10, 11, 12, 13, 12, 13, 14, 15, 16, 17, 16, 17, 18,
    19, 20, 21, 20, 21, 22, 23, 24, 25, 24, 25, 26, 27, 28, 29, 28, 29, 30, 31, 32, 1,
];
const PERMUTATION: &[u8] = &[
    16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10, 2, 8, 24, 14, 32, 27, 3, 9, 19,
    13, 30, 6, 22, 11, 4, 25,
];
const CHOICE_1: &[u8] = &[
    57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18, 10, 2, 59, 51, 43, 35, 27, 19, 11, 3, 60,
    52, 44, 36, 63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22, 14, 6, 61, 53, 45, 37, 29,
    21, 13, 5, 28, 20, 12, 4,
];
const CHOICE_2: &[u8] = &[
    14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10, 23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13, 2, 41, 52,
    31, 37, 47, 55, 30, 40, 51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
];
const SHIFTS: &[u8] = &[1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1];
const BOXES: &[[u8; 64]; 8] = &[
    [
        14, 4, 13, 1, 2, 15, 11, 8, 3, 10, 6, 12, 5, 9, 0, 7, 0, 15, 7, 4, 14, 2, 13, 1, 10, 6, 12,
        11, 9, 5, 3, 8, 4, 1, 14, 8, 13, 6, 2, 11, 15, 12, 9, 7, 3, 10, 5, 0, 15, 12, 8, 2, 4, 9,
        1, 7, 5, 11, 3, 14, 10, 0, 6, 13,
    ],
    [
        15, 1, 8, 14, 6, 11, 3, 4, 9, 7, 2, 13, 12, 0, 5, 10, 3, 13, 4, 7, 15, 2, 8, 14, 12, 0, 1,
        10, 6, 9, 11, 5, 0, 14, 7, 11, 10, 4, 13, 1, 5, 8, 12, 6, 9, 3, 2, 15, 13, 8, 10, 1, 3, 15,
        4, 2, 11, 6, 7, 12, 0, 5, 14, 9,
    ],
    [
        10, 0, 9, 14, 6, 3, 15, 5, 1, 13, 12, 7, 11, 4, 2, 8, 13, 7, 0, 9, 3, 4, 6, 10, 2, 8, 5,
        14, 12, 11, 15, 1, 13, 6, 4, 9, 8, 15, 3, 0, 11, 1, 2, 12, 5, 10, 14, 7, 1, 10, 13, 0, 6,
        9, 8, 7, 4, 15, 14, 3, 11, 5, 2, 12,
    ],
    [
        7, 13, 14, 3, 0, 6, 9, 10, 1, 2, 8, 5, 11, 12, 4, 15, 13, 8, 11, 5, 6, 15, 0, 3, 4, 7, 2,
        12, 1, 10, 14, 9, 10, 6, 9, 0, 12, 11, 7, 13, 15, 1, 3, 14, 5, 2, 8, 4, 3, 15, 0, 6, 10, 1,
        13, 8, 9, 4, 5, 11, 12, 7, 2, 14,
    ],
    [
        2, 12, 4, 1, 7, 10, 11, 6, 8, 5, 3, 15, 13, 0, 14, 9, 14, 11, 2, 12, 4, 7, 13, 1, 5, 0, 15,
        10, 3, 9, 8, 6, 4, 2, 1, 11, 10, 13, 7, 8, 15, 9, 12, 5, 6, 3, 0, 14, 11, 8, 12, 7, 1, 14,
        2, 13, 6, 15, 0, 9, 10, 4, 5, 3,
    ],
    [
        12, 1, 10, 15, 9, 2, 6, 8, 0, 13, 3, 4, 14, 7, 5, 11, 10, 15, 4, 2, 7, 12, 9, 5, 6, 1, 13,
        14, 0, 11, 3, 8, 9, 14, 15, 5, 2, 8, 12, 3, 7, 0, 4, 10, 1, 13, 11, 6, 4, 3, 2, 12, 9, 5,
        15, 10, 11, 14, 1, 7, 6, 0, 8, 13,
    ],
    [
        4, 11, 2, 14, 15, 0, 8, 13, 3, 12, 9, 7, 5, 10, 6, 1, 13, 0, 11, 7, 4, 9, 1, 10, 14, 3, 5,
        12, 2, 15, 8, 6, 1, 4, 11, 13, 12, 3, 7, 14, 10, 15, 6, 8, 0, 5, 9, 2, 6, 11, 13, 8, 1, 4,
        10, 7, 9, 5, 0, 15, 14, 2, 3, 12,
    ],
    [
        13, 2, 8, 4, 6, 15, 11, 1, 10, 9, 3, 14, 5, 0, 12, 7, 1, 15, 13, 8, 10, 3, 7, 4, 12, 5, 6,
        11, 0, 14, 9, 2, 7, 11, 4, 1, 9, 12, 14, 2, 0, 6, 10, 13, 15, 3, 5, 8, 2, 1, 14, 7, 4, 10,
        8, 13, 15, 12, 9, 0, 3, 5, 6, 11,
    ],
];
