//! `gzip_static`: a file beside the one that is asked for, compressed ahead of time.
//!
//! Called by: `content`, before the file itself is looked up.
//! Caveat: files of types that are compressed on the fly are left to the engine, which chooses among
//! all codings and keeps what it chose; this is for those that it does not know, and for `always`.
//! Out of scope: the conditions of a request (`gzip`).

use crate::{accept_gzip::takes_gzip, files, pages, request::Request, response};
use saker_files::Kind;
use saker_http::Method;
use saker_nginx_model::modules::compression::StaticFiles;
use saker_pipeline::Mapped;
use std::sync::Arc;

fn compression_varies(request: &Request<'_>) -> bool {
    request.state.location.conf.clients.varies == Some(true)
}

/// Returns the compressed file of a path, if the request gets it.
pub fn file(request: &mut Request<'_>, path: &[u8]) -> Option<Mapped> {
    let location = Arc::clone(&request.state.location);
    let compression = &location.conf.compression;
    let mode = compression.gzip.files.unwrap_or_default();
    let method = request.exchange.head.view().method();
    if mode == StaticFiles::Off || !matches!(method, Method::Get | Method::Head) {
        return None;
    }
    let media_type = pages::media_type(&location.conf, path);
    if mode == StaticFiles::On && compression.gzip.compresses(&media_type) {
        return None;
    }
    let mapped = files::map_with(request, path, b".gz")?;
    let found = request.stat(&mapped.root, &mapped.relative);
    if found.is_ok_and(|found| found.kind != Kind::File) || found.is_err() {
        return None;
    }
    request.depends_on_request();
    let accepted = request.exchange.head.view().first("accept-encoding");
    let is_wanted = accepted.is_some_and(takes_gzip) && !request.state.lacks_gzip;
    if mode == StaticFiles::On && !is_wanted {
        if compression_varies(request) {
            // Others get the compressed file.
            response::be_uncompressed(request);
        }
        return None;
    }
    let varies = mode == StaticFiles::On;
    response::be_compressed(request, &compression.with_charset(&media_type), varies);
    Some(mapped)
}
