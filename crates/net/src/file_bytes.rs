//! Bytes of a file behind others in memory, without a first pass that fills the memory with zeros.
//!
//! Called by: what sends files from memory.
//! Caveat: a file that is shorter than it was leaves nothing.
//! Out of scope: files that the kernel sends by itself.

use std::{fs::File, io};

/// Appends `count` bytes of the file from `offset`.
///
/// # Errors
/// The file has fewer bytes or can't be read; `out` is as it was.
pub fn append_exact_at(
    file: &File,
    mut offset: u64,
    count: usize,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let start = out.len();
    let end = start.saturating_add(count);
    out.reserve(count);
    while out.len() < end {
        let room = end - out.len();
        let Some(room) = out.spare_capacity_mut().get_mut(..room) else {
            out.truncate(start);
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let read = match rustix::io::pread(file, room, offset) {
            Ok((read, _)) => read.len(),
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => {
                out.truncate(start);
                return Err(error.into());
            }
        };
        if read == 0 {
            out.truncate(start);
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        offset += read as u64;
        #[allow(unsafe_code)]
        // SAFETY: the first `read` bytes behind the length are initialized and within the capacity:
        // the system call has written them, and rustix has returned them as that part of the room.
        // Test: `bytes_stand_behind_others`.
        unsafe {
            out.set_len(out.len() + read);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use saker_testkit::TempDir;
    use std::fs;

    #[test]
    fn bytes_stand_behind_others() {
        let dir = TempDir::new("file-bytes").unwrap();
        let content: Vec<u8> = (0..=255u8).cycle().take(70_000).collect();
        fs::write(dir.join("file"), &content).unwrap();
        let file = File::open(dir.join("file")).unwrap();
        let mut out = b"head".to_vec();
        append_exact_at(&file, 0, 70_000, &mut out).unwrap();
        append_exact_at(&file, 69_998, 2, &mut out).unwrap();
        append_exact_at(&file, 5, 0, &mut out).unwrap();
        assert_eq!(out, [b"head", &content[..], &content[69_998..]].concat());
        let before = out.clone();
        for (offset, count) in [(69_999, 2), (70_000, 1), (u64::MAX, 1)] {
            assert!(append_exact_at(&file, offset, count, &mut out).is_err());
            assert_eq!(out, before, "{offset}");
        }
    }
}
