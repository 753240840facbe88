//! `dav_methods`: PUT, DELETE, MKCOL, COPY, and MOVE on files.
//!
//! Called by: `content`.
//! Caveat: the destination of COPY and MOVE passes the phases like a request of its own, so its
//! location decides whether it may be written. Methods that the location does not name are refused.
//! Out of scope: carrying the methods out (`saker-dav`); locks and properties, which nginx has not.

use crate::{files, pages, request::Request};
use saker_files::{Kind, edit};
use saker_http::{HeadView, Status, path::normalize};
use saker_net::jobs::{self, JobKind};
use saker_pipeline::{Body, Response, Verdict};
use saker_telemetry::message::{self, Level};
use std::{fs::File, io, path::PathBuf};

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
    // The list of methods and the report of several files are not nginx's.
    response.fields_mut().remove("Allow");
    if response.status.0 == 207 {
        *response = Response::new(Status::INTERNAL_SERVER_ERROR);
    }
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

/// A refusal, with nginx's line for the error log.
type Refused = (Status, String);

fn checked(request: &mut Request<'_>) -> Result<(), Status> {
    let path = request.exchange.path.clone();
    let token = request.exchange.head.view().method_token().to_vec();
    let mapped = files::map(request, &path).ok_or(Status::NOT_FOUND)?;
    let relative = mapped.relative.strip_suffix(b"/");
    let found = request.stat(&mapped.root, relative.unwrap_or(&mapped.relative));
    let found = found.map(|found| found.kind);
    let is_folder = matches!(found, Ok(Kind::Directory));
    let checked = check(request, &token, &path, is_folder);
    let checked = checked.and_then(|()| check_places(request, &token, &path, found.ok()));
    if let Err((status, line)) = checked {
        request.log(&message::NGINX_DAV_REFUSED, Level::Error, line);
        return Err(status);
    }
    request.exchange.routing.mapped = Some(mapped);
    Ok(())
}

fn check(request: &Request<'_>, token: &[u8], path: &[u8], is_folder: bool) -> Result<(), Refused> {
    let ends_with_slash = path.ends_with(b"/");
    let refuse = |status, line: &str| Err((status, line.to_owned()));
    let view = request.exchange.head.view();
    if token != b"PUT" && has_content(view) {
        let names = match token {
            b"COPY" | b"MOVE" => "COPY and MOVE",
            b"MKCOL" => "MKCOL",
            _ => "DELETE",
        };
        let verb = if names.len() > 6 { "are" } else { "is" };
        let line = format!("{names} with body {verb} unsupported");
        return Err((Status::UNSUPPORTED_MEDIA_TYPE, line));
    }
    match token {
        b"PUT" if ends_with_slash => refuse(Status::CONFLICT, "cannot PUT to a collection"),
        b"PUT" if view.first("content-range").is_some() => {
            refuse(Status::NOT_IMPLEMENTED, "PUT with range is unsupported")
        }
        b"MKCOL" if !ends_with_slash => {
            refuse(Status::CONFLICT, "MKCOL can create a collection only")
        }
        b"DELETE" => {
            let minimum = request.state.location.conf.handlers.delete_depth_min;
            let minimum = minimum.unwrap_or(0);
            if depth(path) < minimum {
                let line = format!("insufficient URI depth:{} to DELETE", depth(path));
                return Err((Status::CONFLICT, line));
            }
            if is_folder && !ends_with_slash {
                let shown = String::from_utf8_lossy(path);
                let line = format!("DELETE \"{shown}\" failed (21: Is a directory)");
                return Err((Status::CONFLICT, line));
            }
            check_depth(view, is_folder)
        }
        b"COPY" | b"MOVE" => {
            check_destination(request, path)?;
            check_depth(view, token == b"MOVE")?;
            let line = || format!("\"{}\" is collection", String::from_utf8_lossy(path));
            match is_folder && !ends_with_slash {
                true => Err((Status::BAD_REQUEST, line())),
                false => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// A file is not deleted or copied as a folder, and does not take the place of one.
fn check_places(
    request: &mut Request<'_>,
    token: &[u8],
    path: &[u8],
    found: Option<Kind>,
) -> Result<(), Refused> {
    let is_transfer = matches!(token, b"COPY" | b"MOVE");
    let shown = || String::from_utf8_lossy(path);
    if (is_transfer || token == b"DELETE")
        && path.ends_with(b"/")
        && found.is_some_and(|kind| kind != Kind::Directory)
    {
        let line = format!("lstat() \"{}\" failed (20: Not a directory)", shown());
        return Err(match is_transfer {
            true => (Status::NOT_FOUND, line),
            false => (Status::CONFLICT, line),
        });
    }
    if !is_transfer || path.ends_with(b"/") {
        return Ok(());
    }
    let destination = destination(request).unwrap_or_default();
    let mut target = Vec::new();
    if normalize(&destination, &mut target).is_err() {
        return Ok(());
    }
    let Some(mapped) = files::map(request, &target) else {
        return Ok(());
    };
    let found = request.stat(&mapped.root, &mapped.relative);
    if found.is_ok_and(|found| found.kind == Kind::Directory) {
        let (method, target) = (
            String::from_utf8_lossy(token),
            String::from_utf8_lossy(&target),
        );
        let line = format!(
            "\"{}\" could not be {method}ed to collection \"{target}\"",
            shown()
        );
        return Err((Status::CONFLICT, line));
    }
    Ok(())
}

/// `Depth` of files may be 0; folders go as a whole.
fn check_depth(view: HeadView<'_>, is_whole: bool) -> Result<(), Refused> {
    let Some(depth) = view.first("depth").map(<[u8]>::trim_ascii) else {
        return Ok(());
    };
    let line = match depth {
        b"infinity" => return Ok(()),
        b"0" if !is_whole => return Ok(()),
        b"0" | b"1" if is_whole => "\"Depth\" header must be infinity".to_owned(),
        b"1" => "\"Depth\" header must be 0 or infinity".to_owned(),
        other => {
            let other = String::from_utf8_lossy(other);
            format!("client sent invalid \"Depth\" header: \"{other}\"")
        }
    };
    Err((Status::BAD_REQUEST, line))
}

/// The destination is of this server, and a folder where the source is one.
fn check_destination(request: &Request<'_>, path: &[u8]) -> Result<(), Refused> {
    let target = destination(request).map_err(|line| (Status::BAD_REQUEST, line))?;
    if path.ends_with(b"/") == target.ends_with(b"/") {
        return Ok(());
    }
    let (path, target) = (
        String::from_utf8_lossy(path),
        String::from_utf8_lossy(&target),
    );
    let line = format!(
        "both URI \"{path}\" and \"Destination\" URI \"{target}\" should be either collections or non-collections"
    );
    Err((Status::CONFLICT, line))
}

/// The path of the destination, as the client wrote it. The error is nginx's line.
fn destination(request: &Request<'_>) -> Result<Vec<u8>, String> {
    let field = request.exchange.head.view().first("destination");
    let Some(field) = field.map(<[u8]>::trim_ascii) else {
        return Err("client sent no \"Destination\" header".to_owned());
    };
    let shown = String::from_utf8_lossy(field);
    let invalid = || format!("client sent invalid \"Destination\" header: \"{shown}\"");
    let path = match field.first() {
        Some(b'/') => field,
        _ => {
            let scheme: &[u8] = match request.exchange.client.secure {
                true => b"https://",
                false => b"http://",
            };
            let rest = field.strip_prefix(scheme).ok_or_else(invalid)?;
            let is_end = |rest: &&[u8]| matches!(rest.first(), None | Some(b'/' | b':'));
            let behind = rest.strip_prefix(request.host()).filter(is_end);
            let behind = behind.ok_or_else(|| {
                format!(
                    "\"Destination\" URI \"{shown}\" is handled by different repository than the source URI"
                )
            })?;
            let at = behind.iter().position(|byte| *byte == b'/');
            at.and_then(|at| behind.get(at..)).ok_or_else(invalid)?
        }
    };
    let path = path.split(|byte| *byte == b'?').next();
    Ok(path.unwrap_or_default().to_vec())
}

fn has_content(view: HeadView<'_>) -> bool {
    let length = view.first("content-length").map(<[u8]>::trim_ascii);
    length.is_some_and(|length| length.iter().any(|byte| *byte != b'0'))
        || view.first("transfer-encoding").is_some()
}

/// The number of segments of a path.
fn depth(path: &[u8]) -> u64 {
    let segments = path.split(|byte| *byte == b'/');
    segments.filter(|segment| !segment.is_empty()).count() as u64
}
