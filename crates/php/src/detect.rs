//! Which PHP there is: places where distributions and panels put it.
//!
//! Caveat: versions are read from names (`php-fpm8.2`, `ea-php81`, `lsphp82`), never by running a
//! program that wasn't configured; if the name has no version, the version is unknown.

use saker_config::model::PhpKind;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub kind: PhpKind,
    pub program: PathBuf,
    pub version: Option<Box<str>>,
}

impl Found {
    /// Describes an explicitly named program. `None`: its protocol can't be inferred from its name.
    pub fn named(program: &Path) -> Option<Found> {
        let name = program.file_name()?.to_string_lossy();
        let kind = PhpKind::ALL
            .into_iter()
            .find(|kind| name.starts_with(kind.name()))?;
        Some(Found {
            kind,
            program: program.to_owned(),
            version: version(program),
        })
    }

    pub fn name(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.kind.name()),
            None => self.kind.name().to_owned(),
        }
    }
}

/// All that this machine has, by kind in the order of preference, the newest first.
pub fn installed() -> Vec<Found> {
    let search_path = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect::<Vec<_>>())
        .unwrap_or_default();
    detect(Path::new("/"), &search_path)
}

/// Folders with a `*` that stands for one name; programs are looked for in them by the beginning of
/// their names.
const FOLDERS: [&str; 8] = [
    "/usr/local/bin",
    "/usr/local/sbin",
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/lsws/*/bin",
    "/opt/cpanel/*/root/usr/bin",
    "/opt/cpanel/*/root/usr/sbin",
    "/opt/alt/*/usr/bin",
];

/// All of a machine whose root is `root`, by kind in the order of preference, the newest first;
/// each kind and version once.
pub fn detect(root: &Path, search_path: &[PathBuf]) -> Vec<Found> {
    let below = |folder: &str| root.join(folder.trim_start_matches('/'));
    let folders = search_path
        .iter()
        .cloned()
        .chain(FOLDERS.iter().flat_map(|folder| expand(&below(folder))));
    let mut all: Vec<Found> = folders.flat_map(|folder| programs(&folder)).collect();
    // A stable sort: of the same version the one that comes first on the way.
    all.sort_by_key(|found| {
        (
            found.kind,
            std::cmp::Reverse(numbers(found.version.as_deref().unwrap_or_default())),
        )
    });
    let mut kept: Vec<Found> = Vec::new();
    for found in all {
        if !kept
            .iter()
            .any(|other| other.kind == found.kind && other.version == found.version)
        {
            kept.push(found);
        }
    }
    kept
}

fn expand(folder: &Path) -> Vec<PathBuf> {
    let text = folder.to_string_lossy();
    let Some((before, after)) = text.split_once("*/") else {
        return vec![folder.to_owned()];
    };
    let Ok(entries) = fs::read_dir(before) else {
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path().join(after))
        .filter(|folder| folder.is_dir())
        .collect();
    folders.sort();
    folders
}

fn programs(folder: &Path) -> Vec<Found> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found: Vec<Found> = entries
        .flatten()
        .filter_map(|entry| Found::named(&entry.path()))
        .filter(is_program)
        .collect();
    found.sort_by(|one, other| one.program.cmp(&other.program));
    found
}

/// A file that can be run, with a name that is a kind's and perhaps a version.
fn is_program(found: &Found) -> bool {
    let name = found
        .program
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let rest = name.strip_prefix(found.kind.name()).unwrap_or_default();
    let is_version = rest
        .trim_start_matches('-')
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_version
        && fs::metadata(&found.program)
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Version in the program's name, in its link target, or in a directory of its path (`ea-php81`,
/// `lsphp82`).
fn version(program: &Path) -> Option<Box<str>> {
    let target = fs::canonicalize(program).ok();
    let names = |path: &Path| {
        path.iter()
            .rev()
            .map(|name| name.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
    };
    names(program)
        .iter()
        .chain(target.as_deref().map(names).iter().flatten())
        .find_map(|name| version_in(name))
}

/// `8.2` and `82` behind `php`, perhaps with `-fpm` or `-cgi` between.
pub fn version_in(name: &str) -> Option<Box<str>> {
    let (_, rest) = name.rsplit_once("php")?;
    let rest = rest
        .trim_start_matches("-fpm")
        .trim_start_matches("-cgi")
        .trim_start_matches('-');
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let version = rest.get(..end).unwrap_or_default();
    match (version.len(), version.contains('.')) {
        (2, false) => Some(format!("{}.{}", version.get(..1)?, version.get(1..)?).into()),
        (3.., true) => Some(version.trim_end_matches('.').into()),
        _ => None,
    }
}

fn numbers(version: &str) -> Vec<u32> {
    version
        .split('.')
        .filter_map(|part| part.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Root(PathBuf);

    impl Root {
        fn with(name: &str, programs: &[&str]) -> Root {
            let root =
                Root(std::env::temp_dir().join(format!("saker-php-{name}-{}", std::process::id())));
            for program in programs {
                let path = root.0.join(program.trim_start_matches('/'));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, "").unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
            root
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn by_kind_and_then_the_newest() {
        let root = Root::with(
            "order",
            &[
                "/usr/sbin/php-fpm7.4",
                "/usr/sbin/php-fpm8.2",
                "/usr/sbin/php-fpm8.10",
                "/usr/bin/php-cgi",
                "/usr/bin/php-cgi8.2",
                "/usr/bin/php8.2",
                "/usr/bin/php-config8.2",
                "/usr/local/lsws/lsphp81/bin/lsphp",
                "/usr/local/lsws/lsphp83/bin/lsphp",
                "/opt/cpanel/ea-php74/root/usr/bin/lsphp",
            ],
        );
        let found: Vec<String> = detect(&root.0, &[]).iter().map(Found::name).collect();
        assert_eq!(
            found,
            [
                "lsphp 8.3",
                "lsphp 8.1",
                "lsphp 7.4",
                "php-fpm 8.10",
                "php-fpm 8.2",
                "php-fpm 7.4",
                "php-cgi 8.2",
                "php-cgi"
            ]
        );
        assert!(detect(&root.0.join("nowhere"), &[]).is_empty());
    }

    #[test]
    fn what_can_not_be_run_is_none() {
        let root = Root::with("mode", &["/usr/bin/php-cgi"]);
        fs::set_permissions(
            root.0.join("usr/bin/php-cgi"),
            fs::Permissions::from_mode(0o644),
        )
        .unwrap();
        fs::create_dir_all(root.0.join("usr/bin/lsphp")).unwrap();
        assert!(detect(&root.0, &[]).is_empty());
    }

    #[test]
    fn versions() {
        for (name, version) in [
            ("php-fpm8.2", Some("8.2")),
            ("lsphp82", Some("8.2")),
            ("ea-php81", Some("8.1")),
            ("php-cgi", None),
            ("lsphp-8.3.1", Some("8.3.1")),
            ("php8", None),
            ("perl5.36", None),
        ] {
            assert_eq!(version_in(name).as_deref(), version, "{name}");
        }
        assert_eq!(Found::named(Path::new("/opt/x/python")), None);
    }
}
