//! Purges by URL and by what requests imply, for this server and for the others of a cluster.
//!
//! Called by: `purge`, `changed_paths`, the server's cache commands, and the server's cluster, for
//! purges of other servers.
//! Caveat: which entries answer a URL depends on the comparisons of queries that a server knows
//! (`url_tags`), and whether a purge that any client can cause is worth keeping depends on the
//! server's entries. So the others get the URL, and work it out.
//! Out of scope: how purges travel (`saker_cluster`).

use crate::{tags::mark, url_tags::url_tags};
use saker_cache_store::{Purge, RemotePurge, Store, TagMark};

/// A longer URL is passed on as its tag when any client can cause the purge, so that clients fill
/// no log with URLs of their choice.
const IMPLIED_URL_BYTES_MAX: usize = 1024;

/// Purges a URL.
pub fn of_url(store: &Store, scope: &[u8], url: &[u8], is_soft: bool) -> Vec<Purge> {
    let mut purges = by_tags(store, scope, url, is_soft);
    if store.is_shared() {
        purges.push(Purge::Remote(RemotePurge::Url {
            scope: scope.into(),
            url: url.into(),
            is_soft,
            is_implied: false,
        }));
    }
    purges
}

/// Purges a URL because of a request that any client can make.
pub fn implied_by_url(store: &Store, scope: &[u8], url: &[u8]) -> Vec<Purge> {
    let mut purges = by_tags(store, scope, url, false);
    let remote = store.is_shared().then(|| match url.len() {
        ..=IMPLIED_URL_BYTES_MAX => RemotePurge::Url {
            scope: scope.into(),
            url: url.into(),
            is_soft: false,
            is_implied: true,
        },
        _ => RemotePurge::Implied(mark(scope, &saker_cache_rules::names::url_tag(url))),
    });
    purges.retain(|purge| may_matter(store, purge));
    purges.extend(remote.map(Purge::Remote));
    purges
}

/// Purges a tag because of a request that any client can make.
pub fn implied_by_tag(store: &Store, mark: TagMark) -> Vec<Purge> {
    let own = hard(mark);
    let remote = Purge::Remote(RemotePurge::Implied(mark));
    let own = may_matter(store, &own).then_some(own);
    own.into_iter()
        .chain(store.is_shared().then_some(remote))
        .collect()
}

/// The purges that another server's purges are here.
pub fn received(store: &Store, purges: Vec<Purge>) -> Vec<Purge> {
    let here = |purge| match purge {
        Purge::Remote(RemotePurge::Url {
            scope,
            url,
            is_soft,
            is_implied,
        }) => {
            let mut purges = by_tags(store, &scope, &url, is_soft);
            purges.retain(|purge| !is_implied || may_matter(store, purge));
            purges
        }
        Purge::Remote(RemotePurge::Implied(mark)) => {
            let purge = hard(mark);
            may_matter(store, &purge)
                .then_some(purge)
                .into_iter()
                .collect()
        }
        other => vec![other],
    };
    purges.into_iter().flat_map(here).collect()
}

fn by_tags(store: &Store, scope: &[u8], url: &[u8], is_soft: bool) -> Vec<Purge> {
    url_tags(store, url)
        .iter()
        .map(|tag| Purge::Tag {
            mark: mark(scope, tag),
            is_soft,
        })
        .collect()
}

fn hard(mark: TagMark) -> Purge {
    Purge::Tag {
        mark,
        is_soft: false,
    }
}

fn may_matter(store: &Store, purge: &Purge) -> bool {
    match purge {
        Purge::Tag { mark, .. } => store.may_get(*mark),
        Purge::Ban(_) | Purge::Remote(_) => true,
    }
}
