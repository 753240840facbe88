//! A list of addresses in a file, which may be replaced while the server runs.
//!
//! Called by: access rules and hotlink protection. One block, address, or range
//! (`192.0.2.1-192.0.2.9`) per line; `#` and `;` begin comments, as in published lists.
//! Caveat: a list with a bad line must not become a shorter list. It is refused as a whole, with
//! the line's number, and the previous one stays in force.

use crate::{AddressSet, SetBuilder};
use std::{
    fmt, fs,
    net::IpAddr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

/// Larger files are no lists: ten million long lines.
const FILE_BYTES_MAX: u64 = 1 << 30;
const SHOWN_CHARS_MAX: usize = 60;

/// Reason why a list can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListFault {
    pub path: PathBuf,
    /// 0: the file as a whole.
    pub line: u32,
    pub message: String,
}

impl fmt::Display for ListFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path.display(), self.message),
            line => write!(f, "{}:{line}: {}", self.path.display(), self.message),
        }
    }
}

/// Identifies a version of a file: a change of any number means that it has changed.
pub(crate) type FileVersion = (u64, u64, i64, i64);

#[derive(Debug, Default)]
struct Content {
    set: Arc<AddressSet>,
    version: Option<FileVersion>,
}

/// A file's list, shared by all its users; empty until it is first read.
#[derive(Debug)]
pub struct AddressList {
    path: PathBuf,
    content: RwLock<Content>,
}

/// The same file is the same list.
impl PartialEq for AddressList {
    fn eq(&self, other: &AddressList) -> bool {
        self.path == other.path
    }
}

impl Eq for AddressList {}

impl AddressList {
    pub fn new(path: PathBuf) -> AddressList {
        AddressList {
            path,
            content: RwLock::default(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        self.set().contains(address)
    }

    pub fn set(&self) -> Arc<AddressSet> {
        Arc::clone(
            &self
                .content
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .set,
        )
    }

    /// Takes over what another list of the same file has read.
    pub fn share(&self, other: &AddressList) {
        let (set, version) = {
            let other = other.content.read().unwrap_or_else(PoisonError::into_inner);
            (Arc::clone(&other.set), other.version)
        };
        *self.content.write().unwrap_or_else(PoisonError::into_inner) = Content { set, version };
    }

    /// Reads the file if it has changed since the last time. Returns true if it was read. A file
    /// that can't be read is reported once.
    pub fn refresh(&self) -> Result<bool, ListFault> {
        let fault = |message: String| ListFault {
            path: self.path.clone(),
            line: 0,
            message,
        };
        let version = version(&self.path);
        if version.is_some()
            && version
                == self
                    .content
                    .read()
                    .unwrap_or_else(PoisonError::into_inner)
                    .version
        {
            return Ok(false);
        }
        let read = self.read();
        let mut content = self.content.write().unwrap_or_else(PoisonError::into_inner);
        let was_there = content.version.is_some();
        content.version = version;
        match read {
            Ok(set) => {
                content.set = Arc::new(set);
                Ok(true)
            }
            // It was said when it went.
            Err(None) if !was_there && !content.set.is_empty() => Ok(false),
            Err(None) => Err(fault("the list is not there".into())),
            Err(Some(error)) => Err(error),
        }
    }

    /// `None` in place of the fault: the file is not there.
    fn read(&self) -> Result<AddressSet, Option<ListFault>> {
        let fault = |message: String| {
            Some(ListFault {
                path: self.path.clone(),
                line: 0,
                message,
            })
        };
        let bytes = fs::metadata(&self.path)
            .map(|metadata| metadata.len())
            .unwrap_or(0);
        if bytes > FILE_BYTES_MAX {
            return Err(fault(format!("a list has {FILE_BYTES_MAX} bytes at most")));
        }
        let text = fs::read(&self.path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => None,
            _ => fault(format!("reading the list failed: {error}")),
        })?;
        parse(&text).map_err(|(line, message)| {
            Some(ListFault {
                path: self.path.clone(),
                line,
                message,
            })
        })
    }
}

pub(crate) fn version(path: &Path) -> Option<FileVersion> {
    let metadata = fs::metadata(path).ok()?;
    Some((
        metadata.ino(),
        metadata.len(),
        metadata.mtime(),
        metadata.mtime_nsec(),
    ))
}

/// Parses a list. The error has the line number and the problem.
pub(crate) fn parse(text: &[u8]) -> Result<AddressSet, (u32, String)> {
    let mut builder = SetBuilder::default();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let said = line
            .split(|byte| matches!(byte, b'#' | b';'))
            .next()
            .unwrap_or_default()
            .trim_ascii();
        if !said.is_empty() {
            take(said, &mut builder)
                .map_err(|message| (u32::try_from(index + 1).unwrap_or(u32::MAX), message))?;
        }
    }
    Ok(builder.finish())
}

fn take(said: &[u8], builder: &mut SetBuilder) -> Result<(), String> {
    let wrong = || {
        let shown: String = String::from_utf8_lossy(said)
            .chars()
            .filter(|letter| !letter.is_control())
            .take(SHOWN_CHARS_MAX)
            .collect();
        format!("`{shown}` is no address, block (192.0.2.0/24) or range (192.0.2.1-192.0.2.9)")
    };
    let text = std::str::from_utf8(said).map_err(|_| wrong())?;
    if let Ok(block) = text.parse() {
        builder.add(block);
        return Ok(());
    }
    let ends = text
        .split_once('-')
        .and_then(|(first, last)| Some((first.trim().parse().ok()?, last.trim().parse().ok()?)));
    ends.filter(|(first, last)| builder.add_range(*first, *last))
        .map(drop)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let set = parse(b"# list\n192.0.2.0/24 ; SBL1\n\n  2001:db8::1\r\n10.0.0.1 - 10.0.0.3 # three\n203.0.113.9").unwrap();
        assert_eq!(set.len(), 4);
        for address in ["192.0.2.9", "2001:db8::1", "10.0.0.2", "203.0.113.9"] {
            assert!(set.contains(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_bad_line_is_named() {
        for text in [
            "192.0.2.1\nnonsense\n",
            "1.2.3.4\n192.0.2.0/33",
            "1.2.3.4\n10.0.0.9-10.0.0.1",
            "1.2.3.4\n1.2.3.4 5.6.7.8",
            "1.2.3.4\n1.2.3.4-::1",
        ] {
            assert_eq!(
                parse(text.as_bytes()).map_err(|(line, _)| line).err(),
                Some(2),
                "{text}"
            );
        }
        let (line, message) = parse(b"\xff\xfe\n").unwrap_err();
        assert!(line == 1 && message.contains("is no address"), "{message}");
    }

    #[test]
    fn a_changed_file_is_read_again_and_a_broken_one_is_not_taken() {
        let path = std::env::temp_dir().join(format!("saker-list-{}-{:p}", std::process::id(), &0));
        fs::write(&path, "192.0.2.1\n").unwrap();
        let (list, address) = (AddressList::new(path.clone()), "192.0.2.1".parse().unwrap());
        assert!(!list.contains(address));
        assert_eq!((list.refresh(), list.refresh()), (Ok(true), Ok(false)));
        assert!(list.contains(address));
        fs::write(&path, "192.0.2.1\n?\n").unwrap();
        let fault = list.refresh().unwrap_err();
        assert!(
            fault.line == 2 && fault.to_string().contains(":2: `?` is no address"),
            "{fault}"
        );
        assert_eq!(list.refresh(), Ok(false), "it is said once");
        assert!(list.contains(address), "the list before stays");
        fs::write(&path, "198.51.100.1\n").unwrap();
        assert_eq!(list.refresh(), Ok(true));
        assert!(!list.contains(address));
        fs::remove_file(&path).unwrap();
        assert!(list.refresh().is_err() && list.refresh() == Ok(false));
        assert!(list.contains("198.51.100.1".parse().unwrap()));
        let other = AddressList::new(path);
        other.share(&list);
        assert_eq!(other.set().len(), 1);
    }
}
