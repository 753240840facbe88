//! The end of the phases: `try_files`, index files, and the choice of the handler.
//!
//! Called by: the phase `fixups`.
//! Caveat: an index file is an internal redirect, so its own location answers.
//! Out of scope: reading files (`static-files`), upstreams (`proxy`).

use crate::{
    autoindex, body_filters, cache::Caches, charset, dav, errors, files, gzip_static,
    log_lines::shown, pages, proxy, request::Request, resolve,
};
use saker_files::{Kind, ResolveError};
use saker_http::{Method, Status};
use saker_nginx_model::modules::core::{Fallback, Handler, TryFiles};
use saker_pipeline::{Body, Chunk, Mapped, Response, Verdict};
use saker_telemetry::message::{self, Level};
use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The outcome of the phase.
pub enum Content {
    Verdict(Verdict),
    /// A listing of this directory.
    Listing(autoindex::Wanted),
    /// One of the files of this directory.
    Random(PathBuf),
    /// An upload, when its directories are there.
    Upload(dav::MissingFolders),
    /// An upstream, when its names are resolved.
    Names(resolve::Names),
    /// The numbers of the server.
    Counts,
}

impl From<Verdict> for Content {
    fn from(verdict: Verdict) -> Content {
        Content::Verdict(verdict)
    }
}

/// Chooses what answers.
pub fn content(request: &mut Request<'_>, caches: &Caches) -> Content {
    let location = Arc::clone(&request.state.location);
    if let Some(tried) = &location.conf.core.try_files
        && let Some(verdict) = try_files(request, tried)
    {
        return verdict.into();
    }
    if request.state.has_failed {
        return answer(Status::INTERNAL_SERVER_ERROR);
    }
    let changes_content =
        location.conf.filters.changes_content() || charset::converts(&location.conf);
    if changes_content {
        request.depends_on_request();
    }
    if location.conf.handlers.stub_status == Some(true) {
        return counts(request);
    }
    if location.conf.upstreams.pass.is_some() {
        if changes_content {
            // Its type is not known yet.
            without_ranges(request);
        }
        return match resolve::wanted(request) {
            Ok(None) => proxy::forward(request, caches).into(),
            Ok(Some(names)) => Content::Names(names),
            Err(verdict) => verdict.into(),
        };
    }
    if dav::takes(request) {
        let verdict = dav::forward(request);
        return match (&verdict, dav::folders(request)) {
            (Verdict::Pass, Some(folders)) => Content::Upload(folders),
            _ => verdict.into(),
        };
    }
    match location.conf.core.handler {
        Handler::EmptyGif => empty_gif(request),
        Handler::Files => serve_files(request),
    }
}

/// Content that filters change has no ranges.
fn without_ranges(request: &mut Request<'_>) {
    use saker_http::KnownField::{self, IfRange, Range};
    request.depends_on_request();
    let head = &request.exchange.head;
    if head.view().has(Range) {
        let is_range = |name: &[u8]| matches!(KnownField::classify(name), Some(Range | IfRange));
        let edited = head.edited(|name| !is_range(name), []);
        request.exchange.head = edited;
    }
}

/// Numbers of connections, for GET and HEAD.
fn counts(request: &mut Request<'_>) -> Content {
    request.depends_on_request();
    match request.exchange.head.view().method() {
        Method::Get | Method::Head => Content::Counts,
        _ => answer(Status::METHOD_NOT_ALLOWED),
    }
}

fn answer(status: Status) -> Content {
    Verdict::Answer(Response::new(status)).into()
}

/// Tries the candidates. `None`: the path is now that of a file.
fn try_files(request: &mut Request<'_>, tried: &TryFiles) -> Option<Verdict> {
    for candidate in &tried.candidates {
        let mut path = request.text(candidate);
        // What is written counts, not the value; a folder goes on without its slash.
        let wants_folder = candidate.source.ends_with('/');
        if wants_folder && path.len() > 1 {
            path.pop();
        }
        if let Some(prefix) = aliased_prefix(request)
            && (candidate.constant().is_some() || !path.starts_with(&prefix))
        {
            // It is the name below the alias.
            path.splice(..0, prefix);
        }
        let is_whole = is_alias_whole(request);
        let mapped = match is_whole {
            true => files::map_with(request, b"", &path),
            false => files::map(request, &path),
        };
        let Some(mapped) = mapped else {
            continue;
        };
        let found = request.stat(&mapped.root, &mapped.relative);
        let is_folder = found.is_ok_and(|found| found.kind == Kind::Directory);
        // No file has a name that ends with a slash.
        if found.is_err() || is_folder != wants_folder || !is_folder && path.ends_with(b"/") {
            continue;
        }
        request.exchange.trace("fixups", None, || {
            format!("`try_files` finds {}", String::from_utf8_lossy(&path))
        });
        // Behind such an alias a folder's path stays what it was.
        if !(is_whole && wants_folder) {
            request.exchange.path = path;
            request.state.adds_path_to_alias = is_whole;
        }
        return None;
    }
    Some(match &tried.fallback {
        Fallback::Status(444) => {
            request.exchange.limits.drops_connection = true;
            Verdict::Answer(Response::new(Status(444)))
        }
        Fallback::Status(status) => {
            keep(request);
            Verdict::Answer(Response::new(Status(*status)))
        }
        Fallback::PathWithArgs(path) => {
            request.exchange.trace("fixups", None, || {
                let path = String::from_utf8_lossy(path);
                format!("`try_files` falls back to {path} with the arguments of the request")
            });
            errors::redirect_path(request, path.to_vec())
        }
        Fallback::Target(target) => {
            let target = request.text(target);
            request.exchange.trace("fixups", None, || {
                format!(
                    "`try_files` falls back to {}",
                    String::from_utf8_lossy(&target)
                )
            });
            errors::redirect(request, &target)
        }
    })
}

/// The part of the path that an alias stands for.
fn aliased_prefix(request: &Request<'_>) -> Option<Vec<u8>> {
    let location = &request.state.location;
    let root = location.conf.core.root.as_ref()?;
    let prefix = request.exchange.path.get(..root.replaced_bytes)?;
    (root.is_alias && !root.in_expression).then(|| prefix.to_vec())
}

/// Returns true if an alias is the whole name of the file.
fn is_alias_whole(request: &Request<'_>) -> bool {
    let root = request.state.location.conf.core.root.as_ref();
    root.is_some_and(|root| root.is_alias && root.in_expression)
}

/// Marks an answer as one for all requests with the same outcome.
fn keep(request: &mut Request<'_>) {
    if request.state.error_status.is_none() {
        request.exchange.keep_answer();
    }
}

fn serve_files(request: &mut Request<'_>) -> Content {
    let method = request.exchange.head.view().method();
    if !matches!(method, Method::Get | Method::Head | Method::Post) {
        return answer(Status::METHOD_NOT_ALLOWED);
    }
    let path = request.exchange.path.clone();
    if path.ends_with(b"/") {
        if request.state.location.conf.handlers.random_index == Some(true)
            && let Some(folder) = folder_of_chance(request, &path)
        {
            return folder;
        }
        return index(request, &path);
    }
    let is_post = method == Method::Post;
    if let Some(compressed) = gzip_static::file(request, &path) {
        without_ranges(request);
        request.exchange.routing.mapped = Some(compressed);
        return Verdict::Pass.into();
    }
    let Some(mapped) = files::map(request, &path) else {
        return answer(Status::NOT_FOUND);
    };
    match request.stat(&mapped.root, &mapped.relative) {
        Ok(found) if found.kind == Kind::Directory => slash(request, &path),
        Ok(found) if found.kind == Kind::File && is_post => answer(Status::METHOD_NOT_ALLOWED),
        Ok(found) if found.kind == Kind::File => {
            files::settle_type(request, &path, &mapped.relative);
            let media_type = files::media_type(request, &path);
            if body_filters::changes_type(&request.state.location.conf, &media_type) {
                without_ranges(request);
            }
            request.exchange.routing.mapped = Some(mapped);
            Verdict::Pass.into()
        }
        Ok(_) => answer(Status::NOT_FOUND),
        Err(error) => {
            keep(request);
            log_failure(request, error, &mapped, "open()");
            answer(status_of(error))
        }
    }
}

/// Logs that a file cannot be opened, in nginx's words.
fn log_failure(request: &mut Request<'_>, error: ResolveError, mapped: &Mapped, call: &str) {
    let name = || shown(&mapped.filename());
    match error {
        ResolveError::NotFound | ResolveError::LinkDangling => request.log_missing(|| {
            format!(
                "{call} \"{}\" failed (2: No such file or directory)",
                name()
            )
        }),
        ResolveError::Denied => {
            let text = format!("{call} \"{}\" failed (13: Permission denied)", name());
            request.log(&message::NGINX_FILE_MISSING, Level::Error, text);
        }
        ResolveError::LinkDenied | ResolveError::LinkLoop => {
            let text = format!(
                "{call} \"{}\" failed (40: Too many levels of symbolic links)",
                name()
            );
            request.log(&message::NGINX_FILE_MISSING, Level::Error, text);
        }
        ResolveError::Descriptors | ResolveError::Io(_) => {}
    }
}

fn status_of(error: ResolveError) -> Status {
    match error {
        ResolveError::NotFound | ResolveError::LinkDangling => Status::NOT_FOUND,
        ResolveError::Denied | ResolveError::LinkDenied | ResolveError::LinkLoop => {
            Status::FORBIDDEN
        }
        ResolveError::Descriptors => Status::SERVICE_UNAVAILABLE,
        ResolveError::Io(_) => Status::INTERNAL_SERVER_ERROR,
    }
}

/// Redirects to the directory's own URL.
fn slash(request: &mut Request<'_>, path: &[u8]) -> Content {
    let mut location = pages::escape_path(path);
    location.push(b'/');
    if let Some(query) = request
        .exchange
        .query
        .clone()
        .filter(|query| !query.is_empty())
    {
        location.push(b'?');
        location.extend_from_slice(&query);
    }
    request.depends_on_query();
    keep(request);
    let mut response = Response::new(Status::MOVED_PERMANENTLY);
    response.fields_mut().set("Location", location);
    Verdict::Answer(response).into()
}

/// A directory of which one file is chosen by chance.
fn folder_of_chance(request: &mut Request<'_>, path: &[u8]) -> Option<Content> {
    let mapped = files::map(request, path)?;
    let found = request.stat(&mapped.root, &mapped.relative).ok()?;
    request.depends_on_request();
    let folder = Path::new(OsStr::from_bytes(&mapped.filename())).to_owned();
    (found.kind == Kind::Directory).then_some(Content::Random(folder))
}

/// Redirects to the file of a directory that was chosen; without one, to its index.
pub fn chosen(request: &mut Request<'_>, name: Option<Vec<u8>>) -> Content {
    let path = request.exchange.path.clone();
    match name {
        Some(name) => errors::redirect_path(request, [path, name].concat()).into(),
        None => index(request, &path),
    }
}

/// The names of index files without an `index`.
const INDEX: &str = "index.html";

fn index(request: &mut Request<'_>, path: &[u8]) -> Content {
    let location = Arc::clone(&request.state.location);
    let names: Vec<Vec<u8>> = match &location.conf.core.index {
        Some(texts) => texts.iter().map(|text| request.text(text)).collect(),
        None => vec![INDEX.into()],
    };
    for name in names {
        if name.starts_with(b"/") {
            // As it stands: a question mark in it does not begin arguments.
            return errors::redirect_path(request, name).into();
        }
        let candidate = [path, &name].concat();
        let Some(mapped) = files::map_with(request, path, &name) else {
            continue;
        };
        match request.stat(&mapped.root, &mapped.relative) {
            Ok(_) => {
                request.exchange.trace("fixups", None, || {
                    format!("index file `{}`", String::from_utf8_lossy(&name))
                });
                return errors::redirect_path(request, candidate).into();
            }
            Err(ResolveError::NotFound | ResolveError::LinkDangling) => {}
            Err(error) => return answer(status_of(error)),
        }
    }
    let Some(mapped) = files::map(request, path) else {
        return answer(Status::NOT_FOUND);
    };
    folder(request, mapped)
}

fn folder(request: &mut Request<'_>, mapped: Mapped) -> Content {
    let location = Arc::clone(&request.state.location);
    match request.stat(&mapped.root, &mapped.relative) {
        Ok(found) if found.kind == Kind::Directory => {}
        Ok(_) => return answer(Status::NOT_FOUND),
        Err(error) => {
            keep(request);
            if status_of(error) == Status::NOT_FOUND {
                request.log_missing(|| {
                    let name = [mapped.filename(), INDEX.into()].concat();
                    let name = shown(&name);
                    format!("\"{name}\" is not found (2: No such file or directory)")
                });
            }
            return answer(status_of(error));
        }
    }
    let is_post = request.exchange.head.view().method() == Method::Post;
    if location.conf.autoindex.is_on == Some(true) && !is_post {
        request.depends_on_request();
        return Content::Listing(autoindex::Wanted::new(request, &mapped));
    }
    keep(request);
    let mut name = mapped.filename();
    if !name.ends_with(b"/") {
        name.push(b'/');
    }
    let text = format!("directory index of \"{}\" is forbidden", shown(&name));
    request.log(&message::NGINX_LISTING_REFUSED, Level::Error, text);
    answer(Status::FORBIDDEN)
}

/// A transparent pixel (GIF89a).
const PIXEL: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x01\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x01\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02L\x01\x00;";

const PIXEL_DATE: &[u8] = b"Mon, 28 Sep 1970 06:00:00 GMT";

fn empty_gif(request: &mut Request<'_>) -> Content {
    if !matches!(
        request.exchange.head.view().method(),
        Method::Get | Method::Head
    ) {
        return answer(Status::METHOD_NOT_ALLOWED);
    }
    request.depends_on_request();
    let since = request.exchange.head.view().first("if-modified-since");
    if since == Some(PIXEL_DATE) && request.state.location.conf.core.heeds_dates() {
        let mut response = Response::new(Status::NOT_MODIFIED);
        response.fields_mut().set("Last-Modified", PIXEL_DATE);
        return Verdict::Answer(response).into();
    }
    let mut response = Response::new(Status::OK);
    let fields = response.fields_mut();
    fields.set("Content-Type", &b"image/gif"[..]);
    fields.set("Last-Modified", PIXEL_DATE);
    response.body = Body::Memory(Chunk::from(PIXEL.to_vec()));
    Verdict::Answer(response).into()
}
