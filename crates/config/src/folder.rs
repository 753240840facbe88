//! Directories named by a configuration, without `..` and `.`.
//!
//! Called by: the rows of document roots.
//! Caveat: programs are told file names below a root, and PHP-FPM refuses names with `..`. Symbolic
//! links stay as written, as in Apache; only if `..` follows a link to another directory, the
//! resolved directory is used.
//! Out of scope: names in requests, which are checked when they are opened.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

/// Returns the same directory without `..`.
pub fn without_parents(path: PathBuf) -> PathBuf {
    if !path
        .components()
        .any(|component| component == Component::ParentDir)
    {
        return path;
    }
    let absolute = std::path::absolute(&path).unwrap_or(path);
    let mut short = PathBuf::new();
    for component in absolute.components() {
        match component {
            // The parent of the root is the root.
            Component::ParentDir => drop(short.pop()),
            other => short.push(other),
        }
    }
    match (identity(&absolute), identity(&short)) {
        (Some(meant), found) if found != Some(meant) => {
            fs::canonicalize(&absolute).unwrap_or(short)
        }
        _ => short,
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path)
        .ok()
        .map(|found| (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn dots_go_and_links_stay() {
        let root = std::env::temp_dir().join(format!("saker-folders-{}", std::process::id()));
        for folder in [
            "app/config",
            "app/public",
            "elsewhere/deep/config",
            "elsewhere/deep/public",
        ] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        symlink("app", root.join("current")).unwrap();
        symlink("../elsewhere/deep/config", root.join("app/linked")).unwrap();
        let real = fs::canonicalize(&root).unwrap();
        for (written, expected) in [
            (root.join("app/config/../public"), root.join("app/public")),
            (
                root.join("current/config/./../public"),
                root.join("current/public"),
            ),
            (
                root.join("app/none/../../nothing/%0"),
                root.join("nothing/%0"),
            ),
            (root.join("app/public"), root.join("app/public")),
            (PathBuf::from("/../../srv"), PathBuf::from("/srv")),
            // The link leads elsewhere, and so does its parent.
            (
                root.join("app/linked/../public"),
                real.join("elsewhere/deep/public"),
            ),
        ] {
            assert_eq!(
                without_parents(written.clone()),
                expected,
                "{}",
                written.display()
            );
        }
        fs::remove_dir_all(root).unwrap();
    }
}
