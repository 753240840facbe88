//! Reads a directory for a listing.
//!
//! Called by: the listing handler, with the directory that `resolve` returned.
//! Caveat: resolving needs only search permission, reading a directory needs another: so it is
//! opened for reading only here.
//! Out of scope: the order of entries.

use crate::{Kind, Metadata};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use std::{fs::File, io};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: Vec<u8>,
    /// Metadata of the target, if the entry is a symbolic link.
    pub metadata: Metadata,
    pub kind: Kind,
    /// Set for symbolic links. The link policy decides whether the entry may be shown, and only
    /// resolving it tells.
    pub is_link: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Entries in the file system's order, without `.` and `..`; entries that vanish in the
    /// meantime and dangling links are left out.
    pub entries: Vec<Entry>,
    /// False when there was more than the bound.
    pub is_complete: bool,
}

/// Decision about an entry, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryChoice {
    Take,
    /// Costs no look at the entry.
    Skip,
    /// The listing is no longer needed.
    Stop,
}

/// The entries of an open directory that `choose` takes. At most `entries_max` are looked at, those
/// among them that are passed over.
///
/// # Errors
/// Those of reading it; `Interrupted` where `choose` says stop.
pub fn read_directory(
    directory: &File,
    entries_max: usize,
    mut choose: impl FnMut(&[u8]) -> EntryChoice,
) -> io::Result<Listing> {
    let readable = openat(
        directory,
        c".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let (mut entries, mut seen) = (Vec::new(), 0);
    for entry in Dir::new(readable)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if seen == entries_max {
            return Ok(Listing {
                entries,
                is_complete: false,
            });
        }
        seen += 1;
        match choose(name.to_bytes()) {
            EntryChoice::Take => {}
            EntryChoice::Skip => continue,
            EntryChoice::Stop => return Err(io::ErrorKind::Interrupted.into()),
        }
        let Ok(stat) = statat(directory, name, AtFlags::empty()) else {
            continue;
        };
        let metadata = Metadata::from(&stat);
        let is_link = is_link(directory, name, entry.file_type());
        entries.push(Entry {
            name: name.to_bytes().to_vec(),
            kind: metadata.kind,
            metadata,
            is_link,
        });
    }
    Ok(Listing {
        entries,
        is_complete: true,
    })
}

/// Some file systems don't tell the type in the directory itself. Unknown counts as a link, the
/// careful answer.
fn is_link(directory: &File, name: &std::ffi::CStr, told: FileType) -> bool {
    match told {
        FileType::Unknown => statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_or(true, |stat| {
                FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
            }),
        told => told == FileType::Symlink,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn listing(scratch: &Scratch, entries_max: usize) -> Listing {
        let mut listing = read_directory(&File::open(scratch.root()).unwrap(), entries_max, |_| {
            EntryChoice::Take
        })
        .unwrap();
        listing.entries.sort_by(|a, b| a.name.cmp(&b.name));
        listing
    }

    #[test]
    fn lists_files_directories_and_links() {
        let scratch = Scratch::new();
        scratch.write("a.txt", "hello");
        scratch.write("directory/inner", "");
        scratch.link("link", "a.txt");
        scratch.link("nowhere", "gone");
        let listing = listing(&scratch, 4);
        assert!(listing.is_complete);
        let seen: Vec<_> = listing
            .entries
            .iter()
            .map(|entry| (&*entry.name, entry.kind, entry.is_link))
            .collect();
        assert_eq!(
            seen,
            [
                (&b"a.txt"[..], Kind::File, false),
                (&b"directory"[..], Kind::Directory, false),
                (&b"link"[..], Kind::File, true)
            ]
        );
        assert_eq!(listing.entries[0].metadata.size, 5);
        assert_eq!(listing.entries[2].metadata.size, 5);
    }

    #[test]
    fn the_bound_holds() {
        let scratch = Scratch::new();
        (0..5).for_each(|number| scratch.write(&number.to_string(), ""));
        assert!(listing(&scratch, 5).is_complete);
        let cut = listing(&scratch, 4);
        assert_eq!((cut.entries.len(), cut.is_complete), (4, false));
    }

    #[test]
    fn names_are_chosen() {
        let scratch = Scratch::new();
        (0..5).for_each(|number| scratch.write(&number.to_string(), ""));
        let folder = File::open(scratch.root()).unwrap();
        let odd = |name: &[u8]| {
            if name[0] % 2 == 1 {
                EntryChoice::Take
            } else {
                EntryChoice::Skip
            }
        };
        assert_eq!(read_directory(&folder, 5, odd).unwrap().entries.len(), 2);
        assert!(
            !read_directory(&folder, 4, |_| EntryChoice::Skip)
                .unwrap()
                .is_complete,
            "those that are passed over count"
        );
        let mut left = 3;
        let some = |_: &[u8]| {
            left -= 1;
            if left > 0 {
                EntryChoice::Take
            } else {
                EntryChoice::Stop
            }
        };
        assert_eq!(
            read_directory(&folder, 5, some).unwrap_err().kind(),
            io::ErrorKind::Interrupted
        );
    }

    #[test]
    fn a_file_is_no_directory() {
        let scratch = Scratch::new();
        scratch.write("a", "");
        assert!(
            read_directory(&File::open(scratch.path("a")).unwrap(), 10, |_| {
                EntryChoice::Take
            })
            .is_err()
        );
    }
}
