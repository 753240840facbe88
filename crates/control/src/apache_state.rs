//! The state directory of a server that runs by Apache's or nginx's configuration and was told
//! none: one for each configuration.
//!
//! Called by: `cli`, so that a server and the commands that name its configuration come to the
//! same. Caveat: root's are siblings of the default one, not below it, since a server may close its
//! own to everybody but itself.

use rustix::{fs::Access, process::geteuid};
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

/// Folders whose content goes with the machine's memory.
const VOLATILE: [&str; 2] = ["/run", "/var/run"];

/// The state directory of a server that was started as `apache2` or `nginx` and switches to `user`:
/// beside its PidFile, unless what is there is gone after the next start of the machine. Then it has
/// one that stays, so that certificates, bans, and kept pages outlive that; never the usual one,
/// because a server of the native configuration may run beside it.
pub fn of_program(file: &Path, pid_file: Option<&Path>, user: Option<&str>) -> PathBuf {
    let Some(beside) = pid_file.and_then(beside_pid_file) else {
        return of_configuration(file);
    };
    if !is_volatile(&beside, &VOLATILE) {
        return beside;
    }
    let user = user.and_then(|user| saker_net::process::user_id(user).ok().flatten());
    let own = match geteuid().is_root() {
        true => sibling(&Server::default().state_dir, &name(&real(file))),
        false => of_configuration(file),
    };
    match is_usable(&own, user) {
        true => own,
        false => beside,
    }
}

/// The directory in which servers that were started as such programs had their state before.
pub fn beside_pid_file(pid_file: &Path) -> Option<PathBuf> {
    Some(pid_file.parent()?.join("saker"))
}

fn is_volatile(directory: &Path, volatile: &[&str]) -> bool {
    // It may be made by the start alone, in a folder that is a link.
    let parent = directory.parent().unwrap_or(directory);
    let real = real(parent);
    let below = |path: &Path| volatile.iter().any(|folder| path.starts_with(folder));
    below(parent) || below(&real)
}

/// This process can make it or write to it, and it belongs to no other user: services may have
/// everything but their runtime folder read-only.
fn is_usable(directory: &Path, user: Option<u32>) -> bool {
    match std::fs::symlink_metadata(directory) {
        Ok(found) => {
            let owner = found.uid();
            (owner == geteuid().as_raw() || owner == 0 || Some(owner) == user)
                && is_writable(directory)
        }
        Err(_) => directory
            .ancestors()
            .skip(1)
            .find(|ancestor| ancestor.exists())
            .is_some_and(is_writable),
    }
}

fn is_writable(directory: &Path) -> bool {
    directory.is_dir() && rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok()
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
    fn programs_keep_their_state_where_it_stays() {
        let scratch = Scratch::new();
        let pid_file = scratch.join("a.pid");
        let file = scratch.join("httpd.conf");
        assert_eq!(
            of_program(&file, Some(&pid_file), None),
            scratch.join("saker")
        );
        assert_eq!(of_program(&file, None, None), of_configuration(&file));
        let of_run = of_program(&file, Some(Path::new("/run/no-such/a.pid")), None);
        assert_ne!(of_run, Server::default().state_dir);
        if geteuid().is_root() {
            let own = sibling(&Server::default().state_dir, &name(&real(&file)));
            assert_eq!(of_run, own);
        }
        let root = scratch.0.to_string_lossy();
        assert!(is_volatile(&scratch.join("saker"), &[&root]));
        std::fs::create_dir(scratch.join("run")).unwrap();
        std::os::unix::fs::symlink("run", scratch.join("link")).unwrap();
        let real = scratch.join("run");
        let real = real.to_string_lossy();
        assert!(is_volatile(&scratch.join("link/saker"), &[&real]));
        assert!(!is_volatile(&scratch.join("other/saker"), &[&real]));
    }

    #[test]
    fn directories_of_other_users_and_read_only_ones_are_not_used() {
        let scratch = Scratch::new();
        assert!(is_usable(&scratch.join("new/a"), None));
        assert!(is_usable(&scratch.0, None));
        std::fs::write(scratch.join("file"), "").unwrap();
        assert!(!is_usable(&scratch.join("file/a/b"), None));
        if geteuid().is_root() {
            std::os::unix::fs::chown(&scratch.0, Some(4711), None).unwrap();
            assert!(!is_usable(&scratch.0, None));
            assert!(!is_usable(&scratch.0, Some(12)));
            assert!(is_usable(&scratch.0, Some(4711)));
        }
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
