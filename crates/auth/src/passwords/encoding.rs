//! The base 64 of crypt(3): six bits at a time, the lowest first.
//!
//! Called by: the forms of `passwords`.

const LETTERS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Appends `count` letters of a number.
pub fn push(text: &mut String, mut number: u32, count: usize) {
    for _ in 0..count {
        text.push(letter(number));
        number >>= 6;
    }
}

pub fn letter(number: u32) -> char {
    char::from(
        LETTERS
            .get((number & 0x3f) as usize)
            .copied()
            .unwrap_or(b'.'),
    )
}

pub fn number(letter: u8) -> Option<u32> {
    LETTERS
        .iter()
        .position(|known| *known == letter)
        .map(|at| at as u32)
}

/// Appends three bytes of a digest, the first one highest.
pub fn push_bytes(text: &mut String, digest: &[u8], places: [usize; 3], count: usize) {
    let byte = |place: usize| digest.get(place).copied().map_or(0, u32::from);
    push(
        text,
        byte(places[0]) << 16 | byte(places[1]) << 8 | byte(places[2]),
        count,
    );
}
