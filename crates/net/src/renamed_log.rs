//! Names of the files that the server's own rotation renames a log to: the log's name, a dot, and the
//! time (`a.log.20261123T000000Z`, `a.log.20261123T000000Z-001`).
//!
//! Called by: the rotation, and the broker, which reads such files for it.
//! Out of scope: compressed files, which are the server's own.

use std::path::{Path, PathBuf};

/// True for the end of a renamed file's name.
pub fn is_stamp(text: &str) -> bool {
    let (stamp, number) = match text.split_once('-') {
        Some((stamp, number)) => (stamp, Some(number)),
        None => (text, None),
    };
    let shape: String = stamp
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    shape == "00000000T000000Z"
        && number.is_none_or(|number| {
            number.len() == 3 && number.bytes().all(|byte| byte.is_ascii_digit())
        })
}

/// The log that was renamed to this file.
pub fn log_of(renamed: &Path) -> Option<PathBuf> {
    let (log, stamp) = renamed.to_str()?.rsplit_once('.')?;
    is_stamp(stamp).then(|| log.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_renamed_files() {
        for good in ["20261123T000000Z", "20261123T000000Z-001"] {
            assert!(is_stamp(good), "{good}");
            let name = format!("/var/log/a.log.{good}");
            assert_eq!(log_of(Path::new(&name)), Some("/var/log/a.log".into()));
        }
        for bad in [
            "",
            "1",
            "20261123",
            "20261123T000000Z-1",
            "20261123T000000Zx",
            "20261123T000000Z-001/../x",
            "gz",
        ] {
            assert!(!is_stamp(bad), "{bad}");
            assert_eq!(log_of(Path::new(&format!("/a.log.{bad}"))), None, "{bad}");
        }
    }
}
