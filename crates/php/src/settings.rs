//! Settings of requests for php-cgi, which reads none from its variables as php-fpm does: a script that runs before each script applies them.
//!
//! Difficulty: some settings can't be changed any more by then. One of an administrator that can't be applied ends the request with 500, since it
//! may be what keeps a site inside its folder; others are left out. The script lies in the folder for temporary files, because PHP may be
//! another user, and the server's state is nobody else's to look into.
//! Absent on purpose: the site's own auto_prepend_file in php.ini, which this one takes the place of.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// The variables are those of php-fpm, and so is their text.
const SCRIPT: &[u8] = br#"<?php
(static function () {
    foreach (['PHP_VALUE' => false, 'PHP_ADMIN_VALUE' => true] as $variable => $isAdmin) {
        $text = $_SERVER[$variable] ?? '';
        unset($_SERVER[$variable], $_ENV[$variable]);
        $settings = $text === '' ? [] : parse_ini_string($text, false, INI_SCANNER_NORMAL);
        foreach ($settings === false ? [] : $settings as $name => $value) {
            if (ini_set($name, $value) === false && $isAdmin && ini_get($name) !== $value) {
                error_log("php_admin_value $name can't be applied by php-cgi: use php-fpm or lsphp");
                http_response_code(500);
                exit;
            }
        }
    }
})();
"#;

/// The script in a file, for as long as this is there.
#[derive(Debug)]
pub struct Script(PathBuf);

impl Script {
    pub fn write() -> io::Result<Script> {
        let name = format!("saker-php-{}-{}.php", std::process::id(), saker_net::clock::monotonic_precise_ns());
        let path = std::env::temp_dir().join(name);
        // Nobody can have laid anything there in its place (open(2), O_EXCL).
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path)?;
        let script = Script(path);
        file.write_all(SCRIPT)?;
        Ok(script)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
