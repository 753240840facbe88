//! Opening log files.
//!
//! Called by: access logs by file and by host; the error log takes the mode from here.

use std::{fs::File, io, path::Path};

/// Mode of new log files: logs name clients, and their readers are in the file's group.
pub(crate) const LOG_MODE: u32 = 0o640;

/// Opens a log for appending, through the broker where the server's user may not; std sets
/// O_CLOEXEC on all it opens.
pub(super) fn open_append(path: &Path) -> io::Result<File> {
    saker_net::privileged::open_append(path, LOG_MODE)
}
