//! From the path of a request to a file or folder below the document root, its index file and its precompressed siblings.
//!
//! Every look into the file system leaves its stamps in the exchange, failed ones too: a sibling or an index file that appears later
//! changes the answer.

use super::{
    make::{Found, is_compressible},
    names, script,
};
use saker_config::model::{PhpUse, Settings, SymlinkPolicy};
use saker_files::{Kind, LinkPolicy, Metadata, ResolveError, Resolved, Watcher, resolve};
use saker_http::{Status, content_coding::Coding};
use saker_pipeline::Exchange;
use std::{path::Path, sync::Arc};

pub enum Located {
    File(Found),
    /// A folder without an index file.
    Folder {
        /// From the root, with the slash at its end; empty for the root itself.
        relative: Vec<u8>,
        folder: Resolved,
    },
    /// A folder by its name without the slash.
    SlashMissing,
    Refused(Status),
}

pub fn locate(watcher: &Watcher, exchange: &mut Exchange) -> Located {
    let relative = match &exchange.mapped {
        Some(mapped) => mapped.relative.clone(),
        None => exchange.path.strip_prefix(b"/").unwrap_or(&exchange.path).to_vec(),
    };
    at(watcher, exchange, relative)
}

/// The same for a path from the root that is not the request's.
pub fn at(watcher: &Watcher, exchange: &mut Exchange, relative: Vec<u8>) -> Located {
    if !exchange.settings.files.hidden && names::is_hidden(&relative) {
        exchange.trace("content", None, || {
            "hidden: names that begin with a dot, and backup copies, are as if they were not there (`hidden`)".into()
        });
        return Located::Refused(Status::NOT_FOUND);
    }
    let with_slash = relative.is_empty() || relative.ends_with(b"/");
    match open(watcher, exchange, &relative) {
        Err(error) => Located::Refused(status_of(error)),
        Ok(resolved) => match (resolved.metadata.kind, with_slash) {
            (Kind::File, false) => Located::File(found(watcher, exchange, relative, resolved)),
            (Kind::Directory, true) => index(watcher, exchange, relative, resolved),
            (Kind::Directory, false) => Located::SlashMissing,
            // A file has nothing below it.
            (Kind::File | Kind::Other, true) => Located::Refused(Status::NOT_FOUND),
            (Kind::Other, false) => Located::Refused(Status::FORBIDDEN),
        },
    }
}

/// The first index file that is there.
fn index(watcher: &Watcher, exchange: &mut Exchange, relative: Vec<u8>, folder: Resolved) -> Located {
    let settings = Arc::clone(&exchange.settings);
    for name in index_names(&settings) {
        let candidate = [relative.as_slice(), name.as_bytes()].concat();
        match open(watcher, exchange, &candidate) {
            Ok(resolved) if resolved.metadata.kind == Kind::File => {
                exchange.trace("content", None, || format!("index file `{name}`"));
                return Located::File(found(watcher, exchange, candidate, resolved));
            }
            Ok(_) | Err(ResolveError::NotFound | ResolveError::LinkDangling) => {}
            // Not to be passed over: the next name, or a listing, might show what was meant to be closed.
            Err(error) => return Located::Refused(status_of(error)),
        }
    }
    Located::Folder { relative, folder }
}

/// The script that is a folder's first index file.
pub fn index_script(watcher: &Watcher, exchange: &mut Exchange, relative: &[u8]) -> Option<Vec<u8>> {
    let settings = Arc::clone(&exchange.settings);
    for name in index_names(&settings) {
        let candidate = [relative, name.as_bytes()].concat();
        match script::kind(watcher, exchange, &candidate) {
            Ok(script::Kind::File) if names::is_php(&candidate) => {
                exchange.trace("content", None, || format!("index file `{name}`"));
                return Some(candidate);
            }
            Ok(script::Kind::File) => return None,
            Ok(_) => {}
            Err(_) => return None,
        }
    }
    None
}

/// Where PHP is run its index is one, too, after those that were named.
fn index_names(settings: &Settings) -> impl Iterator<Item = &str> {
    let of_php = (!matches!(settings.php, PhpUse::Off) && !settings.files.index.is_empty()).then_some("index.php");
    let named = settings.files.index.iter().map(String::as_str).chain(of_php);
    named.filter(|name| is_index_name(name, settings.files.hidden))
}

/// Only plain paths below the folder.
fn is_index_name(name: &str, hidden: bool) -> bool {
    let plain = name.split('/').all(|component| !matches!(component, "" | "." | ".."));
    plain && !name.contains('\0') && (hidden || !name.as_bytes().split(|byte| *byte == b'/').any(names::is_hidden_name))
}

fn found(watcher: &Watcher, exchange: &mut Exchange, relative: Vec<u8>, original: Resolved) -> Found {
    let siblings = siblings(watcher, exchange, &relative, &original.metadata);
    let root = root(exchange).map(Path::to_path_buf).unwrap_or_default();
    exchange.trace("content", None, || {
        let codings: String = siblings.iter().map(|(coding, _)| format!(", with a precompressed {}", coding.suffix())).collect();
        format!("file {}/{}, {} bytes{codings}", root.display(), String::from_utf8_lossy(&relative), original.metadata.size)
    });
    Found { relative, original, siblings }
}

/// Only for types that are worth compressing: nobody prepares `.jpg.br`, and each look costs.
fn siblings(watcher: &Watcher, exchange: &mut Exchange, relative: &[u8], original: &Metadata) -> Vec<(Coding, Resolved)> {
    let settings = Arc::clone(&exchange.settings);
    let content_type = names::content_type(&settings.files, relative);
    if !settings.files.precompressed || !is_compressible(&settings, content_type.as_deref()) {
        return Vec::new();
    }
    let mut sibling = |coding: Coding| {
        let path = [relative, coding.suffix().as_bytes()].concat();
        let resolved = look(watcher, exchange, &path).ok()?;
        is_sibling(original, &resolved.metadata).then_some((coding, resolved))
    };
    [Coding::Gzip, Coding::Brotli, Coding::Zstd].into_iter().filter_map(&mut sibling).collect()
}

/// A sibling that is older than the file was made from something else. In whole seconds, because not every tool that copies a time of
/// modification copies all of it.
fn is_sibling(original: &Metadata, sibling: &Metadata) -> bool {
    sibling.kind == Kind::File && sibling.size > 0 && sibling.mtime_s >= original.mtime_s
}

fn open(watcher: &Watcher, exchange: &mut Exchange, relative: &[u8]) -> Result<Resolved, ResolveError> {
    let result = look(watcher, exchange, relative);
    if let Err(error) = &result {
        let root = root(exchange).map(Path::to_path_buf).unwrap_or_default();
        exchange.trace("content", None, || format!("{}/{}: {error}", root.display(), String::from_utf8_lossy(relative)));
    }
    result
}

fn look(watcher: &Watcher, exchange: &mut Exchange, relative: &[u8]) -> Result<Resolved, ResolveError> {
    let policy = link_policy(exchange.settings.files.symlinks);
    let mapped = exchange.mapped.as_ref().map(|mapped| Arc::clone(&mapped.root));
    let root = mapped.as_deref().or(exchange.site.root.as_deref()).ok_or(ResolveError::NotFound)?;
    resolve(watcher, root, relative, policy, &mut exchange.stamps)
}

/// Where files are looked for.
pub fn root(exchange: &Exchange) -> Option<&Path> {
    exchange.mapped.as_ref().map(|mapped| &*mapped.root).or(exchange.site.root.as_deref())
}

pub fn link_policy(policy: SymlinkPolicy) -> LinkPolicy {
    match policy {
        SymlinkPolicy::Follow => LinkPolicy::Follow,
        SymlinkPolicy::OwnerMatch => LinkPolicy::OwnerMatch,
        SymlinkPolicy::Inside => LinkPolicy::Inside,
        SymlinkPolicy::Never => LinkPolicy::Never,
    }
}

pub fn status_of(error: ResolveError) -> Status {
    match error {
        ResolveError::NotFound | ResolveError::LinkDangling => Status::NOT_FOUND,
        ResolveError::Denied | ResolveError::LinkDenied | ResolveError::LinkLoop => Status::FORBIDDEN,
        ResolveError::Descriptors => Status::SERVICE_UNAVAILABLE,
        ResolveError::Io(_) => Status::INTERNAL_SERVER_ERROR,
    }
}
