//! Resolves paths below the document root.
//!
//! Called by: `locate`, `script`, listings, and the PHP and CGI handlers.
//! Caveat: every file system access leaves its change tokens in the exchange, failed ones too,
//! because a file that appears later changes the answer.
//! Out of scope: the use of the file.

use saker_files::{ResolveError, Resolved, Watcher, resolve};
use saker_http::Status;
use saker_pipeline::Exchange;
pub use saker_pipeline::link_policy;
use std::{path::Path, sync::Arc};

/// The directory that paths are resolved against.
pub fn root(exchange: &Exchange) -> Option<&Path> {
    exchange
        .routing
        .mapped
        .as_ref()
        .map(|mapped| &*mapped.root)
        .or(exchange.routing.site.root.as_deref())
}

/// Returns the path below [`root`] that the request's path is mapped to.
pub fn relative(exchange: &Exchange) -> &[u8] {
    match &exchange.routing.mapped {
        Some(mapped) => &mapped.relative,
        None => exchange.path.strip_prefix(b"/").unwrap_or(&exchange.path),
    }
}

pub fn status_of(error: ResolveError) -> Status {
    match error {
        ResolveError::NotFound | ResolveError::LinkDangling => Status::NOT_FOUND,
        ResolveError::Denied | ResolveError::LinkDenied | ResolveError::LinkLoop => {
            Status::FORBIDDEN
        }
        ResolveError::Descriptors => Status::SERVICE_UNAVAILABLE,
        ResolveError::Io(_) => Status::INTERNAL_SERVER_ERROR,
    }
}

pub fn resolve_traced(
    watcher: &Watcher,
    exchange: &mut Exchange,
    relative: &[u8],
) -> Result<Resolved, ResolveError> {
    let result = resolve_in_root(watcher, exchange, relative);
    if let Err(error) = &result {
        let root = root(exchange).map(Path::to_path_buf).unwrap_or_default();
        exchange.trace("content", None, || {
            format!(
                "{}/{}: {error}",
                root.display(),
                String::from_utf8_lossy(relative)
            )
        });
    }
    result
}

pub fn resolve_in_root(
    watcher: &Watcher,
    exchange: &mut Exchange,
    relative: &[u8],
) -> Result<Resolved, ResolveError> {
    let policy = link_policy(exchange.routing.settings.files.symlinks);
    let mapped = exchange
        .routing
        .mapped
        .as_ref()
        .map(|mapped| Arc::clone(&mapped.root));
    let root = mapped
        .as_deref()
        .or(exchange.routing.site.root.as_deref())
        .ok_or(ResolveError::NotFound)?;
    resolve(
        watcher,
        root,
        relative,
        policy,
        &mut exchange.cache.change_tokens,
    )
}
