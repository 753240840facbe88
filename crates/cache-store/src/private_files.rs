//! Files and folders that nobody but the server's user reads: pages are what visitors see when they
//! are logged in.
//!
//! The folder that holds them may be an administrator's, open to everybody; so each thing made in
//! it has its own mode, whatever the umask.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

const FOLDER_MODE: u32 = 0o700;

const FILE_MODE: u32 = 0o600;

/// A folder with those above it; one that is there already is closed. What is another user's stays
/// as it is.
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

/// To add at its end; made if it is not there.
pub fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(FILE_MODE)
        .open(path)
}

/// In place of what there was.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .open(path)?
        .write_all(bytes)
}

/// What an earlier version may have left open.
pub fn restrict(path: &Path) {
    let _ = fs::set_permissions(path, Permissions::from_mode(FILE_MODE));
}
