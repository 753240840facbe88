//! Redirects that an operator adds to a site of the running server.
//!
//! Called by: the console, which makes them; the dispatch, which looks at them.
//! Caveat: a configuration is never written to; these are cells beside it, which cost a load while
//! they are empty.
//! Out of scope: keeping them over reloads and restarts (the console's `live_changes`); servers of
//! upstreams (`upstream`).

use saker_http::Status;
use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicBool, Ordering},
};

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
}
