//! `dav_methods`: PUT, DELETE, MKCOL, COPY, and MOVE on files.
//!
//! Called by: `content`.
//! Caveat: the destination of COPY and MOVE passes the phases like a request of its own, so its
//! location decides whether it may be written. Methods that the location does not name are refused.
//! Out of scope: carrying the methods out (`saker-dav`); locks and properties, which nginx has not.

use crate::{files, pages, request::Request};
use saker_files::{Kind, edit};
use saker_http::Status;
use saker_net::jobs::{self, JobKind};
use saker_pipeline::{Body, Response, Verdict};
use std::{fs::File, io, path::PathBuf, sync::Arc};

/// Returns true if the location's WebDAV answers the request.
pub fn takes(request: &Request<'_>) -> bool {
    let location = &request.state.location;
    let methods = location.conf.handlers.dav_methods.as_deref();
    let token = request.exchange.head.view().method_token();
    methods
        .unwrap_or_default()
        .iter()
        .any(|method| method.as_bytes() == token)
}

/// Maps the path of a request that writes.
pub fn forward(request: &mut Request<'_>) -> Verdict {
    request.depends_on_request();
    match checked(request) {
        Ok(()) => Verdict::Pass,
        Err(status) => Verdict::Answer(Response::new(status)),
    }
}

/// The directories that an upload needs (`create_full_put_path`).
pub struct MissingFolders {
    root: PathBuf,
    relative: Vec<u8>,
    file_mode: u32,
    site: usize,
}

/// Returns the directories of an upload that the location creates.
pub fn folders(request: &Request<'_>) -> Option<MissingFolders> {
    let conf = &request.state.location.conf.handlers;
    let is_upload = request.exchange.head.view().method_token() == b"PUT";
    let mapped = request.exchange.routing.mapped.as_ref()?;
    let last = mapped.relative.iter().rposition(|byte| *byte == b'/')?;
    (conf.makes_folders == Some(true) && is_upload).then(|| MissingFolders {
        root: mapped.root.to_path_buf(),
        relative: mapped.relative.get(..last).unwrap_or_default().to_vec(),
        file_mode: conf.dav_mode.unwrap_or(0o600),
        site: request.exchange.routing.site_index,
    })
}

impl MissingFolders {
    /// Creates what is missing. The upload fails where that failed.
    pub async fn make(self) -> Verdict {
        let site = Some(self.site);
        let made = jobs::run(JobKind::WebDav, site, move |_| {
            let root = File::open(&self.root)?;
            edit::make_directories(&root, &self.relative, self.file_mode).map(drop)
        });
        match made.await {
            Ok(Ok(())) => Verdict::Pass,
            Ok(Err(error)) => Verdict::Answer(Response::new(match error.kind() {
                io::ErrorKind::PermissionDenied => Status::FORBIDDEN,
                io::ErrorKind::NotADirectory => Status::CONFLICT,
                _ => Status::INTERNAL_SERVER_ERROR,
            })),
            Err(_) => Verdict::Answer(Response::new(Status::SERVICE_UNAVAILABLE)),
        }
    }
}

/// Gives an answer nginx's form: without content, 201 for a folder that was copied or moved and 204
/// for a file, and the location of what was made.
pub fn finish(request: &Request<'_>, response: &mut Response) {
    let token = request.exchange.head.view().method_token();
    let is_folder = request.exchange.path.ends_with(b"/");
    if matches!(token, b"COPY" | b"MOVE") && is_folder && response.status == Status::NO_CONTENT {
        response.status = Status::CREATED;
    }
    if response.status != Status::CREATED {
        return;
    }
    response.body = Body::Empty;
    response.fields_mut().remove("Content-Type");
    response.fields_mut().remove("Location");
    if matches!(token, b"COPY" | b"MOVE") {
        if !is_folder {
            response.status = Status::NO_CONTENT;
        }
        return;
    }
    let location = pages::escape_path(&request.exchange.path);
    response.fields_mut().set("Location", location);
}

fn checked(request: &mut Request<'_>) -> Result<(), Status> {
    let location = Arc::clone(&request.state.location);
    let path = request.exchange.path.clone();
    let token = request.exchange.head.view().method_token().to_vec();
    let mapped = files::map(request, &path).ok_or(Status::NOT_FOUND)?;
    let ends_with_slash = path.ends_with(b"/");
    let found = request.stat(&mapped.root, &mapped.relative);
    let is_folder = found.is_ok_and(|found| found.kind == Kind::Directory);
    match &*token {
        b"PUT" if ends_with_slash => return Err(Status::CONFLICT),
        b"PUT"
            if request
                .exchange
                .head
                .view()
                .first("content-range")
                .is_some() =>
        {
            return Err(Status::NOT_IMPLEMENTED);
        }
        b"MKCOL" if !ends_with_slash => return Err(Status::CONFLICT),
        b"DELETE" if is_folder && !ends_with_slash => return Err(Status::CONFLICT),
        b"DELETE" if depth(&path) < location.conf.handlers.delete_depth_min.unwrap_or(0) => {
            return Err(Status::CONFLICT);
        }
        _ => {}
    }
    request.exchange.routing.mapped = Some(mapped);
    Ok(())
}

/// The number of segments of a path.
fn depth(path: &[u8]) -> u64 {
    let segments = path.split(|byte| *byte == b'/');
    segments.filter(|segment| !segment.is_empty()).count() as u64
}
