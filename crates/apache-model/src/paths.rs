//! Paths of folders as sections name them.
//!
//! Called by: `load` and the setters of paths.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// The path of a folder as sections name folders, so that both are found equal.
pub fn absolute(path: &Path) -> PathBuf {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    OsString::from_vec(without_dots(path.as_os_str().as_bytes())).into()
}

/// A path without `.`, `..` and empty components; with the slash at its end, if it has one.
pub fn without_dots(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for component in path.split(|byte| *byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            name => kept.push(name),
        }
    }
    let end: &[u8] = if path.ends_with(b"/") && !kept.is_empty() {
        b"/"
    } else {
        b""
    };
    [b"/", kept.join(&b'/').as_slice(), end].concat()
}

pub fn with_slash(path: &str) -> String {
    if path.ends_with('/') {
        path.to_owned()
    } else {
        format!("{path}/")
    }
}
