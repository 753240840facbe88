//! A unique directory for a test, removed at the end.

use crate::{ChangeToken, LinkPolicy, ResolveError, Resolved, Watcher, resolve};
use saker_testkit::wait_until;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

static NEXT: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("saker-files-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.0
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.0.join(relative)
    }

    /// Writes a file and makes the directories on its way.
    pub(crate) fn write(&self, relative: &str, content: &str) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A symbolic link; the target is taken as it is.
    pub(crate) fn link(&self, relative: &str, target: impl AsRef<Path>) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An outcome with the tokens it depends on.
pub(crate) struct Kept {
    pub(crate) outcome: Result<Resolved, ResolveError>,
    pub(crate) tokens: Vec<ChangeToken>,
}

impl Kept {
    pub(crate) fn new(watcher: &Watcher, root: &Path, relative: &str, policy: LinkPolicy) -> Kept {
        let mut tokens = Vec::new();
        let outcome = resolve(watcher, root, relative.as_bytes(), policy, &mut tokens);
        Kept { outcome, tokens }
    }

    pub(crate) fn is_current(&self, watcher: &Watcher) -> bool {
        self.tokens
            .iter()
            .all(|token| token.is_current(watcher.now_ms()))
    }

    /// Waits until the change shows.
    pub(crate) fn runs_out(&self, watcher: &Watcher) {
        wait_until("notice of the change", || !self.is_current(watcher));
    }
}
