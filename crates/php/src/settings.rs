//! Settings of requests for php-cgi, which reads none from its variables as php-fpm does: a script
//! that runs before each script applies them.
//!
//! Caveat: some settings can no longer be changed by then. An administrator's setting that can't be
//! applied ends the request with 500, since it may be what confines a site to its directory; others
//! are dropped, and logged. A site's `.user.ini` could name another script in the place of this one,
//! so an administrator's settings come to it only in a PHP that reads no such files (`plan`). The
//! script is in the directory for temporary files, because PHP may run as another user, and the
//! server's state is private. One user's PHP must not be able to change what another user's PHP runs
//! first, so a server started by root has root create the script.
//! Out of scope: the site's own auto_prepend_file in php.ini, which this one replaces.

use crate::temporary;
use std::{
    ffi::{OsStr, OsString},
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
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

/// Number of the file created by root in the directory for temporary files; it matches
/// [`Script::any_path`], and the file outlives servers, which share it.
const ROOTS_NUMBER: &str = "0-0";
/// Root's file, once it is there.
static ROOTS: OnceLock<PathBuf> = OnceLock::new();

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
    let _ = ROOTS.set(path);
    Ok(())
}

impl Script {
    pub fn write() -> io::Result<Script> {
        if let Some(path) = ROOTS.get() {
            return Ok(Script {
                path: path.clone(),
                is_roots: true,
            });
        }
        let name = format!(
            "saker-php-{}-{}.php",
            std::process::id(),
            saker_net::clock::monotonic_precise_ns()
        );
        let path = temporary::folder().join(name);
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
        temporary::folder().join(name).into()
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
