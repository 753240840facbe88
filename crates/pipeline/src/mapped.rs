//! Files that rules map paths to.
//!
//! Called by: rules, which map; handlers and the gateway, which read.

use std::{os::unix::ffi::OsStrExt, path::Path, sync::Arc};

/// The file that a path is mapped to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// Absolute path of the root directory. Symbolic links in it are followed.
    pub root: Arc<Path>,
    /// Path relative to the root, without a leading slash; with a trailing one if the request path
    /// has one.
    pub relative: Vec<u8>,
}

impl Mapped {
    /// Returns the file name for programs and logs.
    pub fn filename(&self) -> Vec<u8> {
        let root = self.root.as_os_str().as_bytes();
        let root = root.strip_suffix(b"/").unwrap_or(root);
        match self.relative.is_empty() {
            true => root.to_vec(),
            false => [root, b"/", &self.relative].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filenames() {
        let name = |root: &str, relative: &str| {
            let mapped = Mapped {
                root: Path::new(root).into(),
                relative: relative.into(),
            };
            String::from_utf8(mapped.filename()).unwrap()
        };
        assert_eq!(name("/", "a/b"), "/a/b");
        assert_eq!(name("/srv/", "a/"), "/srv/a/");
        assert_eq!(name("/srv/a.txt", ""), "/srv/a.txt");
    }
}
