//! The state directory of a server that runs by Apache's configuration and was told none: one for
//! each configuration.
//!
//! Called by: `process::load_apache`, so that a server and the commands that name its configuration
//! come to the same. Caveat: root's are siblings of the default one, not below it, since a server
//! may close its own to everybody but itself.

use rustix::process::geteuid;
use saker_config::model::Server;
use std::{
    ffi::OsString,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

/// Main configuration files of distributions and panels: a server with one of them uses the default
/// directory.
const USUAL: [&str; 6] = [
    "/etc/apache2/apache2.conf",
    "/etc/apache2/httpd.conf",
    "/etc/apache2/conf/httpd.conf",
    "/etc/httpd/conf/httpd.conf",
    "/usr/local/apache2/conf/httpd.conf",
    "/usr/local/etc/apache24/httpd.conf",
];

/// Maximum length of the path's tail in the name; the end of a path is more telling than its
/// beginning.
const NAME_BYTES_MAX: usize = 40;

/// The default state directory for the configuration in `file`.
pub fn of_configuration(file: &Path) -> PathBuf {
    let default = Server::default().state_dir;
    let real = real(file);
    let is_usual = USUAL
        .iter()
        .any(|usual| real == Path::new(usual) || real == self::real(Path::new(usual)));
    let uid = geteuid().as_raw();
    let owns_default = std::fs::metadata(&default).is_ok_and(|metadata| metadata.uid() == uid);
    match (uid == 0 || owns_default, is_usual) {
        (true, true) => default,
        (true, false) if uid == 0 => sibling(&default, &name(&real)),
        (true, false) => default.join(name(&real)),
        (false, _) => user_state(|variable| std::env::var_os(variable))
            .map_or(default, |base| base.join(name(&real))),
    }
}

/// Directories of servers of other configurations beside the `default` one.
pub fn siblings(default: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(own)) = (default.parent(), default.file_name()) else {
        return Vec::new();
    };
    let prefix = [own.as_bytes(), b"-"].concat();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().as_bytes().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

fn sibling(default: &Path, name: &str) -> PathBuf {
    let mut sibling = default.as_os_str().to_owned();
    sibling.push("-");
    sibling.push(name);
    sibling.into()
}

/// Without the links on its way, if it is there.
fn real(file: &Path) -> PathBuf {
    std::fs::canonicalize(file)
        .or_else(|_| std::path::absolute(file))
        .unwrap_or_else(|_| file.to_owned())
}

/// The directory for state files of a user's programs (XDG base directory specification).
fn user_state(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
    Some(state.join("saker"))
}

/// Readable, of plain characters (PHP's sockets lie below it), and another one for each path.
fn name(file: &Path) -> String {
    let bytes = file.as_os_str().as_bytes();
    let plain = |byte: &u8| {
        if byte.is_ascii_alphanumeric() || b"._".contains(byte) {
            char::from(*byte)
        } else {
            '-'
        }
    };
    let end = bytes
        .get(bytes.len().saturating_sub(NAME_BYTES_MAX)..)
        .unwrap_or(bytes);
    let readable: String = end.iter().map(plain).collect();
    // FNV-1a, because the hash must never change.
    let hash = bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    format!("{}-{hash:08x}", readable.trim_start_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state_dir::tests::Scratch;

    #[test]
    fn each_path_has_a_name_of_its_own() {
        let names: Vec<String> = [
            "/srv/a/httpd.conf",
            "/srv/a-httpd.conf",
            "/srv/a:httpd.conf",
            "/srv/ä/httpd.conf",
        ]
        .iter()
        .map(|path| name(Path::new(path)))
        .collect();
        assert!(names[0].starts_with("srv-a-httpd.conf-"), "{names:?}");
        assert!(
            names.iter().all(|name| name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))),
            "{names:?}"
        );
        assert_eq!(
            names
                .iter()
                .collect::<std::collections::BTreeSet<_>>()
                .len(),
            names.len(),
            "{names:?}"
        );
        let long = format!("/{}/httpd.conf", "x".repeat(300));
        assert!(name(Path::new(&long)).len() <= NAME_BYTES_MAX + 9);
        // It must be found again by a later version.
        assert_eq!(
            name(Path::new("/srv/a/httpd.conf")),
            "srv-a-httpd.conf-5fbca3dc"
        );
    }

    #[test]
    fn links_lead_to_the_same_directory() {
        let scratch = Scratch::new();
        std::fs::create_dir_all(scratch.join("sites")).unwrap();
        std::fs::write(scratch.join("sites/httpd.conf"), "").unwrap();
        std::os::unix::fs::symlink("sites", scratch.join("link")).unwrap();
        let directory = of_configuration(&scratch.join("sites/httpd.conf"));
        assert_eq!(
            of_configuration(&scratch.join("link/httpd.conf")),
            directory
        );
        assert_eq!(
            of_configuration(&scratch.join("sites/../sites/httpd.conf")),
            directory
        );
        assert_ne!(
            of_configuration(&scratch.join("sites/other.conf")),
            directory
        );
        assert_ne!(directory, Server::default().state_dir);
    }

    #[test]
    fn a_user_keeps_state_at_home() {
        let of = |pairs: &'static [(&str, &str)]| {
            user_state(move |name| {
                pairs
                    .iter()
                    .find(|(other, _)| *other == name)
                    .map(|(_, value)| value.into())
            })
        };
        assert_eq!(
            of(&[("HOME", "/home/a")]),
            Some("/home/a/.local/state/saker".into())
        );
        assert_eq!(
            of(&[("HOME", "/home/a"), ("XDG_STATE_HOME", "/s")]),
            Some("/s/saker".into())
        );
        assert_eq!(of(&[("HOME", "relative")]), None);
    }

    #[test]
    fn those_beside_the_default_one() {
        let scratch = Scratch::new();
        let default = scratch.join("saker");
        for folder in ["saker", "saker-b", "saker-a", "sakerx", "other"] {
            std::fs::create_dir_all(scratch.join(folder)).unwrap();
        }
        assert_eq!(
            siblings(&default),
            [scratch.join("saker-a"), scratch.join("saker-b")]
        );
        assert_eq!(sibling(&default, "a"), scratch.join("saker-a"));
    }
}
