//! Access logs of many hosts, a file for each, with a limited number of open files.
//!
//! Called by: the access log, which puts the host's name and a NUL before each line
//! ([`begin_line`]). A batch is sorted by name, and each file is written once. The least recently
//! written file is closed for the next.
//! Caveat: names come from clients. They have been checked for characters valid in a file name, and
//! unknown hosts share the file `_`.

use super::{line_sink::line_count, open::open_append};
use crate::{message, report};
use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Files that are open at a time, for all hosts of one log.
const OPEN_MAX: usize = 128;
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

#[derive(Debug)]
pub struct HostFiles {
    pattern: String,
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
        let mut files = HostFiles {
            pattern,
            open: HashMap::new(),
            clock: 0,
            has_failed: false,
        };
        files.file(OTHERS)?;
        Ok(files)
    }

    /// Number of lines were written.
    pub fn write(&mut self, lines: &[u8]) -> u64 {
        let mut by_name: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let at = line.iter().position(|byte| *byte == BETWEEN);
            let (name, line) = at.map_or((&b""[..], line), |at| (&line[..at], &line[at + 1..]));
            let name = str::from_utf8(name)
                .ok()
                .filter(|name| is_safe(name))
                .unwrap_or(OTHERS);
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
        self.has_failed = false;
    }

    fn append(&mut self, name: &str, lines: &[u8]) -> io::Result<()> {
        self.file(name)?.write_all(lines)
    }

    fn file(&mut self, name: &str) -> io::Result<&mut File> {
        self.clock += 1;
        if !self.open.contains_key(name) {
            let file = open_append(&PathBuf::from(self.pattern.replace(PLACE, name)))?;
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
                format_args!("{}: {error}", self.pattern.replace(PLACE, name)),
            );
        }
    }
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
