//! Access logs of many files: one for each host, or at paths that rules make of the request; with a
//! limited number of open files.
//!
//! Called by: the access log, which puts the host's name, or the path, and a NUL before each line
//! ([`begin_line`]). A batch is sorted by name, and each file is written once. The least recently
//! written file is closed for the next.
//! Caveat: names come from clients. Hosts have been checked for characters valid in a file name, and
//! unknown ones share the file `_`. Paths stay below their directory, links included, and are opened
//! with the rights of the server, never with those of the broker.

use super::{
    line_sink::line_count,
    open::{LOG_MODE, open_append},
};
use crate::{message, report};
use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Files that are open at a time, for all hosts of one log.
const OPEN_MAX: usize = 128;
/// Files that are made at paths of lines: clients may choose them.
const MADE_MAX: usize = 4096;
/// Files that are made for hosts until the logs are opened again; further hosts have none of their
/// own.
const HOSTS_MADE_MAX: usize = 100_000;
const PATH_BYTES_MAX: usize = 1024;
/// Stands for the name in a path.
pub const PLACE: &str = "%{host}";
/// Name for hosts without a file of their own.
pub const OTHERS: &str = "_";
const BETWEEN: u8 = 0;

/// Begins a line with its host's name.
pub fn begin_line(name: &str, line: &mut Vec<u8>) {
    line.extend_from_slice(name.as_bytes());
    line.push(BETWEEN);
}

/// The place of the files.
#[derive(Debug)]
enum Place {
    /// The path of a host's file, with [`PLACE`] in it.
    Hosts(String),
    /// The directory below which the paths of lines are.
    Below(PathBuf),
}

#[derive(Debug)]
pub struct HostFiles {
    place: Place,
    /// Files that were made here.
    made: usize,
    open: HashMap<Box<str>, (File, u64)>,
    /// Counts writes.
    clock: u64,
    has_failed: bool,
}

impl HostFiles {
    /// Opens the file of those that have none of their own, so that a folder that is not there is
    /// said at once.
    pub fn open(path: &Path) -> io::Result<HostFiles> {
        let pattern = path.to_str().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let mut files = HostFiles::new(Place::Hosts(pattern));
        files.file(OTHERS)?;
        Ok(files)
    }

    /// Files at paths below a directory, which lines name.
    pub fn below(directory: &Path) -> HostFiles {
        HostFiles::new(Place::Below(directory.to_owned()))
    }

    fn new(place: Place) -> HostFiles {
        HostFiles {
            place,
            made: 0,
            open: HashMap::new(),
            clock: 0,
            has_failed: false,
        }
    }

    /// Number of lines were written.
    pub fn write(&mut self, lines: &[u8]) -> u64 {
        let mut by_name: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let at = line.iter().position(|byte| *byte == BETWEEN);
            let (name, line) = at.map_or((&b""[..], line), |at| (&line[..at], &line[at + 1..]));
            let name = str::from_utf8(name).ok();
            let name = match self.place {
                Place::Hosts(_) => name.filter(|name| is_safe(name)).unwrap_or(OTHERS),
                Place::Below(_) => match name.filter(|name| is_below(name)) {
                    Some(name) => name,
                    None => continue,
                },
            };
            by_name.entry(name).or_default().extend_from_slice(line);
        }
        let mut written = 0;
        for (name, lines) in by_name {
            match self.append(name, &lines) {
                Ok(()) => written += line_count(&lines),
                Err(error) => self.fail(name, &error),
            }
        }
        written
    }

    /// Reopens all files by their names when they are next written to.
    pub fn reopen(&mut self) {
        self.open.clear();
        if matches!(self.place, Place::Hosts(_)) {
            // Rotated files are made anew.
            self.made = 0;
        }
        self.has_failed = false;
    }

    fn append(&mut self, name: &str, lines: &[u8]) -> io::Result<()> {
        let name = if self.has_file(name) { name } else { OTHERS };
        self.file(name)?.write_all(lines)
    }

    /// False for another host where a great many have files already.
    fn has_file(&mut self, name: &str) -> bool {
        let Place::Hosts(pattern) = &self.place else {
            return true;
        };
        if self.open.contains_key(name) || Path::new(&pattern.replace(PLACE, name)).exists() {
            return true;
        }
        let has_room = self.made < HOSTS_MADE_MAX;
        self.made += usize::from(has_room);
        has_room
    }

    fn file(&mut self, name: &str) -> io::Result<&mut File> {
        self.clock += 1;
        if !self.open.contains_key(name) {
            let file = match &self.place {
                Place::Hosts(pattern) => open_append(&PathBuf::from(pattern.replace(PLACE, name)))?,
                Place::Below(directory) => {
                    let (file, is_new) = open_below(directory, name, self.made < MADE_MAX)?;
                    self.made += usize::from(is_new);
                    file
                }
            };
            if self.open.len() >= OPEN_MAX
                && let Some(oldest) = self
                    .open
                    .iter()
                    .min_by_key(|(_, (_, used))| *used)
                    .map(|(name, _)| name.clone())
            {
                self.open.remove(&oldest);
            }
            self.open.insert(name.into(), (file, self.clock));
        }
        let (file, used) = self.open.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        *used = self.clock;
        Ok(file)
    }

    /// Said once until the logs are opened again: a full disk would say it for each host.
    fn fail(&mut self, name: &str, error: &io::Error) {
        self.open.remove(name);
        if !self.has_failed {
            self.has_failed = true;
            report::log(
                &message::LOG_WRITE_FAILED,
                format_args!("{}: {error}", self.place.of(name)),
            );
        }
    }
}

impl Place {
    /// The path of a file, for messages.
    fn of(&self, name: &str) -> String {
        match self {
            Place::Hosts(pattern) => pattern.replace(PLACE, name),
            Place::Below(directory) => directory.join(name).display().to_string(),
        }
    }
}

/// Opens a file below a directory for appending; true: it is new.
fn open_below(directory: &Path, name: &str, may_make: bool) -> io::Result<(File, bool)> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, directory, folder, Mode::empty())?;
    // A pipe must not block the worker.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let below = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let opened = openat2(&folder, name, flags, Mode::empty(), below);
    let (file, is_new) = match opened {
        Err(rustix::io::Errno::NOENT) if may_make => {
            let flags = flags | OFlags::CREATE;
            let mode = Mode::from_raw_mode(LOG_MODE);
            (openat2(&folder, name, flags, mode, below)?, true)
        }
        Err(rustix::io::Errno::NOENT) => {
            return Err(io::Error::other("too many log files have been made"));
        }
        opened => (opened?, false),
    };
    let file = File::from(file);
    match file.metadata()?.is_file() {
        true => Ok((file, is_new)),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// A relative path without steps up, and nothing that a terminal would mind.
fn is_below(path: &str) -> bool {
    let is_step = |part: &str| !matches!(part, "" | "." | "..") && part.len() <= 255;
    path.len() <= PATH_BYTES_MAX
        && path.split('/').all(is_step)
        && !path.bytes().any(|byte| byte.is_ascii_control())
}

/// No slash, no dot in front, nothing that a shell or a terminal would mind.
fn is_safe(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty() && name.len() <= 253 && !name.starts_with('.') && name.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("saker-host-logs-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn line(name: &str, text: &str) -> Vec<u8> {
        let mut line = Vec::new();
        begin_line(name, &mut line);
        line.extend_from_slice(text.as_bytes());
        line.push(b'\n');
        line
    }

    #[test]
    fn a_file_for_each_host_and_few_open() {
        let folder = folder("many");
        let mut files = HostFiles::open(&folder.join("%{host}.log")).unwrap();
        for round in 0..3 {
            let batch: Vec<u8> = (0..500)
                .flat_map(|number| line(&format!("h{number}.example"), &format!("round {round}")))
                .collect();
            assert_eq!(files.write(&batch), 500);
            assert!(files.open.len() <= OPEN_MAX);
        }
        assert_eq!(
            fs::read_to_string(folder.join("h7.example.log")).unwrap(),
            "round 0\nround 1\nround 2\n"
        );
        fs::rename(folder.join("h7.example.log"), folder.join("old")).unwrap();
        files.reopen();
        files.write(&line("h7.example", "new"));
        assert_eq!(
            fs::read_to_string(folder.join("h7.example.log")).unwrap(),
            "new\n"
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn paths_stay_below_their_directory() {
        let folder = folder("below");
        let inside = folder.join("logs");
        fs::create_dir_all(inside.join("a.example")).unwrap();
        std::os::unix::fs::symlink(&folder, inside.join("out")).unwrap();
        std::os::unix::fs::symlink(folder.join("x.log"), inside.join("link.log")).unwrap();
        let (here, kind) = (rustix::fs::CWD, rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(here, inside.join("pipe"), kind, 0o600.into(), 0).unwrap();
        let mut files = HostFiles::below(&inside);
        assert_eq!(files.write(&line("a.example/x.log", "one")), 1);
        assert_eq!(files.write(&line("b.log", "two")), 1);
        let long = "a".repeat(300);
        for bad in [
            "../x.log",
            "a.example/../../x.log",
            "/x.log",
            "",
            "a//b",
            "./b",
            "out/x.log",
            "link.log",
            "missing/x.log",
            "pipe",
            "a\u{1b}b",
            &long,
        ] {
            assert_eq!(files.write(&line(bad, "bad")), 0, "{bad}");
        }
        assert_eq!(files.write(b"no path\n"), 0);
        assert_eq!(
            fs::read_to_string(inside.join("a.example/x.log")).unwrap(),
            "one\n"
        );
        assert!(!folder.join("x.log").exists());
        files.made = MADE_MAX - 1;
        assert_eq!(files.write(&line("last.log", "x")), 1);
        assert_eq!(files.write(&line("beyond.log", "x")), 0, "no more are made");
        files.reopen();
        assert_eq!(
            files.write(&line("b.log", "three")),
            1,
            "those that are there go on"
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_number_of_files_for_hosts_is_limited() {
        let folder = folder("limit");
        let mut files = HostFiles::open(&folder.join("%{host}.log")).unwrap();
        files.made = HOSTS_MADE_MAX - 1;
        for name in ["a.example", "b.example", "a.example"] {
            assert_eq!(files.write(&line(name, name)), 1);
        }
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert_eq!(
            (read("a.example.log"), read("_.log"), read("b.example.log")),
            (
                "a.example\na.example\n".into(),
                "b.example\n".into(),
                String::new()
            )
        );
        files.reopen();
        assert_eq!(files.write(&line("b.example", "after rotation")), 1);
        assert_eq!(read("b.example.log"), "after rotation\n");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn odd_names_share_a_file() {
        let folder = folder("odd");
        let mut files = HostFiles::open(&folder.join("%{host}.log")).unwrap();
        for name in ["../x", "", ".hidden", "a/b", "a\u{1b}b", &"a".repeat(300)] {
            assert_eq!(files.write(&line(name, "odd")), 1, "{name}");
        }
        assert_eq!(files.write(b"no name\n"), 1);
        assert_eq!(
            fs::read_to_string(folder.join("_.log"))
                .unwrap()
                .lines()
                .count(),
            7
        );
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert!(HostFiles::open(&folder.join("missing/%{host}.log")).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
