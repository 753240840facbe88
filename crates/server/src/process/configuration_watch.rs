//! Reloads when a file of the configuration has changed (`watch` in [server]).
//!
//! Called by: the supervisor's loop, for as long as the server runs.
//! Caveat: directories are watched, as editors replace files by rename; where that is impossible,
//! the files are examined every two seconds. A change is taken up when the files have been quiet
//! for a moment, so that a deployment of many files makes one reload. A configuration with errors
//! is tried once, not again before the next change.
//! Out of scope: certificates and password files, which their features watch by themselves.

use super::supervisor::Supervisor;
use saker_cli::source::Source;
use saker_config::{included_files, model::Server};
use saker_files::{ChangeToken, Watcher};
use saker_net::privileged;
use saker_telemetry::{error_log, message};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::ErrorKind,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

/// Interval of checks whether something has changed; a check costs one load per directory.
const LOOK: Duration = Duration::from_millis(250);
/// Interval of checks of files in directories that can't be watched.
const LOOK_AT_CLOSED: Duration = Duration::from_secs(2);
/// Times of files are those of the kernel's last tick.
const CLOCK_STEP: Duration = Duration::from_millis(20);
/// Longest wait for files to become quiet.
const QUIET_WAIT: Duration = Duration::from_secs(2);

/// Identity and times of a file; `None`: it is not there.
type Signature = BTreeMap<PathBuf, Option<(u64, u64, u64, i64, i64)>>;

/// Files of a configuration.
#[derive(Clone, Debug, Default)]
struct Watched {
    files: Vec<PathBuf>,
    includes: Vec<(PathBuf, String)>,
}

impl Watched {
    fn new(server: &Server, sources: &[PathBuf]) -> Watched {
        let files = sources.iter().chain(&server.value_files).cloned();
        Watched {
            files: files.collect(),
            includes: server.includes.clone(),
        }
    }

    /// All files, those that are included now among them.
    fn all(&self) -> BTreeSet<PathBuf> {
        let included = self.includes.iter().flat_map(|(base, pattern)| {
            let files = included_files(base, pattern).into_iter();
            files.map(|file| base.join(file)).collect::<Vec<_>>()
        });
        self.files.iter().cloned().chain(included).collect()
    }

    fn signature(&self) -> Signature {
        let of = |file: &Path| {
            let found = privileged::metadata(file).ok()?;
            let (size, inode) = (found.len(), found.ino());
            Some((found.dev(), inode, size, found.mtime(), found.mtime_nsec()))
        };
        let all = self.all().into_iter();
        all.map(|file| {
            let signature = of(&file);
            (file, signature)
        })
        .collect()
    }

    /// The signature of the files as they were read. Those that have changed since differ from any
    /// signature, however soon that was.
    fn signature_when_read(&self, read_at: SystemTime) -> Signature {
        let seconds = |time: SystemTime| {
            let since = time.duration_since(SystemTime::UNIX_EPOCH);
            since.map_or((0, 0), |since| {
                let whole = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
                (whole, i64::from(since.subsec_nanos()))
            })
        };
        let limit = seconds(read_at.checked_sub(CLOCK_STEP).unwrap_or(read_at));
        // By the clock of a file server that is ahead, files would change after each reload.
        let now = seconds(SystemTime::now());
        let mut signature = self.signature();
        signature.retain(|file, _| {
            let found = privileged::metadata(file);
            match found.map(|found| (found.ctime(), found.ctime_nsec())) {
                Ok(changed) => changed < limit || changed > now,
                Err(error) => error.kind() != ErrorKind::NotFound,
            }
        });
        signature
    }

    /// Directories of the files and of what links lead to, and those that patterns look into.
    fn folders(&self) -> BTreeSet<PathBuf> {
        let parent = |file: &Path| {
            let folder = file.parent().filter(|path| !path.as_os_str().is_empty());
            folder.unwrap_or(Path::new(".")).to_owned()
        };
        let mut folders = BTreeSet::new();
        for file in self.all() {
            folders.insert(parent(&file));
            folders.extend(std::fs::canonicalize(&file).ok().map(|file| parent(&file)));
        }
        for (base, pattern) in &self.includes {
            let mut folder = base.clone();
            for part in Path::new(pattern).components() {
                if part.as_os_str().to_string_lossy().contains(['*', '?']) {
                    break;
                }
                folder.push(part);
            }
            // One that does not exist yet appears in the one above.
            folders.insert(parent(&folder));
            folders.insert(folder);
        }
        folders
    }
}

/// Says when something in the directories may have changed.
#[derive(Default)]
struct Folders {
    tokens: Vec<ChangeToken>,
    has_closed: bool,
    looked: Option<Instant>,
}

impl Folders {
    fn new(watched: &Watched, watcher: &Watcher) -> Folders {
        let mut folders = Folders {
            looked: Some(Instant::now()),
            ..Folders::default()
        };
        for folder in watched.folders() {
            match File::open(&folder) {
                Ok(opened) => folders.tokens.push(watcher.directory_token(&opened)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(_) => folders.has_closed = true,
            }
        }
        folders
    }

    fn may_have_changed(&self, watcher: &Watcher) -> bool {
        let is_time = self.looked.is_none_or(|at| at.elapsed() >= LOOK_AT_CLOSED);
        let now_ms = watcher.now_ms();
        self.looked.is_none()
            || (self.has_closed && is_time)
            || !self.tokens.iter().all(|token| token.is_current(now_ms))
    }
}

impl Supervisor {
    /// Reloads when the configuration changes, for as long as the server runs.
    pub async fn watch_configuration(&self) {
        let mut generation = None;
        let (mut watched, mut folders) = (Watched::default(), Folders::default());
        let mut seen = Signature::new();
        loop {
            tokio::time::sleep(LOOK).await;
            let current = self.generation.borrow().clone();
            let is_wanted =
                matches!(self.source, Source::File { .. }) && current.model.server.watch;
            if !is_wanted || self.successor.has_asked() || self.is_stopping() {
                continue;
            }
            if generation != Some(current.number) {
                generation = Some(current.number);
                watched = Watched::new(&current.model.server, &current.model.sources);
                folders = Folders::default();
                seen = watched.signature_when_read(current.model.server.read_at);
            }
            if !folders.may_have_changed(&self.shared.watcher) {
                continue;
            }
            folders = Folders::new(&watched, &self.shared.watcher);
            let now = watched.signature();
            if now == seen {
                continue;
            }
            let changed = changed(&seen, &now);
            seen = quiet(&watched, now).await;
            error_log::log(&message::CONFIG_FILE_CHANGED, format_args!("{changed}"));
            self.reload_or_succeed();
        }
    }
}

/// Waits until the files stay as they are; returns how they are then.
async fn quiet(watched: &Watched, mut last: Signature) -> Signature {
    let until = Instant::now() + QUIET_WAIT;
    loop {
        tokio::time::sleep(LOOK).await;
        let now = watched.signature();
        if now == last || Instant::now() >= until {
            return now;
        }
        last = now;
    }
}

/// The first changed file, and the number of others.
fn changed(before: &Signature, after: &Signature) -> String {
    let gone = before.keys().filter(|file| !after.contains_key(*file));
    let differing = after
        .iter()
        .filter(|(file, signature)| before.get(*file) != Some(signature))
        .map(|(file, _)| file);
    let all: BTreeSet<&PathBuf> = gone.chain(differing).collect();
    let first = all.first().map(|file| file.display().to_string());
    match (first, all.len()) {
        (Some(first), 1) => first,
        (Some(first), count) => format!("{first} and {} more", count - 1),
        (None, _) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_named() {
        let signature = |entries: &[(&str, u64)]| -> Signature {
            let each = entries.iter();
            each.map(|(file, inode)| (PathBuf::from(file), Some((0, *inode, 0, 0, 0))))
                .collect()
        };
        let before = signature(&[("a", 1), ("b", 1)]);
        assert_eq!(changed(&before, &signature(&[("a", 1), ("b", 2)])), "b");
        assert_eq!(
            changed(&before, &signature(&[("b", 2), ("c", 1)])),
            "a and 2 more"
        );
    }

    #[test]
    fn changes_since_the_files_were_read_are_seen() {
        let dir = saker_testkit::TempDir::private("watched").unwrap();
        let file = dir.write("a.toml", "").unwrap();
        let watched = Watched {
            files: vec![file.clone(), dir.join("gone.toml")],
            includes: Vec::new(),
        };
        let later = SystemTime::now() + Duration::from_secs(60);
        let early = SystemTime::now() - Duration::from_secs(60);
        assert!(watched.signature_when_read(later).contains_key(&file));
        assert_ne!(watched.signature_when_read(later), watched.signature());
        assert!(watched.signature_when_read(early).is_empty());
    }

    #[test]
    fn directories_of_files_and_patterns() {
        let watched = Watched {
            files: vec!["/etc/none/saker.toml".into()],
            includes: vec![("/etc/none".into(), "sites/*/conf.d/*.toml".into())],
        };
        let folders: Vec<PathBuf> = watched.folders().into_iter().collect();
        assert_eq!(
            folders,
            [Path::new("/etc/none"), Path::new("/etc/none/sites")]
        );
    }
}
