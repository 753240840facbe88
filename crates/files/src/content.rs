//! Reads a small file completely, so that it can be kept in memory.
//!
//! Called by: the static file handler.
//! Caveat: a file may be rewritten in place while it is read: bytes of two versions must never be
//! mixed under one validator.
//! Out of scope: files above the caller's limit, which are sent from the descriptor and guarded by
//! their length.

use crate::{Metadata, metadata};
use std::{fs::File, io, os::unix::fs::FileExt};

/// Times are kept in ticks of up to 10 ms; twice that means that a later write would have shown
/// another time.
const SETTLED_MS: i64 = 20;

/// A change time this far ahead was not made by a running clock: ours was set back meanwhile.
const CLOCK_STEP_MS: i64 = 1000;

/// The content of an open file that `resolve` described by `metadata`. `None`: it changed
/// meanwhile, resolve again. More than `bytes_max` is an error of kind `FileTooLarge`.
pub fn read_consistent(
    file: &File,
    known: &Metadata,
    bytes_max: u64,
) -> io::Result<Option<Vec<u8>>> {
    if known.size > bytes_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let size = usize::try_from(known.size).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut content = vec![0; size];
    match file.read_exact_at(&mut content, 0) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    // A write during the read has moved the change time, if the time was settled before
    // (`is_settled`); a longer file shows in its size.
    Ok((metadata(file)? == *known).then_some(content))
}

/// Returns true if a later write is sure to show in the metadata: only then may content be cached.
/// A file changed within the last tick may be changed again without a new time, and is perhaps
/// still being written. The change time decides, not the modification time, which any owner may set
/// to anything. `now_realtime_ms`: milliseconds since 1970.
pub fn is_settled(metadata: &Metadata, now_realtime_ms: i64) -> bool {
    let changed_ms = metadata
        .ctime_s
        .saturating_mul(1000)
        .saturating_add(i64::from(metadata.ctime_ns / 1_000_000));
    let age_ms = now_realtime_ms.saturating_sub(changed_ms);
    !(-CLOCK_STEP_MS..SETTLED_MS).contains(&age_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use saker_testkit::wait_until;
    use std::{
        fs,
        time::{SystemTime, UNIX_EPOCH},
    };

    fn now_ms() -> i64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_millis() as i64
    }

    fn open(scratch: &Scratch, name: &str) -> (File, Metadata) {
        let file = File::open(scratch.path(name)).unwrap();
        let metadata = metadata(&file).unwrap();
        (file, metadata)
    }

    #[test]
    fn reads_what_is_there() {
        let scratch = Scratch::new();
        for (name, content) in [("empty", ""), ("some", "content")] {
            scratch.write(name, content);
            let (file, metadata) = open(&scratch, name);
            assert_eq!(
                read_consistent(&file, &metadata, 7).unwrap().unwrap(),
                content.as_bytes()
            );
        }
    }

    #[test]
    fn the_bound_is_exact() {
        let scratch = Scratch::new();
        scratch.write("some", "content");
        let (file, metadata) = open(&scratch, "some");
        assert_eq!(
            read_consistent(&file, &metadata, 6).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
    }

    #[test]
    fn a_change_since_is_noticed() {
        let scratch = Scratch::new();
        for new in ["longer content", "short", "CONTENT", ""] {
            scratch.write("some", "content");
            let (file, metadata) = open(&scratch, "some");
            wait_until("a settled file", || is_settled(&metadata, now_ms()));
            fs::write(scratch.path("some"), new).unwrap();
            assert_eq!(
                read_consistent(&file, &metadata, 100).unwrap(),
                None,
                "{new:?}"
            );
        }
    }

    #[test]
    fn settled_on_both_sides_of_the_edge() {
        let scratch = Scratch::new();
        scratch.write("some", "");
        let (_, mut metadata) = open(&scratch, "some");
        (metadata.ctime_s, metadata.ctime_ns) = (1_000, 500_000_000);
        assert!(!is_settled(&metadata, 1_000_519));
        assert!(is_settled(&metadata, 1_000_520));
        assert!(
            !is_settled(&metadata, 999_500),
            "a second ahead: written by a clock that runs a little ahead of ours"
        );
        assert!(
            is_settled(&metadata, 999_499),
            "more: the clock was set back"
        );
        metadata.ctime_s = i64::MAX;
        assert!(is_settled(&metadata, i64::MIN));
    }
}
