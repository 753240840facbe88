//! Apache itself, which tests compare with, and the modules that its configurations load.
//!
//! Called by: tests of Apache's configuration.
//! Caveat: without apache2, module paths are relative; Saker reads only their names.
//! Out of scope: apache2 as a peer of the benches (`peers`).

use crate::{ServerProcess, require};
use std::{io, net::SocketAddr, path::Path, process::Command};

const FOLDERS: [&str; 2] = ["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules"];

/// Folder of apache2's modules; `modules` if it isn't installed.
pub fn module_folder() -> &'static str {
    FOLDERS
        .into_iter()
        .find(|folder| Path::new(folder).is_dir())
        .unwrap_or("modules")
}

/// `LoadModule` lines of the modules with these names.
pub fn load_modules(names: &[&str]) -> String {
    let folder = module_folder();
    names
        .iter()
        .map(|name| format!("LoadModule {name}_module {folder}/mod_{name}.so\n"))
        .collect()
}

/// `User` and `Group`, which apache2 demands if root starts it; else empty.
pub fn unprivileged_user() -> &'static str {
    if rustix::process::geteuid().is_root() {
        "User www-data\nGroup www-data\n"
    } else {
        ""
    }
}

/// apache2 in the foreground.
///
/// # Errors
/// If it isn't installed, or doesn't accept connections on the address.
pub fn start_apache2(configuration: &Path, address: SocketAddr) -> io::Result<ServerProcess> {
    let mut command = Command::new(require("apache2").map_err(io::Error::other)?);
    command.arg("-f").arg(configuration).arg("-DFOREGROUND");
    ServerProcess::start(&mut command, address)
}
