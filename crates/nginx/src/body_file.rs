//! `client_body_in_file_only`: the content of the request in a file of its own, whose name
//! `$request_body_file` has.
//!
//! Called by: `rules`, before the upstream is chosen.
//! Caveat: files have nginx's names: ten digits, below directories of the last ones. A file is
//! removed with the request (`clean`), and in any case if the content did not come whole.
//! Out of scope: content that the gateway holds back in unnamed files.

use crate::{
    request::Request,
    state::{BodyFile, State},
};
use saker_http::{Fields, Status};
use saker_net::jobs::{self, JobKind};
use saker_nginx_model::modules::body::{BodyFiles, Folder};
use saker_pipeline::{
    BodyError, Chunk, Exchange, LocalFuture, NoBody, RequestBody, Response, Verdict,
};
use saker_telemetry::message::{self, Level};
use std::{
    fs::{DirBuilder, File, OpenOptions},
    future::poll_fn,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::PathBuf,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

/// Names that are tried, where others have left theirs.
const NAMES_MAX: u64 = 10_000;
/// Content that is written, and read, at a time.
const PIECE_BYTES: usize = 64 << 10;

/// The number of the next file of the process.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The file that a request wants.
pub struct Wanted {
    folder: Folder,
    is_kept: bool,
    site: usize,
}

/// Returns the file that the content goes to; `None`: to none, or there is no content.
pub fn wanted(request: &mut Request<'_>) -> Option<Wanted> {
    let location = Arc::clone(&request.state.location);
    let conf = &location.conf.body;
    let files = conf.files.unwrap_or(BodyFiles::Off);
    let is_read = location.conf.upstreams.pass.is_some()
        && !request.state.is_subrequest
        && request.state.body_file.is_none()
        && !request.exchange.body.is_end();
    if files == BodyFiles::Off || !is_read {
        return None;
    }
    request.depends_on_request();
    Some(Wanted {
        folder: conf.folder.clone().unwrap_or_else(|| Folder {
            path: request.nginx.body_folder.clone(),
            levels: Vec::new(),
        }),
        is_kept: files == BodyFiles::Keep,
        site: request.exchange.routing.site_index,
    })
}

/// Writes the content to a file, from which it is read on. Returns the answer where that fails.
pub async fn keep(exchange: &mut Exchange, wanted: Wanted) -> Option<Verdict> {
    let mut body = std::mem::replace(&mut exchange.body, Box::new(NoBody));
    match write(&mut *body, wanted).await {
        Ok((file, opened, bytes)) => {
            exchange.body = Box::new(FileContent {
                file: Some(opened),
                at: 0,
                bytes,
                reading: None,
                trailers: body.trailers(),
            });
            let state = exchange.extensions.get_mut::<State>()?;
            state.body_file = Some(Rc::new(file));
            None
        }
        Err(Failure::Client(error)) => {
            // Its reader ends the request as it does without a file.
            exchange.body = Box::new(FailedBody(error));
            None
        }
        Err(Failure::File(error)) => {
            exchange.body = body;
            Some(refuse(exchange, &error))
        }
    }
}

fn refuse(exchange: &mut Exchange, error: &io::Error) -> Verdict {
    let text = format!("content of the request could not be written to its file: {error}");
    let line = saker_pipeline::OutcomeLine::Nginx(
        &message::NGINX_BODY_FILE_FAILED,
        Level::Error,
        text.into(),
    );
    exchange.log_outcome(line);
    Verdict::Answer(Response::new(Status::INTERNAL_SERVER_ERROR))
}

enum Failure {
    Client(BodyError),
    File(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::File(error)
    }
}

async fn write(
    body: &mut dyn RequestBody,
    wanted: Wanted,
) -> Result<(BodyFile, File, u64), Failure> {
    let site = Some(wanted.site);
    let folder = wanted.folder;
    let made = jobs::run(JobKind::WebDav, site, move |_| create(&folder)).await;
    let (path, mut opened) = made.map_err(io::Error::from)??;
    // Until all of it is there, the file goes when this does.
    let mut file = BodyFile {
        path,
        is_kept: false,
    };
    let (mut bytes, mut is_over) = (0, false);
    while !is_over {
        let mut piece = Vec::new();
        while piece.len() < PIECE_BYTES {
            match poll_fn(|cx| body.poll_chunk(cx)).await {
                Some(Ok(chunk)) => piece.extend_from_slice(chunk.bytes()),
                Some(Err(error)) => return Err(Failure::Client(error)),
                None => {
                    is_over = true;
                    break;
                }
            }
        }
        bytes += piece.len() as u64;
        let written = jobs::run(JobKind::WebDav, site, move |_| {
            opened.write_all(&piece).map(|()| opened)
        });
        opened = written.await.map_err(io::Error::from)??;
    }
    file.is_kept = wanted.is_kept;
    Ok((file, opened, bytes))
}

/// Makes a file that was not there. What stands in its way is left alone.
fn create(folder: &Folder) -> io::Result<(PathBuf, File)> {
    let mut last = io::ErrorKind::AlreadyExists.into();
    for _ in 0..NAMES_MAX {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.file(number);
        let options = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).mode(0o600);
            options
        };
        let opened = options().open(&path).or_else(|error| {
            let Some(parent) = path
                .parent()
                .filter(|_| error.kind() == io::ErrorKind::NotFound)
            else {
                return Err(error);
            };
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(parent)?;
            options().open(&path)
        });
        match opened {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

type Reading = LocalFuture<'static, io::Result<(File, Vec<u8>)>>;

/// Content in a file.
struct FileContent {
    /// `None`: it is being read.
    file: Option<File>,
    at: u64,
    bytes: u64,
    reading: Option<Reading>,
    trailers: Option<Fields>,
}

impl RequestBody for FileContent {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let left = self.bytes.saturating_sub(self.at);
        if left == 0 {
            return Poll::Ready(None);
        }
        if let Some(file) = self.file.take() {
            let wanted = usize::try_from(left)
                .unwrap_or(PIECE_BYTES)
                .min(PIECE_BYTES);
            let at = self.at;
            self.reading = Some(Box::pin(async move {
                let read = jobs::run(JobKind::WebDav, None, move |_| {
                    let mut piece = vec![0; wanted];
                    file.read_exact_at(&mut piece, at).map(|()| (file, piece))
                });
                read.await?
            }));
        }
        let Some(reading) = &mut self.reading else {
            return Poll::Ready(Some(Err(BodyError::Source)));
        };
        let read = ready!(reading.as_mut().poll(cx));
        self.reading = None;
        Poll::Ready(Some(match read {
            Ok((file, piece)) => {
                self.file = Some(file);
                self.at += piece.len() as u64;
                Ok(Chunk::from(piece))
            }
            Err(_) => Err(BodyError::Source),
        }))
    }

    fn length(&self) -> Option<u64> {
        Some(self.bytes.saturating_sub(self.at))
    }

    fn is_end(&self) -> bool {
        self.at >= self.bytes
    }

    fn trailers(&mut self) -> Option<Fields> {
        self.trailers.take()
    }
}

/// Content that has failed already.
struct FailedBody(BodyError);

impl RequestBody for FailedBody {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        Poll::Ready(Some(Err(self.0)))
    }

    fn length(&self) -> Option<u64> {
        None
    }

    fn is_end(&self) -> bool {
        false
    }
}
