//! Settings of requests for php-cgi, which reads none from its variables as php-fpm does: a script
//! that runs before each script applies them.
//!
//! Caveat: some settings can no longer be changed by then. An administrator's setting that can't be
//! applied ends the request with 500, since it may be what confines a site to its directory; others
//! are dropped, and logged. A site's `.user.ini` could name another script in the place of this one,
//! so an administrator's settings come to it only in a PHP that reads no such files (`plan`). The
//! script is not in the server's state, which is private, because PHP may run as another user. One
//! user's PHP must not be able to change what another user's PHP runs first, so a server started by
//! root has root create the script, in a folder of root's (`/run/saker-php`).
//! Out of scope: the site's own auto_prepend_file in php.ini, which this one replaces.

use crate::temporary;
use std::{
    ffi::{OsStr, OsString},
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The variables are those of php-fpm, and so is their text.
const SCRIPT: &[u8] = br#"<?php
(static function () {
    foreach (['PHP_VALUE' => false, 'PHP_ADMIN_VALUE' => true] as $variable => $isAdmin) {
        // php.ini's variables_order may have no $_SERVER.
        $text = (string) ($_SERVER[$variable] ?? getenv($variable));
        unset($_SERVER[$variable], $_ENV[$variable]);
        $settings = $text === '' ? [] : parse_ini_string($text, false, INI_SCANNER_NORMAL);
        foreach ($settings === false ? [] : $settings as $name => $value) {
            if (ini_set($name, $value) !== false || ini_get($name) === $value) {
                continue;
            }
            if ($isAdmin) {
                error_log("php_admin_value $name can't be applied by php-cgi: use php-fpm or lsphp");
                http_response_code(500);
                exit;
            }
            if (ini_get($name) !== false) {
                error_log("php_value $name is not applied, which php-cgi can't do: use php-fpm or lsphp");
            }
        }
    }
})();
"#;

/// Number of the file created by root; it matches [`Script::any_path`], and the file outlives
/// servers, which share it.
const ROOTS_NUMBER: &str = "0-0";
/// Root's file, once it is there; an error where root could not write it: then nothing takes its
/// place, because the server's user could change that.
static ROOTS: OnceLock<Result<PathBuf, String>> = OnceLock::new();

/// The script in a file, for as long as this is there.
#[derive(Debug)]
pub struct Script {
    path: PathBuf,
    is_roots: bool,
}

/// Writes the script to a file that only root can change. Runs as root, before the server drops
/// privileges.
///
/// # Errors
/// The file can't be written.
pub fn prepare() -> io::Result<()> {
    let written = write_roots();
    let known = written.as_ref().map(PathBuf::clone);
    let _ = ROOTS.set(known.map_err(ToString::to_string));
    written.map(drop)
}

fn write_roots() -> io::Result<PathBuf> {
    let path = PathBuf::from(Script::any_path(OsStr::new(ROOTS_NUMBER)));
    let is_it = || {
        let found = fs::symlink_metadata(&path)?;
        let is_roots_alone =
            found.is_file() && found.uid() == 0 && found.nlink() == 1 && found.mode() & 0o022 == 0;
        io::Result::Ok(is_roots_alone && fs::read(&path)? == SCRIPT)
    };
    if !is_it().unwrap_or(false) {
        let _ = fs::remove_file(&path);
        // O_EXCL: no other user can have placed a file there (open(2)).
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(&path)?;
        file.write_all(SCRIPT)?;
        // PHP of every user reads it, whatever umask root has.
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
    }
    Ok(path)
}

/// The folder of the script: of a server that root starts, one of root's that nothing cleans up, so
/// that no other user can ever put a file there; else that for temporary files.
fn folder() -> PathBuf {
    static OF_ROOT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let of_root = OF_ROOT.get_or_init(|| {
        let is_root = rustix::process::geteuid().is_root();
        let folders = is_root.then(roots_folders).into_iter().flatten();
        folders.into_iter().find(|folder| is_roots_alone(folder))
    });
    of_root.clone().unwrap_or_else(temporary::folder)
}

/// Beside the records of starts; in a service without a writable `/run`, in its runtime folder.
fn roots_folders() -> Vec<PathBuf> {
    const NAME: &str = "saker-php";
    let starts = std::env::var_os("SAKER_STARTS").map(PathBuf::from);
    let first = starts.map_or_else(
        || Path::new("/run").join(NAME),
        |path| path.with_file_name(NAME),
    );
    let of_service = std::env::var_os("RUNTIME_DIRECTORY").map(PathBuf::from);
    std::iter::once(first)
        .chain(of_service.map(|folder| folder.join(NAME)))
        .collect()
}

/// Makes it, and returns true if no other user can write to it or replace it.
fn is_roots_alone(folder: &Path) -> bool {
    let is_roots = |path: &Path| {
        fs::symlink_metadata(path).is_ok_and(|found| {
            let is_sticky = found.mode() & 0o1000 != 0;
            found.is_dir() && found.uid() == 0 && (found.mode() & 0o022 == 0 || is_sticky)
        })
    };
    if fs::DirBuilder::new().mode(0o755).create(folder).is_ok() {
        let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o755));
    }
    let is_open = fs::symlink_metadata(folder).is_ok_and(|found| found.mode() & 0o1022 == 0);
    is_open && is_roots(folder) && folder.parent().is_some_and(is_roots)
}

impl Script {
    pub fn write() -> io::Result<Script> {
        match ROOTS.get() {
            Some(Ok(path)) => {
                return Ok(Script {
                    path: path.clone(),
                    is_roots: true,
                });
            }
            Some(Err(why)) => {
                let why = format!("root could not write the script that runs first: {why}");
                return Err(io::Error::other(why));
            }
            None => {}
        }
        let name = format!(
            "saker-php-{}-{}.php",
            std::process::id(),
            saker_net::clock::monotonic_precise_ns()
        );
        let path = folder().join(name);
        // O_EXCL: no other user can have placed a file there (open(2)).
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(&path)?;
        let script = Script {
            path,
            is_roots: false,
        };
        file.write_all(SCRIPT)?;
        Ok(script)
    }

    /// The path of any such file; `number` stands for what tells them apart.
    pub fn any_path(number: &OsStr) -> OsString {
        let mut name = OsString::from("saker-php-");
        name.push(number);
        name.push(".php");
        folder().join(name).into()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        if !self.is_roots {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;

    #[test]
    fn a_folder_that_others_write_to_is_not_roots() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = TempDir::private("php-script").unwrap();
        let folder = dir.join("saker-php");
        assert!(is_roots_alone(&folder) && is_roots_alone(&folder));
        for mode in [0o775, 0o757, 0o1777] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            assert!(!is_roots_alone(&folder), "{mode:o}");
        }
        fs::remove_dir(&folder).unwrap();
        std::os::unix::fs::symlink("/", &folder).unwrap();
        assert!(!is_roots_alone(&folder), "a link");
        fs::set_permissions(&*dir, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!is_roots_alone(&dir.join("other")), "in a folder of all");
        std::os::unix::fs::chown(folder.with_file_name("other"), Some(33), None).unwrap();
        fs::set_permissions(&*dir, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(!is_roots_alone(&dir.join("other")), "another user's");
    }
}
