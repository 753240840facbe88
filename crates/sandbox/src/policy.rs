//! The paths and ports that a configuration needs.
//!
//! Called by: `lib`; the server, which makes one from its configuration.
//! Caveat: a rule of Landlock holds for a directory as it is, with everything that is ever below
//! it. So a path that does not exist stands for its nearest directory that does, and a file that
//! others replace by renaming has to be named by its directory.

use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
};

/// Needs of a configuration. Paths stand for everything below them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub reads: BTreeSet<PathBuf>,
    /// These are read as well.
    pub writes: BTreeSet<PathBuf>,
    /// The same for the main thread alone: workers give these up ([`crate::restrict_worker`]).
    pub main_writes: BTreeSet<PathBuf>,
    /// TCP ports that may be bound; `None`: all.
    pub ports: Option<BTreeSet<u16>>,
    /// The reason why this process starts programs itself, which would be confined like it.
    pub own_programs: Option<&'static str>,
}

/// Directories of the system that hold more than content: below them, a root is named exactly.
const SYSTEM: [&str; 8] = [
    "boot",
    "dev",
    "etc",
    "lost+found",
    "proc",
    "root",
    "run",
    "sys",
];
/// Directories of programs and libraries.
const PROGRAMS: [&str; 7] = ["bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr"];
/// Directories whose subdirectories hold the applications.
const NESTED: [&str; 6] = [
    "/var/lib",
    "/var/opt",
    "/var/local",
    "/usr/lib",
    "/usr/local",
    "/usr/share",
];

/// The directory that a document root is allowed with: the first two parts of its path, so that new
/// sites beside it, and releases that a link leads to, need no new server.
pub fn hierarchy(path: &Path) -> PathBuf {
    let parts: Vec<_> = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect();
    let first = parts.first().map(|part| part.as_os_str());
    if SYSTEM
        .iter()
        .any(|name| first.is_some_and(|first| first == *name))
    {
        return path.to_owned();
    }
    let below = |count: usize| -> PathBuf {
        std::iter::once(Component::RootDir)
            .chain(parts.iter().take(count).copied())
            .collect()
    };
    let two = below(2);
    if NESTED.iter().any(|nested| two == Path::new(nested)) {
        below(3)
    } else {
        two
    }
}

/// Directories with content: all at the top of the file system but the system's.
pub fn content_directories() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/").into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            !SYSTEM.iter().any(|name| entry.file_name() == *name)
                && entry.file_type().is_ok_and(|kind| kind.is_dir())
        })
        .map(|entry| entry.path())
        .collect()
}

impl Policy {
    /// A document root, as it is named and where its links lead.
    pub fn read_content(&mut self, root: &Path) {
        self.reads.extend(both(root).map(|path| hierarchy(&path)));
    }

    /// The same for content that clients write.
    pub fn write_content(&mut self, root: &Path) {
        self.writes.extend(both(root).map(|path| hierarchy(&path)));
    }

    /// Everything that is served as files: for configurations that follow links to anywhere.
    pub fn read_all_content(&mut self) {
        self.reads.extend(content_directories());
    }

    /// The same for writing, without the directories of programs and libraries.
    pub fn write_all_content(&mut self) {
        let all = content_directories().into_iter();
        self.writes.extend(all.filter(|path| {
            let name = path.file_name().unwrap_or_default();
            !PROGRAMS.iter().any(|known| name == *known)
        }));
    }

    /// The directory of a file, which may be replaced.
    pub fn read_beside(&mut self, file: &Path) {
        self.reads.extend(both(file).filter_map(directory));
    }

    pub fn write_beside(&mut self, file: &Path) {
        self.writes.extend(both(file).filter_map(directory));
    }

    /// For files that the main thread replaces.
    pub fn main_write_beside(&mut self, file: &Path) {
        self.main_writes.extend(both(file).filter_map(directory));
    }

    pub(crate) fn may_read(&self, path: &Path) -> bool {
        covers(&self.reads, path) || self.main_may_write(path)
    }

    pub(crate) fn main_may_write(&self, path: &Path) -> bool {
        self.may_write(path) || covers(&self.main_writes, path)
    }

    pub(crate) fn may_write(&self, path: &Path) -> bool {
        covers(&self.writes, path)
    }

    /// The same with paths that exist and are no links.
    pub(crate) fn settled(mut self) -> Policy {
        self.reads = self
            .reads
            .iter()
            .filter_map(|path| existing(path))
            .collect();
        for writes in [&mut self.writes, &mut self.main_writes] {
            *writes = writes.iter().filter_map(|path| existing(path)).collect();
        }
        self
    }
}

/// The path as it is named, and where its links lead.
fn both(path: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let named = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = existing(&named).filter(|real| *real != named);
    std::iter::once(named).chain(real)
}

/// `None`: the root directory, below which everything is.
fn directory(path: PathBuf) -> Option<PathBuf> {
    let parent = path.parent()?;
    (parent != Path::new("/")).then(|| parent.to_owned())
}

/// The path without links, or its nearest directory that exists; never the root directory.
fn existing(path: &Path) -> Option<PathBuf> {
    let found = path
        .ancestors()
        .find_map(|ancestor| ancestor.canonicalize().ok())?;
    (found != Path::new("/")).then_some(found)
}

fn covers(allowed: &BTreeSet<PathBuf>, path: &Path) -> bool {
    let real = existing(path).unwrap_or_else(|| path.to_owned());
    real.ancestors().any(|ancestor| allowed.contains(ancestor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;

    #[test]
    fn roots_stand_for_the_first_two_parts_of_their_paths() {
        for (root, expected) in [
            ("/var/www/html/site", "/var/www"),
            ("/var/www", "/var/www"),
            ("/srv/app/current/public", "/srv/app"),
            ("/srv", "/srv"),
            ("/home/ann/public_html", "/home/ann"),
            ("/var/lib/wordpress/files", "/var/lib/wordpress"),
            ("/usr/share/phpmyadmin/js", "/usr/share/phpmyadmin"),
            ("/etc/saker/www", "/etc/saker/www"),
            ("/root/site", "/root/site"),
            ("/run/site/www", "/run/site/www"),
        ] {
            assert_eq!(hierarchy(Path::new(root)), Path::new(expected), "{root}");
        }
    }

    #[test]
    fn links_missing_directories_and_neighbors() {
        let dir = TempDir::private("sandbox").unwrap();
        std::fs::create_dir_all(dir.join("real/inner")).unwrap();
        std::os::unix::fs::symlink(dir.join("real"), dir.join("link")).unwrap();
        let mut policy = Policy::default();
        policy.reads.insert(dir.join("link/inner"));
        policy.writes.insert(dir.join("real/new/deeper"));
        let policy = policy.settled();
        assert!(policy.may_read(&dir.join("real/inner/file")));
        assert!(policy.may_read(&dir.join("link/inner/file")));
        assert!(policy.may_write(&dir.join("real/new/deeper/file")));
        assert!(
            policy.may_read(&dir.join("real/new")),
            "what is written is read"
        );
        assert!(!policy.may_read(&dir.join("other")));
        assert!(!policy.may_write(&dir.join("other")));
        assert!(!policy.may_read(Path::new("/")));
    }

    #[test]
    fn the_whole_file_system_is_never_meant() {
        let mut policy = Policy::default();
        policy.reads.insert("/".into());
        policy.read_beside(Path::new("/saker.toml"));
        policy.writes.insert("/no-such-directory/x".into());
        let policy = policy.settled();
        assert!(
            policy.reads.is_empty() && policy.writes.is_empty(),
            "{policy:?}"
        );
        assert!(!content_directories().contains(&PathBuf::from("/etc")));
        assert!(content_directories().contains(&PathBuf::from("/usr")));
    }
}
