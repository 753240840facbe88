//! Audio and video files for players (`media`): seeking in FLV and MP4, HLS from MP4, and pacing.
//!
//! Called by: the files handler, between locating a file and building its representation. The
//! result is a representation whose content is a list of bytes and of ranges of the file, so that
//! ranges, conditions and HEAD work as for any file and nothing is copied.
//! Caveat: indexes have megabytes, so they are read and written on the blocking pool. Parts
//! selected by a query are built for each request; parts with a path of their own (HLS) are kept
//! like files.
//! Out of scope: the formats (`saker_media`).

use crate::{
    located_file::LocatedFile,
    make::{Derived, Maker},
    media::{
        index_cache::{IndexCache, MediaIndex},
        media_request::{Form, Hls, Unsought, Wanted},
    },
    names,
    representation::Representation,
};
use saker_config::model::{Mp4Start, Rate, Settings};
use saker_content::Content;
use saker_files::Metadata;
use saker_http::Status;
use saker_media::{MediaError, Piece, Source, flv, hls, mp4};
use saker_net::jobs::{self, Cancel, JobKind};
use saker_pipeline::{CachedRoute, Chunk, Exchange};
use saker_telemetry::{error_log, message};
use std::{fs::File, io, os::unix::fs::FileExt, rc::Rc, sync::Arc};

mod index_cache;

mod media_request;

#[derive(Default)]
pub struct Media {
    indexes: IndexCache,
}

/// A request for something below a file: the file, and the part.
pub struct Below {
    pub file: Vec<u8>,
    /// Length of the part's name, and of the slash in front of it.
    pub bytes_behind: usize,
    hls: Hls,
}

/// The part of HLS that the request names. The file may not exist.
pub fn below(exchange: &Exchange) -> Option<Below> {
    let (file, bytes_behind, hls) = media_request::by_name(exchange)?;
    Some(Below {
        file,
        bytes_behind,
        hls,
    })
}

/// The route cache's entry for a file.
pub fn reusable(
    exchange: &Exchange,
    relative: &[u8],
    representation: &Rc<Representation>,
) -> Rc<dyn CachedRoute> {
    let plain = Rc::clone(representation) as Rc<dyn CachedRoute>;
    if media_request::form(exchange, relative).is_some() {
        Rc::new(Unsought(plain))
    } else {
        plain
    }
}

impl Media {
    /// The part of a file that the query asks for. `None`: the whole file.
    pub async fn part(
        &self,
        maker: &Maker,
        exchange: &mut Exchange,
        own: Option<&Arc<Settings>>,
        found: &LocatedFile,
    ) -> Option<Result<Rc<Representation>, Status>> {
        let form = media_request::form(exchange, &found.relative)?;
        let wanted = media_request::by_query(exchange, form)?;
        exchange.depends_on_request();
        exchange.trace("content", None, || {
            format!("a part of it: {wanted:?} (`media`)")
        });
        match self.make(exchange, found, wanted).await {
            Ok(Some(made)) => Some(Ok(self.represent(maker, exchange, own, found, wanted, made))),
            Ok(None) => None,
            Err(fault) => Some(Err(refusal(exchange, found, &fault))),
        }
    }

    /// A playlist or a part of one.
    pub async fn hls(
        &self,
        maker: &Maker,
        exchange: &mut Exchange,
        own: Option<&Arc<Settings>>,
        found: &LocatedFile,
        below: &Below,
    ) -> Result<Rc<Representation>, Status> {
        let wanted = Wanted::Hls(below.hls);
        exchange.trace("content", None, || {
            format!("of HLS: {:?} (`media`)", below.hls)
        });
        match self.make(exchange, found, wanted).await {
            Ok(Some(made)) => Ok(self.represent(maker, exchange, own, found, wanted, made)),
            Ok(None) => Err(Status::NOT_FOUND),
            Err(fault) => Err(refusal(exchange, found, &fault)),
        }
    }

    /// Paces a file, where configured (`media_rate`) and the file has a duration.
    pub async fn pace(&self, exchange: &mut Exchange, found: &LocatedFile) {
        let media = &exchange.routing.settings.media;
        let (Some(percent), Some(form)) = (
            media.rate_percent,
            media_request::form(exchange, &found.relative),
        ) else {
            return;
        };
        let head_start_ms = media.head_start_ms;
        let (metadata, bytes_max) = (found.original.metadata, media.index_bytes_max);
        let Ok(file) = found.original.file.try_clone() else {
            return;
        };
        let known = self.indexes.find(&metadata);
        let read = move |cancel: &Cancel| {
            let source = OnDisk {
                file,
                length: metadata.size,
                cancel: cancel.clone(),
            };
            known.map_or_else(|| read(&source, form, bytes_max).map(Arc::new), Ok)
        };
        let Ok(Ok(known)) =
            jobs::run(JobKind::Media, Some(exchange.routing.site_index), read).await
        else {
            return;
        };
        self.indexes.put(&metadata, &known);
        let Some(rate) = rate(&known, metadata.size, percent, head_start_ms) else {
            return;
        };
        exchange.trace("content", None, || {
            format!(
                "{} bytes/s after {} bytes (`media_rate`)",
                rate.bytes_per_s, rate.after_bytes
            )
        });
        let mut settings = Settings::clone(&exchange.routing.settings);
        settings.throttle.out_response = Some(rate);
        exchange.routing.settings = Arc::new(settings);
    }

    async fn make(
        &self,
        exchange: &Exchange,
        found: &LocatedFile,
        wanted: Wanted,
    ) -> Result<Option<Made>, MediaError> {
        let metadata = found.original.metadata;
        let job = Job {
            file: found.original.file.try_clone()?,
            file_bytes: metadata.size,
            known: self.indexes.find(&metadata),
            wanted,
            version: version(&metadata),
            index_bytes_max: exchange.routing.settings.media.index_bytes_max,
            fragment_ms: exchange.routing.settings.media.hls_fragment_ms,
        };
        let done = jobs::run(
            JobKind::Media,
            Some(exchange.routing.site_index),
            move |cancel| job.run(cancel),
        )
        .await;
        let (known, made) = done.map_err(io::Error::from)??;
        known
            .iter()
            .for_each(|known| self.indexes.put(&metadata, known));
        Ok(made)
    }

    fn represent(
        &self,
        maker: &Maker,
        exchange: &Exchange,
        own: Option<&Arc<Settings>>,
        found: &LocatedFile,
        wanted: Wanted,
        made: Made,
    ) -> Rc<Representation> {
        let metadata = found.original.metadata;
        let file_type = || names::content_type(&exchange.routing.settings.files, &found.relative);
        let file_type = || {
            file_type()
                .and_then(|text| String::from_utf8(text).ok())
                .unwrap_or_else(|| "application/octet-stream".into())
        };
        let (name, content_type, is_shared) = match wanted {
            Wanted::Hls(Hls::Main | Hls::Media) => (
                exchange.path.clone(),
                "application/vnd.apple.mpegurl".into(),
                true,
            ),
            Wanted::Hls(_) => (exchange.path.clone(), made.media_type.into(), true),
            _ => (Vec::new(), file_type().into(), false),
        };
        let max_age_s = exchange.routing.settings.media.hls_max_age_s;
        let derived = Derived {
            name,
            content: content(&found.original.file, metadata, made.pieces),
            content_type,
            suffix: suffix(wanted, exchange.routing.settings.media.hls_fragment_ms),
            cache_control: is_shared.then(|| format!("max-age={max_age_s}").into()),
            is_shared,
        };
        maker.derived(exchange, own, metadata, derived)
    }
}

/// The status for a part that can't be made; logs why.
fn refusal(exchange: &Exchange, found: &LocatedFile, fault: &MediaError) -> Status {
    let name = String::from_utf8_lossy(&found.relative);
    let media = &exchange.routing.settings.media;
    match fault {
        MediaError::Beyond if media.mp4_start == Mp4Start::KeyFrame => Status::NOT_FOUND,
        MediaError::Read(error)
            if matches!(
                error.kind(),
                io::ErrorKind::ResourceBusy | io::ErrorKind::TimedOut
            ) =>
        {
            error_log::log_about(
                &message::MEDIA_REFUSED,
                exchange,
                format_args!("{name}: {fault}"),
            );
            Status::SERVICE_UNAVAILABLE
        }
        fault => {
            error_log::log_about(
                &message::MEDIA_REFUSED,
                exchange,
                format_args!("{name}: {fault}"),
            );
            Status::INTERNAL_SERVER_ERROR
        }
    }
}

/// A job for the blocking pool.
struct Job {
    file: File,
    file_bytes: u64,
    known: Option<Arc<MediaIndex>>,
    wanted: Wanted,
    version: String,
    index_bytes_max: u64,
    fragment_ms: u64,
}

struct Made {
    pieces: Vec<Piece>,
    media_type: &'static str,
}

type Done = (Option<Arc<MediaIndex>>, Option<Made>);

impl Job {
    fn run(self, cancel: &Cancel) -> Result<Done, MediaError> {
        let source = OnDisk {
            file: self.file,
            length: self.file_bytes,
            cancel: cancel.clone(),
        };
        let form = match self.wanted {
            Wanted::FlvBytes { start, end } => {
                return Ok((
                    None,
                    flv::by_bytes(&source, start, end)?.map(|pieces| Made {
                        pieces,
                        media_type: "",
                    }),
                ));
            }
            Wanted::FlvTimes(_) => Form::Flv,
            Wanted::Mp4(..) | Wanted::Hls(_) => Form::Mp4,
        };
        let known = match self.known.clone() {
            Some(known) => known,
            None => Arc::new(read(&source, form, self.index_bytes_max)?),
        };
        let made = match (&*known, self.wanted) {
            (MediaIndex::Flv(index), Wanted::FlvTimes(times)) => Made {
                pieces: flv::by_times(&source, index, times)?,
                media_type: "",
            },
            (MediaIndex::Movie(movie), Wanted::Mp4(times, start)) => Made {
                pieces: mp4::cut_at(movie, times, begins(start))?,
                media_type: "",
            },
            (MediaIndex::Movie(movie), Wanted::Hls(part)) => {
                of_hls(movie, part, self.fragment_ms, &self.version)?
            }
            // The file's format is not what its handler says.
            _ => return Ok((None, None)),
        };
        Ok((Some(known), Some(made)))
    }
}

fn begins(start: Mp4Start) -> mp4::Start {
    match start {
        Mp4Start::KeyFrame => mp4::Start::KeyFrame,
        Mp4Start::Sample => mp4::Start::Sample,
        Mp4Start::HiddenKeyFrame => mp4::Start::HiddenKeyFrame,
    }
}

fn of_hls(
    movie: &mp4::Movie,
    part: Hls,
    fragment_ms: u64,
    version: &str,
) -> Result<Made, MediaError> {
    let plan = hls::Plan::new(movie, fragment_ms)?;
    let pieces = match part {
        Hls::Main => vec![Piece::Memory(hls::main(&plan, version).into_bytes())],
        Hls::Media => vec![Piece::Memory(hls::media(&plan, version).into_bytes())],
        Hls::Init => vec![Piece::Memory(hls::init(&plan)?)],
        Hls::Fragment(number) => hls::fragment(&plan, number)?,
    };
    Ok(Made {
        pieces,
        media_type: if plan.has_pictures() {
            "video/mp4"
        } else {
            "audio/mp4"
        },
    })
}

fn read(source: &OnDisk, form: Form, index_bytes_max: u64) -> Result<MediaIndex, MediaError> {
    match form {
        Form::Flv => flv::Index::read_with_keys(source).map(MediaIndex::Flv),
        Form::Mp4 => mp4::Movie::read(source, index_bytes_max).map(MediaIndex::Movie),
    }
}

/// `None`: the file has no duration.
fn rate(known: &MediaIndex, file_bytes: u64, percent: u64, head_start_ms: u64) -> Option<Rate> {
    // An index at the beginning must arrive before anything plays.
    let (duration_ms, before) = match known {
        MediaIndex::Movie(movie) => (movie.duration_ms().ok()?, movie.memory_bytes() as u64),
        MediaIndex::Flv(index) => (index.duration_ms, 0),
    };
    let per = |amount: u64| {
        u64::try_from(u128::from(file_bytes) * u128::from(amount) / u128::from(duration_ms.max(1)))
            .unwrap_or(u64::MAX)
    };
    (duration_ms > 1).then(|| Rate {
        bytes_per_s: per(percent.saturating_mul(10)).max(1),
        burst_bytes: 0,
        after_bytes: before.saturating_add(per(head_start_ms)),
    })
}

/// Changes with the file.
fn version(metadata: &Metadata) -> String {
    format!(
        "{:x}-{:x}",
        metadata.size,
        metadata
            .mtime_s
            .wrapping_mul(1_000_000)
            .wrapping_add(i64::from(metadata.mtime_ns / 1000))
    )
}

/// Suffix that distinguishes the entity tag of a part from that of the file.
fn suffix(wanted: Wanted, fragment_ms: u64) -> String {
    let end = |end: Option<u64>| end.map_or_else(String::new, |end| end.to_string());
    match wanted {
        Wanted::FlvBytes { start, end: to } => format!("-b{start}-{}", end(to)),
        Wanted::FlvTimes(times) | Wanted::Mp4(times, Mp4Start::KeyFrame) => {
            format!("-t{}-{}", times.start_ms, end(times.end_ms))
        }
        Wanted::Mp4(times, start) => {
            let kind = match start {
                Mp4Start::Sample => 's',
                _ => 'k',
            };
            format!("-{kind}{}-{}", times.start_ms, end(times.end_ms))
        }
        Wanted::Hls(part) => {
            let part = match part {
                Hls::Main => "m".to_owned(),
                Hls::Media => "i".to_owned(),
                Hls::Init => "n".to_owned(),
                Hls::Fragment(number) => number.to_string(),
            };
            format!("-h{fragment_ms}-{part}")
        }
    }
}

fn content(file: &File, metadata: Metadata, pieces: Vec<Piece>) -> Content {
    let Ok(file) = file.try_clone() else {
        return Content::list(Vec::new());
    };
    let whole = Content::open(file, metadata);
    let mut parts: Vec<Content> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match piece {
            Piece::Memory(bytes) => parts.push(Content::Memory(Chunk::from(bytes))),
            Piece::File(range) => parts.extend(whole.section(&range)),
        }
    }
    match (parts.pop(), parts.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            parts.extend(last);
            Content::list(parts)
        }
    }
}

/// A file that is read until the job is cancelled.
struct OnDisk {
    file: File,
    length: u64,
    cancel: Cancel,
}

impl Source for OnDisk {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.cancel.check()?;
        self.file.read_exact_at(into, at)
    }
}
