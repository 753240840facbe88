//! Files of users and groups: lines of a name, a colon and a value, or DBM files of the same.
//!
//! A worker reads a file when it is first needed and again when it has changed.
//!
//! Called by: `providers` and `groups`; other modules of a front end that have such files.
//! Caveat: a file that can't be read is an error, never an empty file.

use saker_database::dbm;
use saker_files::{ChangeToken, Kind, LinkPolicy, Watcher, resolve};
use std::{
    collections::HashMap,
    ffi::OsStr,
    hash::Hash,
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::{Path, PathBuf},
    rc::Rc,
};

/// Files that a worker keeps in memory.
const KEPT_MAX: usize = 1000;
/// Files are read and parsed on the worker.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Values by name, in the order of the lines.
pub type Records = HashMap<Box<[u8]>, Vec<Box<[u8]>>>;

struct CachedFile {
    tokens: Box<[ChangeToken]>,
    records: Result<Rc<Records>, String>,
}

/// The files that a worker has read.
#[derive(Default)]
pub struct RecordFiles {
    by_path: HashMap<PathBuf, CachedFile>,
    /// DBM files, by kind and path.
    dbm_files: HashMap<(Box<str>, PathBuf), CachedFile>,
    keeps_blanks: bool,
}

impl RecordFiles {
    /// Files in which blanks around a line belong to its name and its value, as nginx reads them.
    pub fn keeping_blanks() -> RecordFiles {
        RecordFiles {
            keeps_blanks: true,
            ..RecordFiles::default()
        }
    }

    /// Returns the records of a text file.
    ///
    /// # Errors
    /// Why it can't be read.
    pub fn read(&mut self, watcher: &Watcher, path: &Path) -> Result<Rc<Records>, String> {
        let keeps_blanks = self.keeps_blanks;
        cached(&mut self.by_path, path.to_owned(), watcher, |tokens| {
            Ok(parse(&content(watcher, path, tokens)?, keeps_blanks))
        })
    }

    /// Returns the records of a DBM file; each key has one value. `kind`: its APR name.
    ///
    /// # Errors
    /// Why it can't be read.
    pub fn read_dbm(
        &mut self,
        watcher: &Watcher,
        kind: &str,
        path: &Path,
    ) -> Result<Rc<Records>, String> {
        let pairs = |pairs: Vec<dbm::Pair<'_>>| {
            pairs
                .into_iter()
                .map(|(key, value)| (key.into(), vec![value.into()]))
                .collect()
        };
        cached(
            &mut self.dbm_files,
            (kind.into(), path.to_owned()),
            watcher,
            |tokens| {
                let read = |ending: &str| {
                    let name = [path.as_os_str().as_bytes(), ending.as_bytes()].concat();
                    content(watcher, Path::new(OsStr::from_bytes(&name)), tokens)
                };
                dbm::read(kind, read, pairs)
            },
        )
    }
}

/// Returns the records read before, unless the file has changed.
fn cached<K: Hash + Eq>(
    all: &mut HashMap<K, CachedFile>,
    key: K,
    watcher: &Watcher,
    read: impl FnOnce(&mut Vec<ChangeToken>) -> Result<Records, String>,
) -> Result<Rc<Records>, String> {
    let now_ms = watcher.now_ms();
    if let Some(kept) = all
        .get(&key)
        .filter(|kept| kept.tokens.iter().all(|token| token.is_current(now_ms)))
    {
        return kept.records.clone();
    }
    let mut tokens = Vec::new();
    let records = read(&mut tokens).map(Rc::new);
    if all.len() >= KEPT_MAX {
        all.clear();
    }
    all.insert(
        key,
        CachedFile {
            tokens: tokens.into(),
            records: records.clone(),
        },
    );
    records
}

fn content(
    watcher: &Watcher,
    path: &Path,
    tokens: &mut Vec<ChangeToken>,
) -> Result<Vec<u8>, String> {
    // Configurations name it for a list of no users.
    if path == Path::new("/dev/null") {
        return Ok(Vec::new());
    }
    let relative: Vec<&[u8]> = path
        .as_os_str()
        .as_bytes()
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty() && *part != b".")
        .collect();
    let found = resolve(
        watcher,
        Path::new("/"),
        &relative.join(&b'/'),
        LinkPolicy::Follow,
        tokens,
    )
    .map_err(|error| error.to_string())?;
    if found.metadata.kind != Kind::File || found.metadata.size > FILE_BYTES_MAX {
        return Err("not a regular file, or too large".into());
    }
    let mut text = vec![0; found.metadata.size as usize];
    found
        .file
        .read_exact_at(&mut text, 0)
        .map_err(|error| error.to_string())?;
    Ok(text)
}

/// Parses a file. Empty lines and those that begin with `#` are ignored. `keeps_blanks`: a line ends
/// at its line feed or carriage return, and all of it counts.
fn parse(text: &[u8], keeps_blanks: bool) -> Records {
    let mut records = Records::new();
    for line in text.split(|byte| *byte == b'\n') {
        let line = match keeps_blanks {
            true => line.split(|byte| *byte == b'\r').next().unwrap_or(line),
            false => line.trim_ascii(),
        };
        let Some(at) = line
            .iter()
            .position(|byte| *byte == b':')
            .filter(|_| !line.starts_with(b"#"))
        else {
            continue;
        };
        let (name, rest) = (
            line.get(..at).unwrap_or_default(),
            line.get(at + 1..).unwrap_or_default(),
        );
        records.entry(name.into()).or_default().push(rest.into());
    }
    records
}

/// The text before the next colon.
pub fn field(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == b':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::{PATIENCE, poll};

    fn values(records: &Records, name: &[u8]) -> Option<Vec<String>> {
        let lines = records.get(name)?.iter();
        Some(
            lines
                .map(|line| String::from_utf8_lossy(line).into())
                .collect(),
        )
    }

    #[test]
    fn lines() {
        let text = b"# a:b\n\nuser:hash:more\r\n  other:x  \nuser:second\nno colon\n:empty";
        let records = parse(text, false);
        let of = |name: &[u8]| values(&records, name);
        assert_eq!(of(b"user"), Some(vec!["hash:more".into(), "second".into()]));
        assert_eq!(of(b"other"), Some(vec!["x".into()]));
        assert_eq!((records.len(), of(b"")), (3, Some(vec!["empty".into()])));
        assert_eq!(field(b"hash:more"), b"hash");
    }

    #[test]
    fn blanks_may_belong_to_lines() {
        let text = b" sp:a\n\ttab:b\nlast:c \r\n # no:comment\n#:d\n\r:e\r\n";
        let records = parse(text, true);
        let of = |name: &[u8]| values(&records, name);
        assert_eq!((of(b"sp"), of(b"tab")), (None, None));
        assert_eq!(of(b" sp"), Some(vec!["a".into()]));
        assert_eq!(of(b"\ttab"), Some(vec!["b".into()]));
        assert_eq!(of(b"last"), Some(vec!["c ".into()]));
        assert_eq!(of(b" # no"), Some(vec!["comment".into()]));
        assert_eq!(records.len(), 4);
    }

    #[test]
    fn a_file_is_read_again_when_it_changed() {
        let folder = std::env::temp_dir().join(format!("saker-records-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (path, watcher, mut files) = (
            folder.join("users"),
            Watcher::start(|_| {}).unwrap(),
            RecordFiles::default(),
        );
        assert!(files.read(&watcher, &path).is_err());
        std::fs::write(&path, "a:1\n").unwrap();
        let eventually = |files: &mut RecordFiles, name: &[u8]| {
            let has_name = || {
                let records = files.read(&watcher, &path).ok()?;
                records.contains_key(name).then_some(())
            };
            poll(PATIENCE, has_name).is_some()
        };
        assert!(eventually(&mut files, b"a"));
        let same = Rc::ptr_eq(
            &files.read(&watcher, &path).unwrap(),
            &files.read(&watcher, &path).unwrap(),
        );
        assert!(same, "read without need");
        std::fs::write(&path, "bee:1\n").unwrap();
        assert!(eventually(&mut files, b"bee"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
