//! `proxy_store` and its kin: responses of upstreams as files.
//!
//! Called by: `response`, for whole responses to GET.
//! Caveat: what the configuration names is trusted; what variables and paths of requests add to it
//! leads through no symbolic link, and not above it. A file gets its name when it is complete. A
//! response that cannot be stored is sent all the same.
//! Out of scope: serving the files, which is up to `try_files` and `error_page`.

use crate::{files, request::Request};
use saker_content_filters::{
    as_stream,
    made::{Made, Out, next},
};
use saker_files::edit::{self, ReplacementFile};
use saker_http::{Method, Status, date::parse_date};
use saker_net::jobs::{self, JobKind};
use saker_nginx_model::{
    Part, Text,
    modules::upstream_conf::Store,
    variables::{Builtin, Variable},
};
use saker_pipeline::{Body, BodyError, BodyStream, Chunk, Response};
use saker_telemetry::{error_log, message};
use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Beginning of the names of files that are not complete.
const TEMPORARY_PREFIX: &str = ".saker-store.";
/// Content written at a time.
const PIECE_BYTES: usize = 64 << 10;
/// Default of `*_store_access`.
const FILE_MODE: u32 = 0o600;

/// The place of a file.
struct Place {
    /// Trusted, links included.
    root: PathBuf,
    relative: Vec<u8>,
    mode: u32,
    modified: Option<SystemTime>,
    site: usize,
}

/// Stores the response while it is sent, if the location says so.
pub fn apply(request: &mut Request<'_>, response: &mut Response) {
    let location = Arc::clone(&request.state.location);
    let Some(pass) = &location.conf.upstreams.pass else {
        return;
    };
    let conf = location.conf.upstreams.of(pass.gateway);
    let Some(store) = conf.store.as_ref().filter(|store| **store != Store::Off) else {
        return;
    };
    let method = request.exchange.head.view().method();
    let is_whole = response.status == Status::OK
        && method == Method::Get
        && request.exchange.upstream.is_answered_by_program
        && response.tunnel.is_none();
    let Some((root, relative)) = is_whole.then(|| place(request, store)).flatten() else {
        return;
    };
    let modified = response.fields().first("Last-Modified");
    let modified = modified.and_then(|text| parse_date(text, request.exchange.now));
    let modified = modified.and_then(|seconds| u64::try_from(seconds).ok());
    let place = Place {
        root,
        relative,
        mode: conf.store_mode.unwrap_or(FILE_MODE),
        modified: modified.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
        site: request.exchange.routing.site_index,
    };
    let length = response.body.length();
    let source = as_stream(std::mem::take(&mut response.body));
    let context = request.exchange.log_context();
    let made = Made::by(|out| async move {
        let path = place.root.join(OsStr::from_bytes(&place.relative));
        let (outcome, is_stored) = send(place, source, &out).await;
        if let Some(error) = is_stored {
            let path = path.display();
            error_log::log_about(
                &message::RESPONSE_NOT_STORED,
                &context,
                format_args!("{path}: {error}"),
            );
        }
        outcome
    });
    response.body = Body::Stream(Box::new(Stored { made, length }));
}

/// Returns the trusted part and the rest of the file's path. `None`: it leads above the former.
fn place(request: &mut Request<'_>, store: &Store) -> Option<(PathBuf, Vec<u8>)> {
    let (root, relative) = match store {
        Store::Off => return None,
        Store::On => {
            let path = request.exchange.path.clone();
            let mapped = files::map(request, &path)?;
            (mapped.root.to_path_buf(), mapped.relative)
        }
        Store::At(text) => {
            let path = request.text(text);
            let trusted = match begins_with_root(text) {
                true => {
                    let root = files::root(request);
                    let root = root
                        .as_os_str()
                        .as_bytes()
                        .strip_suffix(b"/")
                        .map_or(root.as_os_str().len(), <[u8]>::len);
                    // The rest begins with a slash.
                    root + usize::from(path.get(root) == Some(&b'/'))
                }
                false => trusted_bytes(text),
            };
            let (root, rest) = path.split_at_checked(trusted)?;
            (Path::new(OsStr::from_bytes(root)).to_owned(), rest.to_vec())
        }
    };
    let is_name = |part: &[u8]| !part.is_empty() && !matches!(part, b"." | b"..");
    let mut parts = relative.split(|byte| *byte == b'/').peekable();
    let is_file = parts.peek().is_some() && parts.all(is_name) && !relative.contains(&0);
    (is_file && root.is_absolute()).then_some((root, relative))
}

/// True for `$document_root/…`, whose beginning the configuration names elsewhere.
fn begins_with_root(text: &Text) -> bool {
    let is_root = |variable: &Variable| {
        matches!(
            variable,
            Variable::Builtin(Builtin::DocumentRoot | Builtin::RealpathRoot)
        )
    };
    match &*text.parts {
        [Part::Variable(variable), Part::Literal(next), ..] => {
            is_root(variable) && next.starts_with(b"/")
        }
        [
            Part::Variable(variable),
            Part::Variable(Variable::Builtin(next)),
            ..,
        ] => {
            // Paths begin with a slash.
            is_root(variable) && matches!(next, Builtin::Uri | Builtin::DocumentUri)
        }
        _ => false,
    }
}

/// The length of the directory that a text begins with before its first variable.
fn trusted_bytes(text: &Text) -> usize {
    match text.parts.first() {
        Some(Part::Literal(start)) => {
            let slash = start.iter().rposition(|byte| *byte == b'/');
            slash.map_or(0, |at| at + 1)
        }
        _ => 0,
    }
}

/// Sends content, and writes it to the file. Returns why it was not stored, if that is worth a line.
async fn send(
    place: Place,
    mut source: Box<dyn BodyStream>,
    out: &Out,
) -> (Result<(), BodyError>, Option<io::Error>) {
    let mut piece = Vec::new();
    let mut file: Option<ReplacementFile> = None;
    let mut failed = None;
    // Who has all of the response finds the file: the last piece waits for it.
    let mut held: Option<Chunk> = None;
    while let Some(chunk) = next(source.as_mut()).await {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(error) => return (Err(error), failed),
        };
        if failed.is_none() {
            piece.extend_from_slice(chunk.bytes());
        }
        if let Some(before) = held.replace(chunk) {
            out.send(before).await;
        }
        if piece.len() >= PIECE_BYTES && failed.is_none() {
            match write(&place, file.take(), std::mem::take(&mut piece)).await {
                Ok(written) => file = Some(written),
                Err(error) => failed = Some(error),
            }
        }
    }
    if failed.is_none() {
        failed = match write(&place, file.take(), piece).await {
            Ok(written) => finish(&place, written).await.err(),
            Err(error) => Some(error),
        };
    }
    if let Some(last) = held {
        out.send(last).await;
    }
    (Ok(()), failed)
}

async fn run<T: Send + 'static>(
    site: usize,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = jobs::run(JobKind::WebDav, Some(site), move |_| work()).await;
    done.unwrap_or_else(|_| Err(io::Error::other("too much is being written")))
}

async fn write(
    place: &Place,
    file: Option<ReplacementFile>,
    piece: Vec<u8>,
) -> io::Result<ReplacementFile> {
    let (root, relative) = (place.root.clone(), place.relative.clone());
    let mode = place.mode;
    run(place.site, move || {
        let mut file = match file {
            Some(file) => file,
            None => {
                let (folder, _) = split(&relative);
                let root = File::open(&root)?;
                let parent = edit::make_directories(&root, folder, mode)?;
                ReplacementFile::begin(&parent, TEMPORARY_PREFIX)?
            }
        };
        file.write(&piece)?;
        Ok(file)
    })
    .await
}

async fn finish(place: &Place, mut file: ReplacementFile) -> io::Result<()> {
    let (mode, modified) = (place.mode, place.modified);
    let name = split(&place.relative).1.to_vec();
    run(place.site, move || {
        file.set_permissions(mode)?;
        if let Some(modified) = modified {
            file.file().set_modified(modified)?;
        }
        file.put(&name).map(drop)
    })
    .await
}

fn split(relative: &[u8]) -> (&[u8], &[u8]) {
    match relative.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (
            relative.get(..at).unwrap_or_default(),
            relative.get(at + 1..).unwrap_or_default(),
        ),
        None => (b"", relative),
    }
}

/// Content whose length is known, although it is made.
pub struct Stored {
    pub made: Made,
    pub length: Option<u64>,
}

impl BodyStream for Stored {
    fn poll_chunk(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Chunk, BodyError>>> {
        self.made.poll_chunk(cx)
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}
