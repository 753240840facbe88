//! A cached stat(2) of paths that are looked up again and again.
//!
//! Called by: code whose results depend on the request and cannot be cached as a whole: selecting a
//! script, `-f` conditions. Each thread caches its results with the change tokens of the path;
//! while those hold, a look-up needs no system call.
//! Caveat: paths come from clients, so the cache is bounded, and entries that were not used between
//! two sweeps are dropped.
//! Out of scope: errors other than "not found", which may be temporary.

use crate::{ChangeToken, LinkPolicy, Metadata, ResolveError, Watcher, resolve};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// Looked through several times a request.
type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Per thread. Beyond it everything is forgotten.
const KEPT_MAX: usize = 8192;
/// Longer names are not what sites link to.
const KEY_BYTES_MAX: usize = 1024;

struct Seen {
    /// `None`: it is not there.
    metadata: Option<Metadata>,
    tokens: Box<[ChangeToken]>,
    /// Asked since the last sweep.
    used: Cell<bool>,
}

#[derive(Default)]
struct Looks {
    seen: Map<Box<[u8]>, Seen>,
    /// Lent for building keys.
    key: Vec<u8>,
}

thread_local! {
    static LOOKS: RefCell<Looks> = RefCell::default();
}

/// Returns the metadata that [`resolve`] would find (see there for the arguments), and pushes the
/// change tokens of everything that the result depends on.
pub fn cached_stat(
    watcher: &Watcher,
    root: &Path,
    relative: &[u8],
    policy: LinkPolicy,
    tokens: &mut Vec<ChangeToken>,
) -> Result<Metadata, ResolveError> {
    LOOKS.with_borrow_mut(|looks| {
        let mut key = std::mem::take(&mut looks.key);
        write_key(watcher, root, relative, policy, &mut key);
        let known = looks.known(&key, watcher.now_ms(), tokens);
        let outcome = known.map_or_else(
            || looks.find(&key, (watcher, root, relative, policy), tokens),
            |known| known.ok_or(ResolveError::NotFound),
        );
        looks.key = key;
        outcome
    })
}

/// Drops entries of this thread that were not used lately, and those that are outdated. To be
/// called periodically, before [`Watcher::sweep`].
pub fn forget_unused(watcher: &Watcher) {
    let now_ms = watcher.now_ms();
    LOOKS.with_borrow_mut(|looks| {
        looks
            .seen
            .retain(|_, seen| seen.used.take() && seen.is_current(now_ms))
    });
}

impl Looks {
    fn known(
        &mut self,
        key: &[u8],
        now_ms: u64,
        tokens: &mut Vec<ChangeToken>,
    ) -> Option<Option<Metadata>> {
        let seen = self.seen.get(key)?;
        if !seen.is_current(now_ms) {
            self.seen.remove(key);
            return None;
        }
        seen.used.set(true);
        tokens.extend_from_slice(&seen.tokens);
        Some(seen.metadata)
    }

    fn find(
        &mut self,
        key: &[u8],
        (watcher, root, relative, policy): (&Watcher, &Path, &[u8], LinkPolicy),
        tokens: &mut Vec<ChangeToken>,
    ) -> Result<Metadata, ResolveError> {
        let before = tokens.len();
        let outcome = resolve(watcher, root, relative, policy, tokens).map(|found| found.metadata);
        let metadata = match &outcome {
            Ok(metadata) => Some(*metadata),
            Err(ResolveError::NotFound) => None,
            Err(_) => return outcome,
        };
        let tokens = tokens.get(before..).unwrap_or_default();
        if !tokens.is_empty() && key.len() <= KEY_BYTES_MAX {
            if self.seen.len() >= KEPT_MAX {
                self.seen.clear();
            }
            self.seen.insert(
                key.into(),
                Seen {
                    metadata,
                    tokens: tokens.into(),
                    used: Cell::new(true),
                },
            );
        }
        outcome
    }
}

impl Seen {
    fn is_current(&self, now_ms: u64) -> bool {
        self.tokens.iter().all(|token| token.is_current(now_ms))
    }
}

fn write_key(
    watcher: &Watcher,
    root: &Path,
    relative: &[u8],
    policy: LinkPolicy,
    key: &mut Vec<u8>,
) {
    key.clear();
    key.extend_from_slice(&watcher.number().to_ne_bytes());
    key.push(policy as u8);
    key.extend_from_slice(root.as_os_str().as_bytes());
    key.push(0);
    key.extend_from_slice(relative);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use saker_testkit::wait_until;
    use std::fs;

    fn at(
        watcher: &Watcher,
        scratch: &Scratch,
        name: &str,
    ) -> (Result<Metadata, ResolveError>, Vec<ChangeToken>) {
        let mut tokens = Vec::new();
        (
            cached_stat(
                watcher,
                scratch.root(),
                name.as_bytes(),
                LinkPolicy::Follow,
                &mut tokens,
            ),
            tokens,
        )
    }

    fn kept() -> usize {
        LOOKS.with_borrow(|looks| looks.seen.len())
    }

    #[test]
    fn what_was_seen_is_seen_again_until_it_changes() {
        let (scratch, watcher) = (Scratch::new(), Watcher::start(|_| {}).unwrap());
        scratch.write("a/file", "four");
        let (first, tokens) = at(&watcher, &scratch, "a/file");
        assert_eq!((first.unwrap().size, kept()), (4, 1));
        let (again, same) = at(&watcher, &scratch, "a/file");
        assert_eq!((again.unwrap(), same.len()), (first.unwrap(), tokens.len()));
        assert!(
            tokens
                .iter()
                .zip(&same)
                .all(|(one, other)| one.is_same(other))
        );
        fs::write(scratch.path("a/file"), "longer").unwrap();
        wait_until("more content is seen", || {
            at(&watcher, &scratch, "a/file")
                .0
                .is_ok_and(|metadata| metadata.size == 6)
        });
        fs::rename(scratch.path("a"), scratch.path("b")).unwrap();
        wait_until("a folder that went is missed", || {
            matches!(
                at(&watcher, &scratch, "a/file").0,
                Err(ResolveError::NotFound)
            )
        });
        fs::rename(scratch.path("b"), scratch.path("a")).unwrap();
        wait_until("one that came is seen", || {
            at(&watcher, &scratch, "a/file").0.is_ok()
        });
    }

    #[test]
    fn policies_and_roots_are_told_apart() {
        let (scratch, watcher) = (Scratch::new(), Watcher::start(|_| {}).unwrap());
        scratch.write("a/file", "four");
        scratch.link("link", "a/file");
        assert!(at(&watcher, &scratch, "link").0.is_ok());
        let never = cached_stat(
            &watcher,
            scratch.root(),
            b"link",
            LinkPolicy::Never,
            &mut Vec::new(),
        );
        assert!(matches!(never, Err(ResolveError::LinkDenied)), "{never:?}");
        assert!(
            cached_stat(
                &watcher,
                &scratch.path("a"),
                b"file",
                LinkPolicy::Follow,
                &mut Vec::new()
            )
            .is_ok()
        );
        assert!(
            cached_stat(
                &watcher,
                &scratch.path("a"),
                b"a/file",
                LinkPolicy::Follow,
                &mut Vec::new()
            )
            .is_err()
        );
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten() {
        let (scratch, watcher) = (Scratch::new(), Watcher::start(|_| {}).unwrap());
        scratch.write("one", "1");
        for name in ["one", "missing"] {
            let _ = at(&watcher, &scratch, name);
        }
        assert_eq!(kept(), 2);
        forget_unused(&watcher);
        assert_eq!(kept(), 2, "both were asked for since the last sweep");
        let _ = at(&watcher, &scratch, "one");
        forget_unused(&watcher);
        assert_eq!(kept(), 1);
        for number in 0..=KEPT_MAX {
            let _ = at(&watcher, &scratch, &format!("missing-{number}"));
        }
        assert!(kept() <= KEPT_MAX, "{}", kept());
    }
}
