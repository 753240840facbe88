//! Changes below an open directory: files that replace others whole, directories, removals.
//!
//! Called by: WebDAV, with directories that `resolve` returned or that were entered from them.
//! Caveat: every name is one component and every operation is relative to an open directory without
//! following links, so a tree that changes meanwhile leads nowhere else.
//! Out of scope: who may change what, and locks.

use crate::{Kind, Metadata, metadata, private::is_private};
use rustix::{
    fs::{
        AtFlags, Dir, FileType, Mode, OFlags, fchmod, fstat, fsync, mkdirat, openat, renameat,
        statat, unlinkat,
    },
    io::Errno,
};
use std::time::SystemTime;
use std::{
    fs::File,
    io::{self, Write},
    sync::atomic::{AtomicU64, Ordering},
};

/// Attempts to find an unused temporary name.
const ATTEMPTS_MAX: usize = 16;

/// A directory entry itself, not the target of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryStat {
    pub metadata: Metadata,
    pub is_link: bool,
}

fn checked(name: &[u8]) -> io::Result<&[u8]> {
    let is_component = !name.is_empty()
        && !name.contains(&b'/')
        && !name.contains(&0)
        && name != b"."
        && name != b"..";
    match is_component {
        true => Ok(name),
        false => Err(io::ErrorKind::InvalidFilename.into()),
    }
}

/// Looks at an entry without following it. `None`: there is none.
///
/// # Errors
/// Those of looking.
pub fn stat_entry(directory: &File, name: &[u8]) -> io::Result<Option<EntryStat>> {
    match statat(directory, checked(name)?, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(EntryStat {
            metadata: Metadata::from(&stat),
            is_link: FileType::from_raw_mode(stat.st_mode) == FileType::Symlink,
        })),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens a directory in a directory, not following links.
///
/// # Errors
/// Those of opening it; also if it is no directory; `PermissionDenied` if it is the server's own.
pub fn enter_directory(directory: &File, name: &[u8]) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let entered = openat(directory, checked(name)?, flags, Mode::empty())?;
    match is_private(&fstat(&entered)?) {
        true => Err(io::ErrorKind::PermissionDenied.into()),
        false => Ok(File::from(entered)),
    }
}

/// Opens the directory above a directory as a path.
///
/// # Errors
/// Those of opening it.
pub fn parent_directory(directory: &File) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(File::from(openat(directory, c"..", flags, Mode::empty())?))
}

/// Names of all entries of an open directory, without `.` and `..`; `None` if there are more than
/// `entries_max`.
///
/// # Errors
/// Those of reading it.
pub fn entry_names(directory: &File, entries_max: usize) -> io::Result<Option<Vec<Vec<u8>>>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let readable = openat(directory, c".", flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::new(readable)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        if names.len() == entries_max {
            return Ok(None);
        }
        names.push(name.to_vec());
    }
    Ok(Some(names))
}

/// Creates a directory; the process's umask applies.
///
/// # Errors
/// Those of creating it: `AlreadyExists`, for example.
pub fn make_directory(directory: &File, name: &[u8]) -> io::Result<()> {
    Ok(mkdirat(directory, checked(name)?, Mode::from(0o777))?)
}

/// Lets those enter a directory who may read files of this mode in it.
///
/// # Errors
/// Those of opening and changing it.
pub fn set_directory_mode(parent: &File, name: &[u8], file_mode: u32) -> io::Result<()> {
    let directory = enter_directory(parent, name)?;
    Ok(fchmod(&directory, Mode::from(directory_mode(file_mode)))?)
}

/// Gives the directory of that name the permissions of another one.
///
/// # Errors
/// Those of looking at and changing them.
pub fn copy_directory_mode(from: &File, parent: &File, name: &[u8]) -> io::Result<()> {
    let directory = enter_directory(parent, name)?;
    let mode = fstat(from)?.st_mode & 0o777;
    Ok(fchmod(&directory, Mode::from(mode))?)
}

/// The permissions of a directory whose files have these.
fn directory_mode(file_mode: u32) -> u32 {
    (file_mode | (file_mode & 0o444) >> 2) & 0o777
}

/// Enters the directories of a relative path, and creates those that are missing, for files of this
/// mode. Follows no link.
///
/// # Errors
/// Those of creating and opening them; `InvalidInput` for `.` and `..`.
pub fn make_directories(root: &File, path: &[u8], file_mode: u32) -> io::Result<File> {
    let mut directory = root.try_clone()?;
    for name in path
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
    {
        directory = match enter_directory(&directory, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match make_directory(&directory, name) {
                    // Another request was faster.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        enter_directory(&directory, name)?
                    }
                    made => {
                        made?;
                        let made = enter_directory(&directory, name)?;
                        fchmod(&made, Mode::from(directory_mode(file_mode)))?;
                        made
                    }
                }
            }
            entered => entered?,
        };
    }
    Ok(directory)
}

/// Removes a file or a link.
///
/// # Errors
/// Those of removing it.
pub fn remove_entry(directory: &File, name: &[u8]) -> io::Result<()> {
    Ok(unlinkat(directory, checked(name)?, AtFlags::empty())?)
}

/// Removes an empty directory.
///
/// # Errors
/// Those of removing it.
pub fn remove_directory(directory: &File, name: &[u8]) -> io::Result<()> {
    Ok(unlinkat(directory, checked(name)?, AtFlags::REMOVEDIR)?)
}

/// Renames an entry, replacing a file of the new name.
///
/// # Errors
/// Those of renaming it: `CrossesDevices`, for example.
pub fn rename_entry(from: &File, name: &[u8], to: &File, new_name: &[u8]) -> io::Result<()> {
    Ok(renameat(from, checked(name)?, to, checked(new_name)?)?)
}

/// A new file with a temporary name, which disappears unless it is given its real one.
#[derive(Debug)]
pub struct ReplacementFile {
    directory: File,
    file: File,
    temporary: Vec<u8>,
    is_in_place: bool,
}

impl ReplacementFile {
    /// Creates the file in `directory`. Its name is `prefix` and digits.
    ///
    /// # Errors
    /// Those of creating it.
    pub fn begin(directory: &File, prefix: &str) -> io::Result<ReplacementFile> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        for _ in 0..ATTEMPTS_MAX {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{prefix}{:x}-{number:x}", std::process::id()).into_bytes();
            match openat(
                directory,
                name.as_slice(),
                flags | OFlags::CLOEXEC,
                Mode::from(0o666),
            ) {
                Ok(file) => {
                    return Ok(ReplacementFile {
                        directory: directory.try_clone()?,
                        file: File::from(file),
                        temporary: name,
                        is_in_place: false,
                    });
                }
                // Left by a process of the same number that was killed.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Appends to the file.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// The open file, for copies.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives the file the permission bits of another one, without set-user-ID and set-group-ID.
    ///
    /// # Errors
    /// Those of changing them.
    pub fn set_permissions(&self, mode: u32) -> io::Result<()> {
        Ok(fchmod(&self.file, Mode::from(mode & 0o777))?)
    }

    /// Sets the time of the last modification.
    ///
    /// # Errors
    /// Those of changing it.
    pub fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.file.set_modified(time)
    }

    /// Writes the file through to the disk, so that a crash after [`ReplacementFile::put`] finds it
    /// whole.
    ///
    /// # Errors
    /// Those of writing.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.file)?)
    }

    /// Gives the file its name, in place of a file or link of that name. Returns its metadata.
    ///
    /// # Errors
    /// Those of renaming it; the old file is then as it was.
    pub fn put(mut self, name: &[u8]) -> io::Result<Metadata> {
        rename_entry(&self.directory, &self.temporary, &self.directory, name)?;
        self.is_in_place = true;
        metadata(&self.file)
    }
}

impl Drop for ReplacementFile {
    fn drop(&mut self) {
        if !self.is_in_place {
            // Nothing is lost if it stays: it has a name that no one is served.
            let _ = remove_entry(&self.directory, &self.temporary);
        }
    }
}

/// True if the entry is a directory and no link to one.
pub fn is_directory(entry: &EntryStat) -> bool {
    entry.metadata.kind == Kind::Directory
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn replaces_files_whole_or_not_at_all() {
        let scratch = Scratch::new();
        scratch.write("a", "old");
        let directory = File::open(scratch.root()).unwrap();
        let mut broken = ReplacementFile::begin(&directory, ".tmp").unwrap();
        broken.write(b"half").unwrap();
        drop(broken);
        assert_eq!(std::fs::read(scratch.path("a")).unwrap(), b"old");
        let mut whole = ReplacementFile::begin(&directory, ".tmp").unwrap();
        whole.write(b"new content").unwrap();
        whole.set_permissions(0o4640).unwrap();
        assert_eq!(whole.put(b"a").unwrap().mode & 0o7777, 0o640);
        assert_eq!(std::fs::read(scratch.path("a")).unwrap(), b"new content");
        assert_eq!(
            entry_names(&directory, 10).unwrap().unwrap(),
            [b"a".to_vec()]
        );
    }

    #[test]
    fn names_are_single_components_and_links_lead_nowhere() {
        let scratch = Scratch::new();
        scratch.write("outside/kept", "x");
        scratch.write("inside/a", "x");
        scratch.link("inside/link", "../outside");
        let inside = File::open(scratch.path("inside")).unwrap();
        for name in ["", ".", "..", "../outside", "link/kept", "a/b"] {
            assert!(make_directory(&inside, name.as_bytes()).is_err(), "{name}");
            assert!(remove_entry(&inside, name.as_bytes()).is_err(), "{name}");
            assert!(enter_directory(&inside, name.as_bytes()).is_err(), "{name}");
        }
        assert!(enter_directory(&inside, b"link").is_err());
        assert!(stat_entry(&inside, b"link").unwrap().unwrap().is_link);
        assert_eq!(stat_entry(&inside, b"none").unwrap(), None);
        remove_entry(&inside, b"link").unwrap();
        assert!(scratch.path("outside/kept").exists());
        assert_eq!(entry_names(&inside, 0).unwrap(), None);
    }
}
