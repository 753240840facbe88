//! Maps a request's path to a file or directory below the document root, its index file and its
//! precompressed siblings.
//!
//! Called by: the files handler and the CGI handler.
//! Caveat: every file system access leaves its change tokens in the exchange, failed ones too: a
//! sibling or an index file that appears later changes the answer.
//! Out of scope: reading the file.

use crate::{
    document_root::{self, resolve_in_root, resolve_traced, root, status_of},
    file_errors,
    index::index_names,
    located_file::LocatedFile,
    names::{self, is_compressible},
};
use saker_files::{Kind, Metadata, ResolveError, Resolved, Watcher};
use saker_http::{Status, content_coding::Coding};
use saker_pipeline::{Exchange, Response, file_routes::follow_index};
use std::{path::Path, sync::Arc};

pub enum Located {
    File(LocatedFile),
    /// A directory without an index file.
    Folder {
        /// From the root, with a trailing slash; empty for the root itself.
        relative: Vec<u8>,
        folder: Resolved,
    },
    /// A directory requested without the trailing slash.
    SlashMissing,
    /// The index file has a route of its own: the phases must restart.
    Restart,
    /// The answer to a request whose route could not be determined.
    Answered(Response),
    /// The status, and the path from the root with the error, for the log.
    Refused(Status, Option<(Vec<u8>, ResolveError)>),
}

pub fn locate(watcher: &Watcher, exchange: &mut Exchange) -> Located {
    let relative = document_root::relative(exchange).to_vec();
    at(watcher, exchange, relative)
}

/// The same for another path from the root than the request's.
pub fn at(watcher: &Watcher, exchange: &mut Exchange, relative: Vec<u8>) -> Located {
    if !exchange.routing.settings.files.hidden && names::is_hidden(&relative) {
        exchange.trace("content", None, || {
            "hidden: names that begin with a dot, and backup copies, are as if they were not there (`hidden`)".into()
        });
        return Located::Refused(Status::NOT_FOUND, None);
    }
    let with_slash = relative.is_empty() || relative.ends_with(b"/");
    match resolve_traced(watcher, exchange, &relative) {
        Err(error) => Located::Refused(status_of(error), Some((relative, error))),
        Ok(resolved) => match (resolved.metadata.kind, with_slash) {
            (Kind::File, false) => Located::File(found(watcher, exchange, relative, resolved)),
            (Kind::Directory, true) => index(watcher, exchange, relative, resolved),
            (Kind::Directory, false) => Located::SlashMissing,
            // A file has nothing below it.
            (Kind::File | Kind::Other, true) => {
                Located::Refused(Status::NOT_FOUND, Some((relative, ResolveError::NotFound)))
            }
            (Kind::Other, false) => not_a_file(exchange, &relative),
        },
    }
}

/// The first index file that exists.
fn index(
    watcher: &Watcher,
    exchange: &mut Exchange,
    relative: Vec<u8>,
    folder: Resolved,
) -> Located {
    let settings = Arc::clone(&exchange.routing.settings);
    for name in index_names(&settings) {
        let candidate = [relative.as_slice(), name.as_bytes()].concat();
        match resolve_traced(watcher, exchange, &candidate) {
            Ok(resolved) if resolved.metadata.kind == Kind::File => {
                exchange.trace("content", None, || format!("index file `{name}`"));
                match follow_index(exchange, watcher, name.as_bytes()) {
                    Ok(false) => {}
                    Ok(true) => return Located::Restart,
                    Err(refused) => return Located::Answered(refused),
                }
                return Located::File(found(watcher, exchange, candidate, resolved));
            }
            Ok(resolved) if resolved.metadata.kind == Kind::Other => {
                return not_a_file(exchange, &candidate);
            }
            Ok(_) | Err(ResolveError::NotFound | ResolveError::LinkDangling) => {}
            // Must not be skipped: the next name, or a listing, could show what was meant to be
            // hidden.
            Err(error) => return Located::Refused(status_of(error), Some((candidate, error))),
        }
    }
    Located::Folder { relative, folder }
}

fn not_a_file(exchange: &Exchange, relative: &[u8]) -> Located {
    file_errors::log_not_a_file(exchange, relative);
    Located::Refused(Status::FORBIDDEN, None)
}

fn found(
    watcher: &Watcher,
    exchange: &mut Exchange,
    relative: Vec<u8>,
    original: Resolved,
) -> LocatedFile {
    let siblings = siblings(watcher, exchange, &relative, &original.metadata);
    let root = root(exchange).map(Path::to_path_buf).unwrap_or_default();
    exchange.trace("content", None, || {
        let codings: String = siblings
            .iter()
            .map(|(coding, _)| format!(", with a precompressed {}", coding.suffix()))
            .collect();
        format!(
            "file {}/{}, {} bytes{codings}",
            root.display(),
            String::from_utf8_lossy(&relative),
            original.metadata.size
        )
    });
    LocatedFile {
        relative,
        original,
        siblings,
    }
}

/// Only for types that are worth compressing: `.jpg.br` is not worth a look.
fn siblings(
    watcher: &Watcher,
    exchange: &mut Exchange,
    relative: &[u8],
    original: &Metadata,
) -> Vec<(Coding, Resolved)> {
    let settings = Arc::clone(&exchange.routing.settings);
    let content_type = names::content_type(&settings.files, relative);
    if !settings.files.precompressed || !is_compressible(&settings, content_type.as_deref()) {
        return Vec::new();
    }
    let mut sibling = |coding: Coding| {
        let path = [relative, coding.suffix().as_bytes()].concat();
        let resolved = resolve_in_root(watcher, exchange, &path).ok()?;
        is_sibling(original, &resolved.metadata).then_some((coding, resolved))
    };
    [Coding::Gzip, Coding::Brotli, Coding::Zstd]
        .into_iter()
        .filter_map(&mut sibling)
        .collect()
}

/// True if the sibling is not older than the file. Compared in whole seconds, because not every
/// tool that copies a modification time copies all of it.
fn is_sibling(original: &Metadata, sibling: &Metadata) -> bool {
    sibling.kind == Kind::File && sibling.size > 0 && sibling.mtime_s >= original.mtime_s
}
