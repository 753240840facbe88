//! Check of document roots named by the database: they must be below the directories of `roots`,
//! with links resolved.
//!
//! Called by: the database thread when an answer arrives, not for each request. A user who replaces
//! a directory by a link afterwards is detected when the answer is refreshed.
//! Caveat: a root that does not exist (yet) is compared as it is written.

use crate::HostRow;
use std::path::{Component, Path, PathBuf};

#[derive(Debug)]
pub struct Roots(Vec<PathBuf>);

impl Roots {
    pub fn new(folders: &[PathBuf]) -> Roots {
        Roots(folders.to_vec())
    }

    /// Returns the row unchanged, or the reason for refusing it. A hanging file system does not
    /// delay other queries.
    pub async fn check(&self, host: HostRow) -> Result<HostRow, String> {
        let Some(root) = host.root.as_deref() else {
            return Ok(host);
        };
        let (folders, root) = (self.0.clone(), root.to_path_buf());
        let checked = tokio::task::spawn_blocking(move || is_below(&folders, &root)).await;
        checked.map_err(|error| error.to_string())??;
        Ok(host)
    }
}

fn is_below(folders: &[PathBuf], root: &Path) -> Result<(), String> {
    let is_plain = root
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !root.is_absolute() || !is_plain {
        return Err(format!(
            "the document root {} is no plain absolute path",
            root.display()
        ));
    }
    if !folders
        .iter()
        .any(|folder| root != folder && root.starts_with(folder))
    {
        return Err(format!(
            "the document root {} is below no folder of `roots`",
            root.display()
        ));
    }
    let Ok(real) = root.canonicalize() else {
        return Ok(());
    };
    let mut folders = folders
        .iter()
        .filter_map(|folder| folder.canonicalize().ok());
    match folders.any(|folder| real.starts_with(folder)) {
        true => Ok(()),
        false => Err(format!(
            "the document root {} leads to {}, which is below no folder of `roots`",
            root.display(),
            real.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn only_what_lies_below() {
        let base = std::env::temp_dir().join(format!("saker-hosts-roots-{}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        fs::create_dir_all(base.join("www/a")).unwrap();
        fs::create_dir_all(base.join("secret")).unwrap();
        symlink(base.join("secret"), base.join("www/out")).unwrap();
        symlink(base.join("www/a"), base.join("www/in")).unwrap();
        let folders = [base.join("www")];
        for (path, is_good) in [
            ("www/a", true),
            ("www/in", true),
            ("www/not-there-yet", true),
            ("www/out", false),
            ("www", false),
            ("www/../secret", false),
            ("secret", false),
            ("wwwx", false),
        ] {
            assert_eq!(
                is_below(&folders, &base.join(path)).is_ok(),
                is_good,
                "{path}"
            );
        }
        assert!(is_below(&folders, Path::new("relative")).is_err());
        fs::remove_dir_all(&base).unwrap();
    }
}
