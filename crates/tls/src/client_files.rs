//! State of the files behind a TLS client's settings when they were read, so that changes are
//! noticed.
//!
//! Called by: the gateway before it connects, a few times a minute at most; so the files are
//! checked here, without a watcher.
//!
//! Caveat: metadata is taken before the content is read, so that a change in between counts as a
//! change.
//!
//! Out of scope: the system's own authorities, which are read once.

use saker_config::model::BackendTls;
use saker_net::privileged;
use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Which file it was, how long, and when it was written, in nanoseconds.
type Facts = Option<(u64, u64, u64, i64, i64)>;

/// All files, and those in folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looks(Vec<(PathBuf, Facts)>);

impl Looks {
    pub fn take(settings: &BackendTls) -> Looks {
        let identity = settings
            .identity
            .iter()
            .flat_map(|(certificate, key)| [certificate, key]);
        let named = settings
            .authorities
            .iter()
            .chain(&settings.revocation_lists)
            .chain(&settings.passphrases)
            .chain(identity);
        let mut looks = Vec::new();
        named.for_each(|path| look(path, &mut looks));
        // A folder's order is its own.
        looks.sort();
        Looks(looks)
    }
}

fn look(path: &Path, looks: &mut Vec<(PathBuf, Facts)>) {
    let found = privileged::metadata(path).ok();
    if found.as_ref().is_some_and(Metadata::is_dir) {
        let files = privileged::list(path)
            .into_iter()
            .flatten()
            .map(|name| path.join(name));
        looks.extend(files.map(|file| {
            (
                file.clone(),
                facts(privileged::metadata(&file).ok().as_ref()),
            )
        }));
    }
    looks.push((path.to_owned(), facts(found.as_ref())));
}

fn facts(found: Option<&Metadata>) -> Facts {
    found.map(|found| {
        (
            found.dev(),
            found.ino(),
            found.len(),
            found.mtime(),
            found.mtime_nsec(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_and_those_in_folders() {
        let root = std::env::temp_dir().join(format!("saker-client-files-{}", std::process::id()));
        fs::create_dir_all(root.join("folder")).unwrap();
        fs::write(root.join("list.pem"), "a").unwrap();
        let settings = BackendTls {
            authorities: vec![root.join("folder")],
            revocation_lists: vec![root.join("list.pem"), root.join("none.pem")],
            ..BackendTls::default()
        };
        let mut last = Looks::take(&settings);
        assert_eq!(last, Looks::take(&settings));
        let changes: [&dyn Fn(); 3] = [
            &|| fs::write(root.join("list.pem"), "ab").unwrap(),
            &|| fs::write(root.join("folder/more.pem"), "").unwrap(),
            &|| fs::write(root.join("none.pem"), "").unwrap(),
        ];
        for (at, change) in changes.iter().enumerate() {
            change();
            let now = Looks::take(&settings);
            assert_ne!(last, now, "{at}");
            last = now;
        }
        fs::remove_dir_all(root).unwrap();
    }
}
