//! Changes that an operator makes in the running server: servers of upstreams, and redirects.
//!
//! Called by: the console, which makes them; the gateway and the dispatch, which look at them.
//! Caveat: a configuration is never written to; these are cells beside it, which cost a relaxed
//! load while they are empty. They are no part of what makes two configurations equal.
//! Out of scope: keeping them over reloads and restarts (the console's `live_changes`).

use super::Upstream;
use saker_http::Status;
use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicBool, Ordering},
};

/// The upstream that is used in place of the one that has this.
#[derive(Clone, Debug, Default)]
pub struct Revision(Arc<(AtomicBool, RwLock<Option<Arc<Upstream>>>)>);

impl Revision {
    /// `None`: the configuration's is used.
    pub fn set(&self, revised: Option<Arc<Upstream>>) {
        let is_revised = revised.is_some();
        *self.0.1.write().unwrap_or_else(PoisonError::into_inner) = revised;
        self.0.0.store(is_revised, Ordering::Release);
    }

    pub fn get(&self) -> Option<Arc<Upstream>> {
        if !self.0.0.load(Ordering::Acquire) {
            return None;
        }
        let revised = self.0.1.read().unwrap_or_else(PoisonError::into_inner);
        revised.clone()
    }
}

impl PartialEq for Revision {
    fn eq(&self, _: &Revision) -> bool {
        true
    }
}

impl Eq for Revision {}

/// A redirect that an operator has added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRedirect {
    /// A path; with `/*` at its end, all paths below.
    pub from: Box<str>,
    /// A path or an absolute URI.
    pub to: Box<str>,
    pub status: Status,
}

impl LiveRedirect {
    /// Returns true if it is for this path.
    pub fn is_for(&self, path: &[u8]) -> bool {
        match self.from.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix.as_bytes()),
            None => path == self.from.as_bytes(),
        }
    }
}

/// The redirects that operators have added to a site; the first that is for a path counts.
#[derive(Clone, Debug, Default)]
pub struct LiveRedirects(Arc<(AtomicBool, RwLock<Vec<LiveRedirect>>)>);

impl LiveRedirects {
    pub fn set(&self, redirects: Vec<LiveRedirect>) {
        let is_any = !redirects.is_empty();
        *self.0.1.write().unwrap_or_else(PoisonError::into_inner) = redirects;
        self.0.0.store(is_any, Ordering::Release);
    }

    pub fn find(&self, path: &[u8]) -> Option<LiveRedirect> {
        if !self.0.0.load(Ordering::Acquire) {
            return None;
        }
        let redirects = self.0.1.read().unwrap_or_else(PoisonError::into_inner);
        redirects.iter().find(|one| one.is_for(path)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_for_paths() {
        let redirect = |from: &str| LiveRedirect {
            from: from.into(),
            to: "/new".into(),
            status: Status(301),
        };
        let live = LiveRedirects::default();
        assert_eq!(live.find(b"/old"), None);
        live.set(vec![redirect("/old"), redirect("/shop/*")]);
        let from = |path: &[u8]| live.find(path).map(|one| one.from);
        assert_eq!(from(b"/old").as_deref(), Some("/old"));
        assert_eq!(from(b"/shop/").as_deref(), Some("/shop/*"));
        assert_eq!(from(b"/shop/a/b").as_deref(), Some("/shop/*"));
        for other in [&b"/shop"[..], b"/old/", b"/older", b"/Old", b""] {
            assert_eq!(from(other), None);
        }
        live.set(Vec::new());
        assert_eq!(from(b"/old"), None);
    }

    #[test]
    fn a_revision_is_used_until_it_is_taken_back() {
        let upstream = Arc::new(Upstream::new("app", Vec::new()));
        assert!(Arc::ptr_eq(&upstream.current(), &upstream));
        let revised = Arc::new(Upstream::new("app", Vec::new()));
        upstream.revision.set(Some(Arc::clone(&revised)));
        assert!(Arc::ptr_eq(&upstream.current(), &revised));
        upstream.revision.set(None);
        assert!(Arc::ptr_eq(&upstream.current(), &upstream));
    }
}
