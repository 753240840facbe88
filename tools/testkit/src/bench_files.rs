//! The files of the published workloads, made byte for byte the same every time.
//!
//! Sizes are the figure; the content is only plausible: images are bytes that do not compress,
//! pages are text.

use crate::Dice;
use std::{fs, io, path::Path};

/// 285 bytes of HTML (B3 of the published comparisons).
pub const SMALL: &str = "small.html";
pub const SMALL_BYTES: usize = 285;
/// 163 bytes of HTML (B2).
pub const TINY: &str = "tiny.html";
/// 6.3 kB (B4).
pub const MEDIUM: &str = "medium.html";
/// 4 kB (B5).
pub const PAGE: &str = "page.html";
/// Images and their sizes (B1).
pub const IMAGES: [(&str, usize); 5] = [
    ("img/1.jpg", 20_000),
    ("img/2.jpg", 50_000),
    ("img/3.jpg", 80_000),
    ("img/4.jpg", 120_000),
    ("img/5.jpg", 200_000),
];
/// 21 MB (B4).
pub const LARGE: &str = "large.flv";
pub const LARGE_BYTES: usize = 21_000_000;
/// 100 MB (B2); too much for every test: [`write_huge`] makes it.
pub const HUGE: &str = "huge.bin";
pub const HUGE_BYTES: usize = 100_000_000;
/// 10 MB (B2), written with it.
pub const TEN: &str = "ten.bin";
pub const TEN_BYTES: usize = 10_000_000;
/// A page (4 kB) and the 40 small files that it needs (0.5 to 4.4 kB).
#[rustfmt::skip]
pub const PAGE_AND_PARTS: [&str; 41] = [
    PAGE,
    "part/01.css", "part/02.css", "part/03.css", "part/04.css", "part/05.js", "part/06.js", "part/07.js", "part/08.js",
    "part/09.png", "part/10.png", "part/11.png", "part/12.png", "part/13.png", "part/14.png", "part/15.png", "part/16.png",
    "part/17.png", "part/18.png", "part/19.png", "part/20.png", "part/21.png", "part/22.png", "part/23.png", "part/24.png",
    "part/25.png", "part/26.png", "part/27.png", "part/28.png", "part/29.png", "part/30.png", "part/31.png", "part/32.png",
    "part/33.jpg", "part/34.jpg", "part/35.jpg", "part/36.jpg", "part/37.jpg", "part/38.jpg", "part/39.jpg", "part/40.jpg",
];

/// The shop's page with the same small files.
pub const SHOP_AND_PARTS: [&str; 41] = {
    let mut all = PAGE_AND_PARTS;
    all[0] = SHOP_PAGE;
    all
};

/// 285 bytes three folders deep, with an access rule in its folder's `.htaccess`.
pub const DEEP: &str = "deep/a/b/small.html";
/// 285 bytes under 20 rewrite rules that depend on the path only.
pub const RULED: &str = "rules/small.html";
/// A path of a blog whose rules test for files and folders before they give it to its index.
pub const PERMALINK: &str = "blog/2026/11/hello-world/";
/// A program that says hello, and one that says much (phpinfo).
pub const HELLO: &str = "hello.php";
pub const PHPINFO: &str = "info.php";
/// File served by a server behind a proxy.
pub const KILOBYTE: &str = "kilobyte.html";
pub const MEGABYTE: &str = "megabyte.bin";
/// 30 kB, as pages of shops are (B1).
pub const SHOP_PAGE: &str = "shop.html";

/// Writes them all below `root`, but for the 100 MB.
pub fn write(root: &Path) -> io::Result<()> {
    fs::create_dir_all(root.join("img"))?;
    fs::create_dir_all(root.join("part"))?;
    for (name, size) in [
        (TINY, 163),
        (SMALL, SMALL_BYTES),
        (PAGE, 4_000),
        (MEDIUM, 6_300),
    ] {
        fs::write(root.join(name), html(size))?;
    }
    write_rules(root)?;
    fs::write(root.join(HELLO), "<?php echo \"Hello, world!\\n\";\n")?;
    fs::write(root.join(PHPINFO), "<?php phpinfo();\n")?;
    fs::write(root.join(KILOBYTE), html(1000))?;
    fs::write(root.join(SHOP_PAGE), html(30_000))?;
    fs::write(root.join(MEGABYTE), noise(98, b"", 1_000_000))?;
    for (number, (name, size)) in (1..).zip(IMAGES) {
        fs::write(root.join(name), noise(number, b"\xff\xd8\xff\xe0", size))?;
    }
    for (number, name) in (0..).zip(PAGE_AND_PARTS).skip(1) {
        fs::write(
            root.join(name),
            noise(number as u64, b"", part_bytes(number)),
        )?;
    }
    fs::write(root.join(LARGE), noise(99, b"FLV\x01\x05", LARGE_BYTES))
}

/// Content of [`SMALL`].
pub fn small_page() -> Vec<u8> {
    html(SMALL_BYTES)
}

fn write_rules(root: &Path) -> io::Result<()> {
    let rules: String = (0..20)
        .map(|number| format!("RewriteRule ^old{number}/(.*)$ /new{number}/$1 [L]\n"))
        .collect();
    for (folder, page, rules) in [
        ("deep/a/b", "small.html", "Require all granted\nOptions -Indexes\n".to_owned()),
        ("rules", "small.html", format!("RewriteEngine On\n{rules}")),
        (
            "blog",
            "index.html",
            "RewriteEngine On\nRewriteBase /blog/\nRewriteRule ^index\\.html$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
             RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /blog/index.html [L]\n"
                .to_owned(),
        ),
    ] {
        fs::create_dir_all(root.join(folder))?;
        fs::write(root.join(folder).join(page), html(SMALL_BYTES))?;
        fs::write(root.join(folder).join(".htaccess"), rules)?;
    }
    Ok(())
}

pub fn write_huge(root: &Path) -> io::Result<()> {
    fs::write(root.join(TEN), noise(101, b"", TEN_BYTES))?;
    fs::write(root.join(HUGE), noise(100, b"", HUGE_BYTES))
}

/// Size of a file whose name states one; 0 for others.
pub fn bytes_of(name: &str) -> usize {
    match name {
        TINY => 163,
        SMALL => SMALL_BYTES,
        TEN => TEN_BYTES,
        LARGE => LARGE_BYTES,
        HUGE => HUGE_BYTES,
        _ => 0,
    }
}

fn part_bytes(number: usize) -> usize {
    400 + 100 * number
}

/// A page of exactly `size` bytes.
fn html(size: usize) -> Vec<u8> {
    const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>A page</title></head>\n<body>\n";
    const TAIL: &str = "\n</body>\n</html>\n";
    const WORDS: &str =
        "The falcon sees the field, waits for the wind, and is there before the sound. ";
    let middle = WORDS
        .bytes()
        .cycle()
        .take(size.saturating_sub(HEAD.len() + TAIL.len()));
    let mut page: Vec<u8> = HEAD.bytes().chain(middle).chain(TAIL.bytes()).collect();
    page.truncate(size);
    page
}

/// Bytes by chance, after a beginning that tells the type.
pub fn noise(seed: u64, magic: &[u8], size: usize) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let mut bytes = magic.to_vec();
    while bytes.len() < size {
        bytes.extend_from_slice(&dice.roll().to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// Bytes of which each eight are different, so that nothing lost or doubled goes unseen.
pub fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes as u64 / 8).flat_map(u64::to_le_bytes).collect()
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
        assert_eq!(
            [
                size(TINY),
                size(SMALL),
                size(PAGE),
                size(MEDIUM),
                size(LARGE)
            ],
            [163, 285, 4_000, 6_300, LARGE_BYTES as u64]
        );
        for (name, bytes) in IMAGES {
            assert_eq!(size(name), bytes as u64, "{name}");
        }
        assert_eq!(
            PAGE_AND_PARTS.map(size).iter().sum::<u64>(),
            4_000 + 40 * 400 + 100 * (1..=40).sum::<u64>()
        );
    }

    #[test]
    fn the_same_every_time_and_not_compressible() {
        assert_eq!(noise(3, b"x", 1000), noise(3, b"x", 1000));
        let mut seen = [false; 256];
        noise(3, b"", 4096)
            .iter()
            .for_each(|byte| seen[usize::from(*byte)] = true);
        assert!(seen.iter().all(|seen| *seen));
    }

    #[test]
    fn small_pages_end_as_pages() {
        assert!(html(285).ends_with(b"</html>\n"));
    }
}
