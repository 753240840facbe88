//! Files and directories readable by the server's user only: pages may be personal.
//!
//! Called by: the store, its writers and the journal.
//! Caveat: the directory above may be open to everybody, so each file has its own mode, whatever
//! the umask.
//! Out of scope: ownership.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

const FOLDER_MODE: u32 = 0o700;

const FILE_MODE: u32 = 0o600;

/// Creates a directory with its parents, or restricts the mode of an existing one, if it belongs to
/// this user.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(path)?;
    let _ = fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE));
    Ok(())
}

pub fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(path)
}

/// Opens a file for appending, creating it if missing.
pub fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(FILE_MODE)
        .open(path)
}

/// Writes a file, replacing its content.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .open(path)?
        .write_all(bytes)
}

/// Restricts the mode of a file that an earlier version may have left open.
pub fn restrict(path: &Path) {
    let _ = fs::set_permissions(path, Permissions::from_mode(FILE_MODE));
}
