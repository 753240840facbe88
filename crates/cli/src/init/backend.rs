//! The PHP of this machine.
//!
//! Called by: `init`.
//! Caveat: Saker's own processes come first: the socket of a php-fpm that runs already may be
//! closed to the server's user.
//! Out of scope: running PHP.

use std::{fs, os::unix::fs::FileTypeExt, path::Path};

/// Directories in which distributions put the sockets of php-fpm.
const SOCKETS: [&str; 3] = ["run/php", "run/php-fpm", "var/run/php-fpm"];

/// Returns the value of `php` for this machine: `auto` where a PHP is installed, the socket of a
/// php-fpm in a container without one, and `auto` again where there is neither.
pub fn php(root: &Path) -> String {
    if root == Path::new("/") && !saker_php::installed().is_empty() {
        return "auto".into();
    }
    socket(root).map_or_else(|| "auto".into(), |path| format!("unix:{path}"))
}

/// The last by name: the newest version.
fn socket(root: &Path) -> Option<String> {
    let entries = SOCKETS
        .iter()
        .filter_map(|folder| fs::read_dir(root.join(folder)).ok())
        .flatten()
        .flatten();
    let mut sockets: Vec<_> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()))
        .map(|entry| entry.path())
        .collect();
    sockets.sort();
    sockets.pop()?.to_str().map(str::to_owned)
}
