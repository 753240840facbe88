//! Trees of files: copied and removed, entry by entry.
//!
//! Called by: the jobs of DELETE, COPY, and MOVE.
//! Caveat: links are removed and never followed or copied; protected names are never copied. A tree
//! that someone changes meanwhile leads nowhere else. What fails is collected, and the rest goes on, as
//! RFC 4918 section 9.6.1 wants.
//! Out of scope: locks.

use crate::{
    dead_properties::PropertyStore,
    names::{TEMPORARY_PREFIX, is_protected, is_reserved},
    reply::status_of,
};
use saker_config::model::WebDav;
use saker_files::{
    Kind, Metadata,
    edit::{self, ReplacementFile},
    metadata, open_entry,
};
use saker_http::Status;
use saker_net::jobs::Cancel;
use std::{
    fs::File,
    io::{self, Read},
    time::{Duration, UNIX_EPOCH},
};

/// Directories inside of each other.
const DEPTH_MAX: usize = 200;
/// Entries of a directory.
pub const ENTRIES_MAX: usize = 200_000;
/// Bytes that are copied between two looks at the deadline.
const PIECE_BYTES: u64 = 16 << 20;

/// Failures of members, by their URLs.
pub type Failures = Vec<(Vec<u8>, Status)>;

/// Removes an entry and everything below. Returns true if it is gone.
pub fn remove(
    parent: &File,
    name: &[u8],
    url: &[u8],
    cancel: &Cancel,
    failures: &mut Failures,
) -> bool {
    match remove_at(parent, name, url, (cancel, 0), failures) {
        Ok(is_gone) => is_gone,
        Err(error) => {
            failures.push((url.to_vec(), status_of(&error)));
            false
        }
    }
}

fn remove_at(
    parent: &File,
    name: &[u8],
    url: &[u8],
    (cancel, depth): (&Cancel, usize),
    failures: &mut Failures,
) -> io::Result<bool> {
    cancel.check()?;
    let Some(entry) = edit::stat_entry(parent, name)? else {
        return Ok(true);
    };
    if !edit::is_directory(&entry) {
        edit::remove_entry(parent, name)?;
        return Ok(true);
    }
    if depth >= DEPTH_MAX {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let directory = edit::enter_directory(parent, name)?;
    let mut is_empty = true;
    // Properties go last: they belong to what could not be removed.
    let (own, members): (Vec<_>, Vec<_>) = entries(&directory)?
        .into_iter()
        .partition(|member| is_reserved(member));
    for member in members {
        let member_url = joined(url, &member);
        match remove_at(
            &directory,
            &member,
            &member_url,
            (cancel, depth + 1),
            failures,
        ) {
            Ok(is_gone) => is_empty &= is_gone,
            Err(error) => {
                failures.push((member_url, status_of(&error)));
                is_empty = false;
            }
        }
    }
    if !is_empty {
        return Ok(false);
    }
    for member in own {
        remove_at(&directory, &member, url, (cancel, depth + 1), failures)?;
    }
    edit::remove_directory(parent, name)?;
    Ok(true)
}

fn entries(directory: &File) -> io::Result<Vec<Vec<u8>>> {
    edit::entry_names(directory, ENTRIES_MAX)?.ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

/// URLs of all collections below one, parents first; `None` if there are more than `most`.
///
/// # Errors
/// Those of reading them.
pub fn collections(
    directory: &File,
    url: &[u8],
    most: usize,
    cancel: &Cancel,
) -> io::Result<Option<Vec<Vec<u8>>>> {
    let mut found = Vec::new();
    let is_all = add_collections(directory, url, (most, 0), cancel, &mut found)?;
    Ok(is_all.then_some(found))
}

fn add_collections(
    directory: &File,
    url: &[u8],
    (most, depth): (usize, usize),
    cancel: &Cancel,
    found: &mut Vec<Vec<u8>>,
) -> io::Result<bool> {
    cancel.check()?;
    for name in entries(directory)? {
        let is_collection = !is_reserved(&name)
            && edit::stat_entry(directory, &name)?.is_some_and(|entry| edit::is_directory(&entry));
        if !is_collection {
            continue;
        }
        if found.len() >= most || depth >= DEPTH_MAX {
            return Ok(false);
        }
        let mut member = joined(url, &name);
        member.push(b'/');
        found.push(member.clone());
        // One that can't be read fails where it is used.
        if let Ok(inner) = edit::enter_directory(directory, &name)
            && !add_collections(&inner, &member, (most, depth + 1), cancel, found)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The URL of a member of a collection.
pub fn joined(collection: &[u8], name: &[u8]) -> Vec<u8> {
    match collection.ends_with(b"/") {
        true => [collection, name].concat(),
        false => [collection, b"/", name].concat(),
    }
}

/// Copies an open file to a name, in place of what has it.
///
/// # Errors
/// Those of reading and writing.
pub fn copy_file(
    from: &File,
    known: &Metadata,
    to: &File,
    name: &[u8],
    how: &TreeCopy<'_>,
) -> io::Result<()> {
    let mut copy = ReplacementFile::begin(to, TEMPORARY_PREFIX)?;
    loop {
        how.cancel.check()?;
        if io::copy(&mut from.take(PIECE_BYTES), copy.file())? == 0 {
            break;
        }
    }
    copy.set_permissions(known.mode)?;
    if how.webdav.keeps_times {
        let seconds = u64::try_from(known.mtime_s).unwrap_or(0);
        copy.set_modified(UNIX_EPOCH + Duration::from_secs(seconds))?;
    }
    copy.sync()?;
    copy.put(name)?;
    Ok(())
}

/// Returns true if a name below a collection is one that clients may not write, which is then not
/// theirs to remove either.
///
/// # Errors
/// Those of reading the collection; one below that can't be read fails where it is used.
pub fn has_protected(directory: &File, webdav: &WebDav, cancel: &Cancel) -> io::Result<bool> {
    has_protected_at(directory, webdav, (cancel, 0))
}

fn has_protected_at(
    directory: &File,
    webdav: &WebDav,
    (cancel, depth): (&Cancel, usize),
) -> io::Result<bool> {
    cancel.check()?;
    if depth >= DEPTH_MAX {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    for name in entries(directory)? {
        if is_reserved(&name) {
            continue;
        }
        if is_protected(webdav, &name) {
            return Ok(true);
        }
        let is_collection =
            edit::stat_entry(directory, &name)?.is_some_and(|entry| edit::is_directory(&entry));
        if is_collection
            && let Ok(inner) = edit::enter_directory(directory, &name)
            && has_protected_at(&inner, webdav, (cancel, depth + 1))?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Options of copying trees.
pub struct TreeCopy<'c> {
    /// Members with protected names are left out.
    pub webdav: &'c WebDav,
    /// With the members.
    pub is_deep: bool,
    pub cancel: &'c Cancel,
}

/// Copies a collection to a name that no entry has.
///
/// # Errors
/// Those of the collection itself; those of members are collected.
pub fn copy_tree(
    from: &File,
    (to, name): (&File, &[u8]),
    url: &[u8],
    how: &TreeCopy<'_>,
    failures: &mut Failures,
) -> io::Result<()> {
    copy_tree_at(from, (to, name), url, (how, 0), failures)
}

fn copy_tree_at(
    from: &File,
    (to, name): (&File, &[u8]),
    url: &[u8],
    (how, depth): (&TreeCopy<'_>, usize),
    failures: &mut Failures,
) -> io::Result<()> {
    how.cancel.check()?;
    if depth >= DEPTH_MAX {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // Read before the copy exists, which may be below.
    let members = match how.is_deep {
        true => entries(from)?,
        false => Vec::new(),
    };
    edit::make_directory(to, name)?;
    if how.webdav.keeps_times {
        edit::copy_directory_mode(from, to, name)?;
    }
    let copy = edit::enter_directory(to, name)?;
    PropertyStore::of_collection(from).copy_to(&PropertyStore::of_collection(&copy))?;
    for member in members {
        if is_reserved(&member) || is_protected(how.webdav, &member) {
            continue;
        }
        let member_url = joined(url, &member);
        let outcome = copy_member(from, &member, &copy, &member_url, (how, depth), failures);
        if let Err(error) = outcome {
            failures.push((member_url, status_of(&error)));
        }
    }
    Ok(())
}

fn copy_member(
    from: &File,
    name: &[u8],
    to: &File,
    url: &[u8],
    (how, depth): (&TreeCopy<'_>, usize),
    failures: &mut Failures,
) -> io::Result<()> {
    let Some(entry) = edit::stat_entry(from, name)? else {
        return Ok(());
    };
    match entry.metadata.kind {
        Kind::Directory => {
            let directory = edit::enter_directory(from, name)?;
            copy_tree_at(&directory, (to, name), url, (how, depth + 1), failures)
        }
        Kind::File => {
            let (file, metadata) = open_entry(from, name)?;
            copy_file(&file, &metadata, to, name, how)?;
            PropertyStore::of_member(from, name).copy_to(&PropertyStore::of_member(to, name))
        }
        // Links, and what is no content.
        Kind::Other => Ok(()),
    }
}

/// Returns true if `directory` is the collection with that metadata, or below it.
///
/// # Errors
/// Those of looking.
pub fn is_inside(directory: &File, collection: &Metadata) -> io::Result<bool> {
    let mut here = directory.try_clone()?;
    for _ in 0..=DEPTH_MAX * 2 {
        let own = metadata(&here)?;
        if (own.device, own.inode) == (collection.device, collection.inode) {
            return Ok(true);
        }
        let above = edit::parent_directory(&here)?;
        let next = metadata(&above)?;
        if (next.device, next.inode) == (own.device, own.inode) {
            return Ok(false);
        }
        here = above;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_net::jobs::{self, JobKind};
    use saker_testkit::TempDir;
    use std::fs;

    #[test]
    fn protected_names_are_found_and_not_copied() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let work = jobs::run(JobKind::WebDav, None, check_protected_names);
        runtime.block_on(work).unwrap();
    }

    fn check_protected_names(cancel: &Cancel) {
        let dir = TempDir::new("tree-protected").unwrap();
        fs::create_dir_all(dir.join("a/b/c")).unwrap();
        fs::create_dir_all(dir.join("a/.DAV")).unwrap();
        fs::write(dir.join("a/.DAV/.htaccess.saker"), "").unwrap();
        fs::write(dir.join("a/b/kept"), "x").unwrap();
        let (root, from) = (
            File::open(&*dir).unwrap(),
            File::open(dir.join("a")).unwrap(),
        );
        let webdav = WebDav::default();
        assert!(!has_protected(&from, &webdav, cancel).unwrap());
        fs::write(dir.join("a/b/c/.HTaccess"), "x").unwrap();
        assert!(has_protected(&from, &webdav, cancel).unwrap());
        let how = TreeCopy {
            webdav: &webdav,
            is_deep: true,
            cancel,
        };
        let mut failures = Failures::new();
        fs::remove_dir_all(dir.join("a/.DAV")).unwrap();
        copy_tree(&from, (&root, b"copy"), b"/a/", &how, &mut failures).unwrap();
        assert!(failures.is_empty());
        assert!(dir.join("copy/b/kept").exists() && dir.join("copy/b/c").exists());
        assert!(!dir.join("copy/b/c/.HTaccess").exists());
    }
}
