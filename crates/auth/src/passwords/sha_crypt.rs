//! SHA-256 (`$5$`) and SHA-512 (`$6$`) as crypt(3) stretches them (Drepper, "Unix crypt using
//! SHA-256 and SHA-512").
//!
//! Called by: `passwords`, on its threads.
//! Caveat: both forms are one algorithm; only the order differs in which bytes of the digest are
//! written.

use super::encoding::push_bytes;
use sha2::{Digest, Sha256, Sha512};

const SALT_BYTES_MAX: usize = 16;
const ROUNDS: u32 = 5000;
const ROUNDS_MIN: u32 = 1000;
/// crypt(3) allows 999,999,999, which would take too long.
const ROUNDS_MAX: u32 = 1_000_000;

/// Hashes a password with the form, rounds and salt of `stored`.
pub fn crypt(password: &[u8], stored: &str) -> Option<String> {
    match stored.strip_prefix("$5$") {
        Some(rest) => with::<Sha256>("$5$", password, rest, write_256),
        None => with::<Sha512>("$6$", password, stored.strip_prefix("$6$")?, write_512),
    }
}

fn with<D: Digest>(
    mark: &str,
    password: &[u8],
    rest: &str,
    write: fn(&mut String, &[u8]),
) -> Option<String> {
    let mut text = mark.to_owned();
    let (rounds, rest) = match rest
        .strip_prefix("rounds=")
        .and_then(|rest| rest.split_once('$'))
    {
        Some((number, rest)) => (Some(number.parse::<u32>().ok()?.max(ROUNDS_MIN)), rest),
        None => (None, rest),
    };
    if rounds.is_some_and(|rounds| rounds > ROUNDS_MAX) {
        return None;
    }
    if let Some(rounds) = rounds {
        text.push_str(&format!("rounds={rounds}$"));
    }
    let salt = rest.split('$').next()?;
    let salt = salt.get(..salt.len().min(SALT_BYTES_MAX))?;
    text.push_str(salt);
    text.push('$');
    write(
        &mut text,
        &digest::<D>(password, salt.as_bytes(), rounds.unwrap_or(ROUNDS)),
    );
    Some(text)
}

fn digest<D: Digest>(password: &[u8], salt: &[u8], rounds: u32) -> Vec<u8> {
    let mut digest = first::<D>(password, salt);
    let twice = {
        let mut hash = D::new();
        (0..password.len()).for_each(|_| hash.update(password));
        stretched(&hash.finalize(), password.len())
    };
    let salted = {
        let mut hash = D::new();
        let times = 16 + digest.first().copied().map_or(0, usize::from);
        (0..times).for_each(|_| hash.update(salt));
        stretched(&hash.finalize(), salt.len())
    };
    for round in 0..rounds {
        let mut hash = D::new();
        hash.update(if round % 2 == 1 { &twice } else { &digest });
        if round % 3 != 0 {
            hash.update(&salted);
        }
        if round % 7 != 0 {
            hash.update(&twice);
        }
        hash.update(if round % 2 == 1 { &digest } else { &twice });
        digest = hash.finalize().to_vec();
    }
    digest
}

fn first<D: Digest>(password: &[u8], salt: &[u8]) -> Vec<u8> {
    let inner = D::new()
        .chain_update(password)
        .chain_update(salt)
        .chain_update(password)
        .finalize();
    let mut hash = D::new()
        .chain_update(password)
        .chain_update(salt)
        .chain_update(stretched(&inner, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        hash.update(if bits & 1 == 1 { &inner[..] } else { password });
        bits >>= 1;
    }
    hash.finalize().to_vec()
}

/// A digest over and over, as long as something else.
fn stretched(digest: &[u8], length: usize) -> Vec<u8> {
    digest.iter().copied().cycle().take(length).collect()
}

fn write_256(text: &mut String, digest: &[u8]) {
    let mut places = [0, 10, 20];
    for _ in 0..10 {
        push_bytes(text, digest, places, 4);
        // Each step moves on by one and turns the three round.
        places = [places[2] + 1, places[0] + 1, places[1] + 1];
    }
    push_bytes(text, digest, [usize::MAX, 31, 30], 3);
}

fn write_512(text: &mut String, digest: &[u8]) {
    let mut places = [0, 21, 42];
    for _ in 0..21 {
        push_bytes(text, digest, places, 4);
        places = [places[1] + 1, places[2] + 1, places[0] + 1];
    }
    push_bytes(text, digest, [usize::MAX, usize::MAX, 63], 2);
}
