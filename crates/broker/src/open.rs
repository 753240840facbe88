//! Opens granted paths as root: `net::guarded_open`, by which no user but root decides where a path
//! leads.
//!
//! Called by: the loop (`serve`), for granted paths.
//! Out of scope: grants.

use saker_net::guarded_open::Opener;
pub use saker_net::guarded_open::{Entry, Open, Trust};
use std::{io, os::fd::OwnedFd, path::Path};

/// Opens a granted path.
///
/// # Errors
/// The kernel's, and refusals, which have no number.
pub fn open(path: &Path, how: Open) -> io::Result<OwnedFd> {
    Opener::BROKER.open(path, how)
}

/// Looks whether [`open`] would, and opens and makes nothing.
///
/// # Errors
/// Those that [`open`] would have.
pub fn examine(path: &Path, how: Open) -> io::Result<()> {
    Opener::BROKER.examine(path, how)
}

/// Walks to the directory of a path's last name, which may be missing.
pub fn find(path: &Path) -> io::Result<Entry> {
    Opener::BROKER.find(path)
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;
