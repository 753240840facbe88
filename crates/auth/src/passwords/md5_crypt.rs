//! MD5 in a thousand rounds: FreeBSD's crypt (`$1$`) and Apache's variant of it (`$apr1$`).
//!
//! Called by: `passwords`, on its threads.

use super::encoding::push_bytes;
use md5::{Digest, Md5};

/// Hashes a password with the prefix and salt of `stored`.
pub fn crypt(password: &[u8], stored: &str) -> Option<String> {
    let mark = if stored.starts_with("$apr1$") {
        "$apr1$"
    } else {
        "$1$"
    };
    let salt = stored.strip_prefix(mark)?.split('$').next()?;
    let salt: String = salt.chars().take(8).collect();
    let digest = rounds(
        password,
        salt.as_bytes(),
        first(password, mark, salt.as_bytes()),
    );
    let mut text = format!("{mark}{salt}$");
    for places in [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]] {
        push_bytes(&mut text, &digest, places, 4);
    }
    // The last one stands alone.
    push_bytes(&mut text, &digest, [usize::MAX, usize::MAX, 11], 2);
    Some(text)
}

fn first(password: &[u8], mark: &str, salt: &[u8]) -> [u8; 16] {
    let inner: [u8; 16] = Md5::new()
        .chain_update(password)
        .chain_update(salt)
        .chain_update(password)
        .finalize()
        .into();
    let mut hash = Md5::new()
        .chain_update(password)
        .chain_update(mark)
        .chain_update(salt);
    hash.update(
        inner
            .iter()
            .copied()
            .cycle()
            .take(password.len())
            .collect::<Vec<u8>>(),
    );
    let mut bits = password.len();
    while bits > 0 {
        hash.update(if bits & 1 == 1 {
            &[0][..]
        } else {
            password.get(..1).unwrap_or_default()
        });
        bits >>= 1;
    }
    hash.finalize().into()
}

fn rounds(password: &[u8], salt: &[u8], mut digest: [u8; 16]) -> [u8; 16] {
    for round in 0..1000 {
        let mut hash = Md5::new();
        hash.update(if round % 2 == 1 { password } else { &digest });
        if round % 3 != 0 {
            hash.update(salt);
        }
        if round % 7 != 0 {
            hash.update(password);
        }
        hash.update(if round % 2 == 1 { &digest } else { password });
        digest = hash.finalize().into();
    }
    digest
}
