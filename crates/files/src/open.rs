//! Opens files in directories that other users may write to: without blocking, and only if the
//! descriptor is a regular file.
//!
//! Called by: everything that opens a path below a document root, including `resolve`; `cargo xtask
//! tidy` forbids other ways. Between a check of a name and its opening the name may be given to a
//! FIFO, whose opening would block the thread forever, to a device, or to a link that leads
//! elsewhere.
//! Caveat: `open_regular` follows links in its path; use `resolve` where a link policy applies.
//! Out of scope: directories, which `resolve` opens as paths and `read_directory` reads.

use crate::{Kind, Metadata, metadata, private::is_below_private};
use rustix::{
    fs::{CWD, Mode, OFlags, fstat, openat},
    io::Errno,
};
use std::{
    fs::File,
    io::{self, Read},
    os::fd::AsFd,
    path::Path,
};

/// Opens an entry of an open directory for reading, whatever it is by now, and returns its kind. A
/// link is not followed but an error (ELOOP), as is a socket (ENXIO). The only place in this crate
/// that opens content.
pub(crate) fn open_unblocked(
    folder: impl AsFd,
    name: &[u8],
    also: OFlags,
) -> Result<(File, Metadata), Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY | also;
    let file = File::from(openat(folder, name, flags, Mode::empty())?);
    let metadata = Metadata::from(&fstat(&file)?);
    Ok((file, metadata))
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")
}

/// Opens an entry of an open folder that is a regular file and no link.
///
/// # Errors
/// Those of opening it; `InvalidInput` where it is something else.
pub fn open_entry(folder: &File, name: &[u8]) -> io::Result<(File, Metadata)> {
    if name.contains(&b'/') {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    let (file, metadata) = open_unblocked(folder, name, OFlags::NOFOLLOW)?;
    if metadata.kind == Kind::File {
        Ok((file, metadata))
    } else {
        Err(not_regular())
    }
}

/// Opens a regular file by its path. Links are followed; other kinds of files are not opened at
/// all.
///
/// # Errors
/// Those of opening it; `InvalidInput` if it is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let looked_at = File::from(openat(
        CWD,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
    )?);
    let known = metadata(&looked_at)?;
    if known.kind != Kind::File {
        return Err(not_regular());
    }
    let (file, metadata) =
        open_unblocked(CWD, path.as_os_str().as_encoded_bytes(), OFlags::empty())?;
    let is_the_same = metadata.kind == Kind::File
        && (metadata.device, metadata.inode) == (known.device, known.inode);
    if is_the_same {
        Ok((file, metadata))
    } else {
        Err(Errno::STALE.into())
    }
}

/// As [`open_regular`], for paths that tenants name: nothing that is the server's alone.
///
/// # Errors
/// As [`open_regular`]; `PermissionDenied` below a private directory.
pub fn open_public(path: &Path) -> io::Result<(File, Metadata)> {
    let opened = open_regular(path)?;
    match is_below_private(&opened.0) {
        true => Err(io::ErrorKind::PermissionDenied.into()),
        false => Ok(opened),
    }
}

/// Reads a regular file whole, up to its end or `bytes_max`, whatever its size is said to be. Links
/// are followed.
///
/// # Errors
/// As [`open_regular`], and `FileTooLarge`.
pub fn read_regular(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let (file, _) = open_regular(path)?;
    let mut content = Vec::new();
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut content)?;
    if content.len() as u64 > bytes_max {
        Err(io::ErrorKind::FileTooLarge.into())
    } else {
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use rustix::fs::{FileType, mknodat};
    use std::os::unix::net::UnixListener;

    fn scratch() -> Scratch {
        let scratch = Scratch::new();
        scratch.write("file", "content");
        scratch.link("link", "file");
        scratch.link("nowhere", "gone");
        scratch.link("zero", "/dev/zero");
        scratch.write("folder/inner", "");
        mknodat(
            CWD,
            scratch.path("fifo"),
            FileType::Fifo,
            Mode::from(0o600),
            0,
        )
        .unwrap();
        scratch
    }

    #[test]
    fn entries_are_regular_files() {
        let scratch = scratch();
        let _socket = UnixListener::bind(scratch.path("socket")).unwrap();
        let folder = File::open(scratch.root()).unwrap();
        let (mut file, metadata) = open_entry(&folder, b"file").unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), metadata.size), ("content", 7));
        for name in [
            "fifo",
            "socket",
            "folder",
            "link",
            "nowhere",
            "zero",
            "missing",
            "folder/inner",
            ".",
            "..",
        ] {
            assert!(open_entry(&folder, name.as_bytes()).is_err(), "{name}");
        }
    }

    #[test]
    fn paths_lead_to_regular_files() {
        let scratch = scratch();
        for name in ["file", "link"] {
            assert_eq!(
                read_regular(&scratch.path(name), 7).unwrap(),
                b"content",
                "{name}"
            );
            assert_eq!(
                read_regular(&scratch.path(name), 6).unwrap_err().kind(),
                io::ErrorKind::FileTooLarge,
                "{name}"
            );
        }
        for name in ["fifo", "folder", "nowhere", "zero", "missing"] {
            assert!(open_regular(&scratch.path(name)).is_err(), "{name}");
        }
        // Files generated by the kernel have size 0.
        assert!(
            !read_regular(Path::new("/proc/self/status"), 1 << 20)
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn a_name_that_changes_all_the_time_never_blocks() {
        let scratch = scratch();
        let (root, folder) = (
            scratch.root().to_owned(),
            File::open(scratch.root()).unwrap(),
        );
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut round = 0_u32;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    round += 1;
                    let other = root.join(format!("next-{round}"));
                    match round % 3 {
                        0 => mknodat(CWD, &other, FileType::Fifo, Mode::from(0o600), 0).unwrap(),
                        1 => std::fs::write(&other, "content").unwrap(),
                        _ => std::os::unix::fs::symlink("/dev/zero", &other).unwrap(),
                    }
                    std::fs::rename(&other, root.join("swapped")).unwrap();
                }
            });
            for _ in 0..3000 {
                for opened in [
                    open_entry(&folder, b"swapped"),
                    open_regular(&root.join("swapped")),
                ] {
                    assert!(
                        opened.is_err()
                            || opened.is_ok_and(|(_, metadata)| metadata.kind == Kind::File)
                    );
                }
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
