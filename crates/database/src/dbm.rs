//! DBM files as `httxt2dbm` and `htdbm` write them: SDBM, GDBM and Berkeley DB's hash, read whole.
//!
//! Called by: password and group files of auth, rewrite maps.
//! Caveat: the files are memory images of other programs, so every number in them is checked, and
//! invalid entries are left out.
//! Out of scope: indexes, which serve single look-ups only; Berkeley DB's overflow pages and trees;
//! files of machines with the other byte order.

/// A key and its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

const SDBM_PAGE_BYTES: usize = 1024;
/// Magic numbers of GDBM files from 64-bit, little-endian machines.
const GDBM_MAGICS: [u32; 3] = [0x1357_9acf, 0x1357_9ad0, 0x1357_9ace];
/// Size of an element of a GDBM bucket: hash, first bytes of the key, offset, two lengths.
const GDBM_ELEMENT_BYTES: usize = 24;
/// Before the elements of a bucket: free blocks, the bits of its hash, its number of keys.
const GDBM_BUCKET_HEAD_BYTES: usize = 8 + 6 * 16 + 8;

/// Reads a DBM file. `kind`: its APR name. `content` reads the file with that suffix; `keep` takes
/// the pairs.
///
/// # Errors
/// Why the file can't be read.
pub fn read<T>(
    kind: &str,
    mut content: impl FnMut(&str) -> Result<Vec<u8>, String>,
    keep: impl FnOnce(Vec<Pair<'_>>) -> T,
) -> Result<T, String> {
    let other = || "not a database of that kind".to_owned();
    match kind.to_ascii_lowercase().as_str() {
        "sdbm" => Ok(keep(sdbm(&content(".pag")?))),
        "gdbm" => gdbm(&content("")?).map(keep).ok_or_else(other),
        "db" => berkeley(&content("")?).map(keep).ok_or_else(other),
        // Which kind APR takes then is a matter of how it was built: the file knows.
        "default" => match content("") {
            Ok(whole) => gdbm(&whole)
                .or_else(|| berkeley(&whole))
                .map(keep)
                .ok_or_else(other),
            Err(error) => content(".pag")
                .map(|pages| keep(sdbm(&pages)))
                .map_err(|_| error),
        },
        _ => Err("unknown kind of database".into()),
    }
}

/// Reads all pairs of an SDBM `.pag` file: pages of pairs, with the offsets of both at the
/// beginning, counted from the end of the page backwards.
pub fn sdbm(pages: &[u8]) -> Vec<Pair<'_>> {
    pages
        .chunks_exact(SDBM_PAGE_BYTES)
        .flat_map(sdbm_page)
        .collect()
}

fn sdbm_page(page: &[u8]) -> Vec<Pair<'_>> {
    let number = |at: usize| {
        page.get(at * 2..at * 2 + 2)
            .and_then(|two| two.try_into().ok())
            .map(u16::from_ne_bytes)
            .map(usize::from)
    };
    let count = number(0).unwrap_or(0).min(SDBM_PAGE_BYTES / 4);
    let (mut pairs, mut end) = (Vec::new(), SDBM_PAGE_BYTES);
    for at in (1..=count).step_by(2) {
        let (Some(key_at), Some(value_at)) = (number(at), number(at + 1)) else {
            break;
        };
        let (Some(key), Some(value)) = (page.get(key_at..end), page.get(value_at..key_at)) else {
            break;
        };
        pairs.push((key, value));
        end = value_at;
    }
    pairs
}

/// Reads all pairs of a GDBM file. `None` if it is not one, or has another machine's byte order.
pub fn gdbm(file: &[u8]) -> Option<Vec<Pair<'_>>> {
    let short = |at: usize| {
        Some(u32::from_le_bytes(
            file.get(at..at.checked_add(4)?)?.try_into().ok()?,
        ))
    };
    let long = |at: usize| {
        usize::try_from(u64::from_le_bytes(
            file.get(at..at.checked_add(8)?)?.try_into().ok()?,
        ))
        .ok()
    };
    if !GDBM_MAGICS.contains(&short(0)?) {
        return None;
    }
    let (directory, directory_bytes) = (long(8)?, short(16)? as usize);
    let (bucket_bytes, elements_max) = (short(24)? as usize, short(28)? as usize);
    let mut buckets: Vec<usize> = (0..directory_bytes / 8)
        .map_while(|at| long(directory.checked_add(at * 8)?))
        .collect();
    buckets.dedup();
    let mut pairs = Vec::new();
    for bucket in buckets {
        let Some(bucket) = file.get(bucket..bucket.saturating_add(bucket_bytes)) else {
            continue;
        };
        let elements = bucket
            .get(GDBM_BUCKET_HEAD_BYTES..)
            .unwrap_or_default()
            .chunks_exact(GDBM_ELEMENT_BYTES)
            .take(elements_max);
        pairs.extend(elements.filter_map(|element| gdbm_pair(file, element)));
    }
    Some(pairs)
}

/// An element without a key has -1 for its hash.
fn gdbm_pair<'f>(file: &'f [u8], element: &[u8]) -> Option<Pair<'f>> {
    let short = |at: usize| {
        Some(i32::from_le_bytes(
            element.get(at..at + 4)?.try_into().ok()?,
        ))
    };
    let place = usize::try_from(u64::from_le_bytes(element.get(8..16)?.try_into().ok()?)).ok()?;
    let (key_bytes, value_bytes) = (
        usize::try_from(short(16)?).ok()?,
        usize::try_from(short(20)?).ok()?,
    );
    if short(0)? == -1 {
        return None;
    }
    let middle = place.checked_add(key_bytes)?;
    Some((
        file.get(place..middle)?,
        file.get(middle..middle.checked_add(value_bytes)?)?,
    ))
}

/// Berkeley DB's magic number of hash files, and what pages with pairs are called (unsorted of old,
/// and sorted).
const BERKELEY_MAGIC: u32 = 0x0006_1561;
const BERKELEY_PAGES: [u8; 2] = [2, 13];
const BERKELEY_PAGE_HEAD_BYTES: usize = 26;
/// A key or a value that stands on the page itself.
const BERKELEY_KEY_DATA: u8 = 1;

/// Reads all pairs of a Berkeley DB hash file. `None` if it is not one.
pub fn berkeley(file: &[u8]) -> Option<Vec<Pair<'_>>> {
    let number = |at: usize| Some(u32::from_ne_bytes(file.get(at..at + 4)?.try_into().ok()?));
    if number(12)? != BERKELEY_MAGIC {
        return None;
    }
    let page_bytes = usize::try_from(number(20)?)
        .ok()
        .filter(|bytes| (512..=65_536).contains(bytes))?;
    Some(
        file.chunks_exact(page_bytes)
            .filter(|page| {
                page.get(25)
                    .is_some_and(|kind| BERKELEY_PAGES.contains(kind))
            })
            .flat_map(berkeley_page)
            .collect(),
    )
}

/// Items stand from the end of the page backwards, their places in a list behind the head.
fn berkeley_page(page: &[u8]) -> Vec<Pair<'_>> {
    let number = |at: usize| {
        page.get(at..at + 2)
            .and_then(|two| two.try_into().ok())
            .map(u16::from_ne_bytes)
            .map(usize::from)
    };
    let count = number(20).unwrap_or(0);
    let item = |index: usize| {
        let from = number(BERKELEY_PAGE_HEAD_BYTES + index * 2)?;
        let end = if index == 0 {
            page.len()
        } else {
            number(BERKELEY_PAGE_HEAD_BYTES + (index - 1) * 2)?
        };
        page.get(from..end)?
            .split_first()
            .filter(|(kind, _)| **kind == BERKELEY_KEY_DATA)
            .map(|(_, data)| data)
    };
    (0..count)
        .step_by(2)
        .filter_map(|index| item(index).zip(item(index + 1)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::{TempDir, require};
    use std::process::Command;

    fn made(kind: &str, name: &str, count: usize) -> Vec<u8> {
        let dir = TempDir::new("dbm").unwrap();
        let text: String = (0..count)
            .map(|number| format!("key{number} value-{}\n", number * 7))
            .collect();
        dir.write("in.txt", text).unwrap();
        let program = require("httxt2dbm").unwrap();
        let output = Command::new(program)
            .args(["-f", kind, "-i", "in.txt", "-o", "out"])
            .current_dir(&*dir)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        std::fs::read(dir.join(name)).unwrap()
    }

    type Reader = fn(&[u8]) -> Vec<Pair<'_>>;
    const KINDS: [(&str, &str, Reader); 3] = [
        ("sdbm", "out.pag", sdbm),
        ("gdbm", "out", |file| gdbm(file).unwrap_or_default()),
        ("db", "out", |file| berkeley(file).unwrap_or_default()),
    ];

    #[test]
    fn what_apaches_own_program_makes() {
        for (kind, name, read) in KINDS {
            for count in [1, 3, 2000] {
                let file = made(kind, name, count);
                let mut found: Vec<(String, String)> = read(&file)
                    .into_iter()
                    .map(|(key, value)| {
                        (
                            String::from_utf8_lossy(key).into(),
                            String::from_utf8_lossy(value).into(),
                        )
                    })
                    .collect();
                found.sort();
                let mut expected: Vec<_> = (0..count)
                    .map(|number| (format!("key{number}"), format!("value-{}", number * 7)))
                    .collect();
                expected.sort();
                assert!(
                    found == expected,
                    "{kind} {count}: {} found, {:?}",
                    found.len(),
                    found.first()
                );
            }
        }
    }

    #[test]
    fn broken_files_do_no_harm() {
        for (kind, name, read) in KINDS {
            let file = made(kind, name, 20);
            for at in (0..file.len()).step_by(7) {
                let mut broken = file.clone();
                if let Some(byte) = broken.get_mut(at) {
                    *byte ^= 0xff;
                }
                read(&broken);
                read(file.get(..at).unwrap_or_default());
            }
        }
        assert!(gdbm(b"").is_none() && berkeley(b"abc").is_none() && sdbm(b"abc").is_empty());
    }
}
