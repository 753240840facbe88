//! mod_unique_id: a name for every request that no other has, anywhere, ever (UNIQUE_ID).
//!
//! Difficulty: it has to be cheap, and threads may not share a counter. A name is made of the
//! second, of ten random bytes that a thread drew when it began, and of a number that it counts up;
//! 27 characters that may stand in URLs and file names.

use crate::time::chance;
use saker_pipeline::Exchange;
use std::cell::RefCell;

struct Source {
    root: [u8; 10],
    count: u64,
}

thread_local! {
    static SOURCE: RefCell<Source> = RefCell::new(Source::new());
}

impl Source {
    fn new() -> Source {
        let (one, other) = (chance().to_be_bytes(), chance().to_be_bytes());
        let mut root = [0; 10];
        root.iter_mut()
            .zip(one.iter().chain(&other))
            .for_each(|(slot, byte)| *slot = *byte);
        Source { root, count: 0 }
    }

    fn next(&mut self, now_s: i64) -> [u8; 27] {
        self.count += 1;
        let mut bytes = [0; 20];
        let parts = (now_s as u32)
            .to_be_bytes()
            .into_iter()
            .chain(self.root)
            .chain(self.count.to_be_bytes().into_iter().skip(2));
        bytes
            .iter_mut()
            .zip(parts)
            .for_each(|(slot, byte)| *slot = byte);
        text(&bytes)
    }
}

/// A request keeps its name wherever rules lead it.
pub fn name(exchange: &mut Exchange) {
    let environment = &exchange.environment;
    let kept = environment
        .first(b"REDIRECT_UNIQUE_ID")
        .or_else(|| environment.first(b"UNIQUE_ID"))
        .map(<[u8]>::to_vec);
    let name = kept.unwrap_or_else(|| fresh(exchange.now).to_vec());
    exchange.environment.set(b"UNIQUE_ID", &name);
}

pub fn fresh(now_s: i64) -> [u8; 27] {
    SOURCE.with_borrow_mut(|source| source.next(now_s))
}

/// base64url without its end (RFC 4648 section 5).
fn text(bytes: &[u8; 20]) -> [u8; 27] {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = [0; 27];
    for (at, slot) in out.iter_mut().enumerate() {
        let bit = at * 6;
        let pair = (u16::from(bytes[bit / 8]) << 8)
            | bytes.get(bit / 8 + 1).map_or(0, |byte| u16::from(*byte));
        *slot = ALPHABET[usize::from((pair >> (10 - bit % 8)) & 63)];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_differ() {
        let (mut one, mut other) = (Source::new(), Source::new());
        let names: HashSet<[u8; 27]> = (0..1000)
            .flat_map(|_| [one.next(5), other.next(5)])
            .collect();
        assert_eq!(names.len(), 2000);
        assert!(
            names
                .iter()
                .flatten()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte))
        );
    }

    #[test]
    fn base64() {
        let mut bytes = [0; 20];
        bytes[..3].copy_from_slice(b"Man");
        bytes[19] = 0xff;
        assert_eq!(&text(&bytes), b"TWFuAAAAAAAAAAAAAAAAAAAAAP8");
    }
}
