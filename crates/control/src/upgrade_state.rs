//! State of a server that its successor goes on with, as bytes in a sealed file in memory.
//!
//! Called by: both ends of an upgrade (`server::process::upgrade`), which know what the parts mean.
//! Caveat: the other end may be another version. Parts have names and are read one by one: unknown
//! ones are skipped, and a part that does not decode is the reader's to leave out. The file holds
//! keys, so it has no name in any file system, and it is sealed so that nothing in it changes while
//! it is read.
//! Out of scope: the conversation (`upgrade`).

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, memfd_create};
use saker_net::wire::{Reader, Writer};
use std::{
    fs::File,
    io::{self, Seek, SeekFrom, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileExt,
    },
};

/// Begins the file; the number is the version of its format, which names and parts keep stable.
const MAGIC: &[u8] = b"saker upgrade state 1\n";
/// A state is far smaller: half a million addresses with debts are 40 MB.
pub const BYTES_MAX: usize = 256 << 20;
/// Nothing may be changed any more.
const SEALED: SealFlags = SealFlags::WRITE
    .union(SealFlags::GROW)
    .union(SealFlags::SHRINK)
    .union(SealFlags::SEAL);

/// A part of a state: its name and its content.
pub type Part = (String, Vec<u8>);

/// Creates an empty file, which is offered before there is anything in it.
///
/// # Errors
/// The kernel has no memory or no descriptor left.
pub fn create() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    Ok(memfd_create("saker-upgrade", flags)?)
}

/// Writes the parts, and seals the file.
///
/// # Errors
/// It is sealed already, or there is no memory left.
pub fn fill(file: OwnedFd, parts: &[Part]) -> io::Result<()> {
    let mut file = File::from(file);
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&encode(parts))?;
    Ok(fcntl_add_seals(file.as_fd(), SEALED)?)
}

/// Reads the parts of a sealed file.
///
/// # Errors
/// It is not sealed, is too large, or is no state of this format.
pub fn read(file: OwnedFd) -> io::Result<Vec<Part>> {
    let refused = |reason| io::Error::new(io::ErrorKind::InvalidData, reason);
    if !fcntl_get_seals(&file)?.contains(SEALED) {
        return Err(refused("the file is not sealed"));
    }
    let size = usize::try_from(fstat(&file)?.st_size).map_err(io::Error::other)?;
    if size > BYTES_MAX {
        return Err(refused("the file is too large"));
    }
    let mut bytes = vec![0; size];
    File::from(file).read_exact_at(&mut bytes, 0)?;
    decode(&bytes)
}

fn encode(parts: &[Part]) -> Vec<u8> {
    let mut writer = Writer(MAGIC.to_vec());
    writer.list(parts, |writer, (name, content)| {
        writer.text(name.as_bytes());
        writer.text(content);
    });
    writer.0
}

fn decode(bytes: &[u8]) -> io::Result<Vec<Part>> {
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "its format is another version's",
        )
    })?;
    let mut reader = Reader(rest);
    let parts = reader.list(|reader| Ok((reader.string()?, reader.text()?.to_vec())))?;
    reader.end()?;
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Vec<Part> {
        vec![
            ("tickets".into(), vec![0, 255, 7]),
            ("of a later version".into(), Vec::new()),
        ]
    }

    fn file_of(content: &[u8], seals: SealFlags) -> OwnedFd {
        let file = create().unwrap();
        File::from(file.try_clone().unwrap())
            .write_all(content)
            .unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file
    }

    #[test]
    fn a_sealed_file_carries_the_parts() {
        let file = create().unwrap();
        let (mut here, there) = (
            File::from(file.try_clone().unwrap()),
            file.try_clone().unwrap(),
        );
        assert!(read(file.try_clone().unwrap()).is_err(), "nothing is in it");
        fill(file.try_clone().unwrap(), &parts()).unwrap();
        assert_eq!(read(there).unwrap(), parts());
        assert!(here.write_all(b"x").is_err() && here.set_len(0).is_err());
        assert!(fill(file, &parts()).is_err());
    }

    #[test]
    fn what_could_still_change_is_refused() {
        let good = encode(&parts());
        assert!(read(file_of(&good, SEALED)).is_ok());
        for missing in [SealFlags::WRITE, SealFlags::GROW, SealFlags::SHRINK] {
            let seals = SEALED.difference(missing).difference(SealFlags::SEAL);
            assert!(read(file_of(&good, seals)).is_err(), "{missing:?}");
        }
        let on_disk = File::open(std::env::current_exe().unwrap()).unwrap();
        assert!(read(on_disk.into()).is_err());
    }

    #[test]
    fn what_is_no_state_is_refused() {
        let good = encode(&parts());
        for end in 0..good.len() {
            assert!(decode(&good[..end]).is_err(), "{end}");
        }
        let long = [&good[..], b"x"].concat();
        let mut many = Writer(MAGIC.to_vec());
        many.number(u64::MAX);
        let mut later = good.clone();
        later[MAGIC.len() - 2] = b'2';
        for bytes in [long, many.0, later] {
            assert!(decode(&bytes).is_err());
        }
        let large = create().unwrap();
        rustix::fs::ftruncate(&large, BYTES_MAX as u64 + 1).unwrap();
        fcntl_add_seals(&large, SEALED).unwrap();
        assert!(read(large).is_err());
    }
}
