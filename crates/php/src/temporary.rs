//! The folder for temporary files, for PHP, which may be another user than the server.
//!
//! Called by: `command` for PHP's environment, `settings` for the script that php-cgi runs first.
//! Caveat: root's own folder (`/tmp/user/0` of pam_tmpdir) is closed to everybody else, so PHP
//! could neither read that script nor take an upload there. Out of scope: what php.ini says
//! (`sys_temp_dir`, `upload_tmp_dir`).

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

const USUAL: &str = "/tmp";
const OPEN_TO_ALL: u32 = 0o7;

/// `TMPDIR`, unless it is a folder of root's own, or none.
pub fn of_environment() -> Option<PathBuf> {
    std::env::var_os("TMPDIR")
        .map(PathBuf::from)
        .filter(|folder| is_usable(folder))
}

fn is_usable(folder: &Path) -> bool {
    folder.is_absolute() && folder.is_dir() && !is_roots_own(folder)
}

/// For files whose paths php-cgi is told.
pub fn folder() -> PathBuf {
    of_environment()
        .filter(|folder| is_quotable(folder.as_os_str()))
        .unwrap_or_else(|| USUAL.into())
}

fn is_roots_own(folder: &Path) -> bool {
    fs::metadata(folder)
        .is_ok_and(|found| found.uid() == 0 && found.mode() & OPEN_TO_ALL != OPEN_TO_ALL)
}

/// Between single quotes, in php.ini's language.
fn is_quotable(path: &OsStr) -> bool {
    path.as_bytes()
        .iter()
        .all(|byte| *byte != b'\'' && *byte != b'\\' && !byte.is_ascii_control())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_can_stand_between_quotes() {
        for (path, quotable) in [
            ("/tmp/a b;c=%1${HOME}\"é", true),
            ("/tmp/it's", false),
            ("/tmp/a\\", false),
            ("/tmp/a\nb", false),
        ] {
            assert_eq!(is_quotable(OsStr::new(path)), quotable, "{path}");
        }
    }

    #[test]
    fn a_folder_of_roots_own() {
        assert!(
            is_usable(Path::new("/tmp"))
                && !is_usable(Path::new("/nowhere"))
                && !is_usable(Path::new("tmp"))
        );
        let folder =
            std::env::temp_dir().join(format!("saker-php-temporary-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        assert_ne!(
            is_usable(&folder),
            rustix::process::geteuid().is_root(),
            "a user's own is for PHP, which is that user"
        );
        fs::remove_dir(&folder).unwrap();
    }
}
