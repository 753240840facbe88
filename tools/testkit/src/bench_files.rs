//! The files of the published workloads, made byte for byte the same every time.
//!
//! Sizes are the figure; the content is only plausible: images are bytes that do not compress, pages are text.

use std::{fs, io, path::Path};

/// 285 bytes of HTML (B3 of the published comparisons).
pub const SMALL: &str = "small.html";
/// 163 bytes of HTML (B2).
pub const TINY: &str = "tiny.html";
/// 6.3 kB (B4).
pub const MEDIUM: &str = "medium.html";
/// 4 kB (B5).
pub const PAGE: &str = "page.html";
/// Images and their sizes (B1).
pub const IMAGES: [(&str, usize); 5] =
    [("img/1.jpg", 20_000), ("img/2.jpg", 50_000), ("img/3.jpg", 80_000), ("img/4.jpg", 120_000), ("img/5.jpg", 200_000)];
/// 21 MB (B4).
pub const LARGE: &str = "large.flv";
pub const LARGE_BYTES: usize = 21_000_000;

/// Writes them all below `root`.
pub fn write(root: &Path) -> io::Result<()> {
    fs::create_dir_all(root.join("img"))?;
    for (name, size) in [(TINY, 163), (SMALL, 285), (PAGE, 4_000), (MEDIUM, 6_300)] {
        fs::write(root.join(name), html(size))?;
    }
    for (number, (name, size)) in (1..).zip(IMAGES) {
        fs::write(root.join(name), noise(number, b"\xff\xd8\xff\xe0", size))?;
    }
    fs::write(root.join(LARGE), noise(99, b"FLV\x01\x05", LARGE_BYTES))
}

/// A page of exactly `size` bytes.
fn html(size: usize) -> Vec<u8> {
    const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>A page</title></head>\n<body>\n";
    const TAIL: &str = "\n</body>\n</html>\n";
    const WORDS: &str = "The falcon sees the field, waits for the wind, and is there before the sound. ";
    let middle = WORDS.bytes().cycle().take(size.saturating_sub(HEAD.len() + TAIL.len()));
    let mut page: Vec<u8> = HEAD.bytes().chain(middle).chain(TAIL.bytes()).collect();
    page.truncate(size);
    page
}

/// Bytes of an xorshift generator, after a beginning that tells the type.
fn noise(seed: u64, magic: &[u8], size: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = magic.to_vec();
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TempDir;

    #[test]
    fn sizes_are_what_they_say() {
        let dir = TempDir::new("bench-files").expect("made");
        write(&dir).expect("written");
        let size = |name: &str| fs::metadata(dir.join(name)).expect("there").len();
        assert_eq!([size(TINY), size(SMALL), size(PAGE), size(MEDIUM), size(LARGE)], [163, 285, 4_000, 6_300, LARGE_BYTES as u64]);
        for (name, bytes) in IMAGES {
            assert_eq!(size(name), bytes as u64, "{name}");
        }
    }

    #[test]
    fn the_same_every_time_and_not_compressible() {
        assert_eq!(noise(3, b"x", 1000), noise(3, b"x", 1000));
        let mut seen = [false; 256];
        noise(3, b"", 4096).iter().for_each(|byte| seen[usize::from(*byte)] = true);
        assert!(seen.iter().all(|seen| *seen));
    }

    #[test]
    fn small_pages_end_as_pages() {
        assert!(html(285).ends_with(b"</html>\n"));
    }
}
