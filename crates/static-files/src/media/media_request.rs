//! The part of an audio or video file that a request wants: by its query (`?start=`), or by a name
//! below the file's (`/film.mp4/index.m3u8`).
//!
//! Called by: media files.
//! Caveat: values that can't be parsed are ignored, as by other servers.
//! Out of scope: whether the file has that part.

use saker_config::model::{FlvStart, Mp4Start};
use saker_http::{HeadView, query};
use saker_media::Times;
use saker_pipeline::{CachedRoute, Exchange, Response};
use std::rc::Rc;

/// Handler names of mod_flvx, of mod_h264_streaming, and our own.
const FLV_HANDLER: &str = "flv-stream";

const MP4_HANDLER: &str = "h264-streaming.extensions";

const HLS_HANDLER: &str = "hls-streaming";

/// Extensions of ISO/IEC 14496-12 and QuickTime files.
const MP4_ENDINGS: [&[u8]; 6] = [b".mp4", b".m4v", b".m4a", b".mov", b".f4v", b".3gp"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Flv,
    Mp4,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    FlvBytes { start: u64, end: Option<u64> },
    FlvTimes(Times),
    Mp4(Times, Mp4Start),
    Hls(Hls),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hls {
    /// The playlist that names the other.
    Main,
    Media,
    Init,
    /// From 0.
    Fragment(usize),
}

/// The kind of file by its name, if it is to be handled at all.
pub fn form(exchange: &Exchange, relative: &[u8]) -> Option<Form> {
    let (media, handler) = (
        &exchange.routing.settings.media,
        exchange.routing.handler.as_deref(),
    );
    let paced = media.rate_percent.is_some();
    let is_flv =
        handler == Some(FLV_HANDLER) || (media.flv || paced) && ends_with(relative, b".flv");
    let is_mp4 = matches!(handler, Some(MP4_HANDLER | HLS_HANDLER))
        || (media.mp4 || media.hls || paced) && is_mp4(relative);
    is_flv.then_some(Form::Flv).or(is_mp4.then_some(Form::Mp4))
}

/// The part that the query asks for. `None`: the whole file.
pub fn by_query(exchange: &Exchange, form: Form) -> Option<Wanted> {
    let (media, handler) = (
        &exchange.routing.settings.media,
        exchange.routing.handler.as_deref(),
    );
    let query = exchange.query.as_deref()?;
    match form {
        Form::Flv if media.flv || handler == Some(FLV_HANDLER) => match media.flv_start {
            FlvStart::Bytes => {
                let (start, end) = (
                    query::value(query, b"start").and_then(whole),
                    query::value(query, b"end").and_then(whole),
                );
                (start.is_some() || end.is_some()).then(|| Wanted::FlvBytes {
                    start: start.unwrap_or(0),
                    end,
                })
            }
            FlvStart::Seconds => times(query).map(Wanted::FlvTimes),
        },
        Form::Mp4 if media.mp4 || handler == Some(MP4_HANDLER) => {
            times(query).map(|times| Wanted::Mp4(times, media.mp4_start))
        }
        Form::Flv | Form::Mp4 => None,
    }
}

/// The file, from the root, the length of what is behind its name, and the part of it.
pub fn by_name(exchange: &Exchange) -> Option<(Vec<u8>, usize, Hls)> {
    let is_handled = exchange.routing.handler.as_deref() == Some(HLS_HANDLER);
    if !exchange.routing.settings.media.hls && !is_handled {
        return None;
    }
    let (file, name) = match &exchange.routing.mapped {
        Some(mapped) if !exchange.routing.path_info.is_empty() => (
            mapped.relative.as_slice(),
            exchange.routing.path_info.strip_prefix(b"/")?,
        ),
        Some(mapped) => split(&mapped.relative)?,
        None => split(exchange.path.strip_prefix(b"/")?)?,
    };
    let hls = match name {
        b"master.m3u8" => Hls::Main,
        b"index.m3u8" => Hls::Media,
        b"init.mp4" => Hls::Init,
        name => Hls::Fragment(fragment(name)?),
    };
    (is_handled || is_mp4(file)).then(|| (file.to_vec(), name.len() + 1, hls))
}

/// Answers like the representation, unless the query may ask for a part; that needs a full
/// dispatch.
pub struct Unsought(pub Rc<dyn CachedRoute>);

impl CachedRoute for Unsought {
    fn answer(&self, head: HeadView<'_>, now: i64) -> Option<Response> {
        let target = head.target();
        let query = target
            .iter()
            .position(|byte| *byte == b'?')
            .and_then(|at| target.get(at + 1..));
        let seeks = query.is_some_and(|query| {
            query::value(query, b"start").is_some() || query::value(query, b"end").is_some()
        });
        if seeks {
            None
        } else {
            self.0.answer(head, now)
        }
    }

    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes() + size_of::<Unsought>()
    }

    fn descriptors(&self) -> usize {
        self.0.descriptors()
    }
}

fn split(relative: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = relative.iter().rposition(|byte| *byte == b'/')?;
    Some((relative.get(..at)?, relative.get(at + 1..)?))
}

/// `seg-1.m4s` is the first.
fn fragment(name: &[u8]) -> Option<usize> {
    let digits = name.strip_prefix(b"seg-")?.strip_suffix(b".m4s")?;
    let number: usize = std::str::from_utf8(digits)
        .ok()
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?
        .parse()
        .ok()?;
    number.checked_sub(1).filter(|_| !digits.starts_with(b"0"))
}

fn is_mp4(name: &[u8]) -> bool {
    MP4_ENDINGS.iter().any(|ending| ends_with(name, ending))
}

fn ends_with(name: &[u8], ending: &[u8]) -> bool {
    name.len() > ending.len()
        && name
            .len()
            .checked_sub(ending.len())
            .and_then(|at| name.get(at..))
            .is_some_and(|end| end.eq_ignore_ascii_case(ending))
}

fn times(query: &[u8]) -> Option<Times> {
    let (start, end) = (
        query::value(query, b"start").and_then(milliseconds),
        query::value(query, b"end").and_then(milliseconds),
    );
    (start.is_some() || end.is_some()).then(|| Times {
        start_ms: start.unwrap_or(0),
        end_ms: end,
    })
}

fn whole(text: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok()
}

/// Seconds, with or without a fraction.
fn milliseconds(text: &[u8]) -> Option<u64> {
    let (seconds, fraction) = match text.iter().position(|byte| *byte == b'.') {
        Some(at) => (text.get(..at)?, text.get(at + 1..)?),
        None => (text, b"".as_slice()),
    };
    if !fraction.iter().all(u8::is_ascii_digit) || seconds.is_empty() && fraction.is_empty() {
        return None;
    }
    let thousandths = fraction
        .iter()
        .chain(b"000")
        .take(3)
        .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    let seconds = if seconds.is_empty() {
        0
    } else {
        whole(seconds)?
    };
    seconds
        .checked_mul(1000)?
        .checked_add(thousandths)
        .filter(|ms| *ms < 1 << 50)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds() {
        for (text, ms) in [
            ("0", Some(0)),
            ("12", Some(12_000)),
            ("12.5", Some(12_500)),
            ("0.0019", Some(1)),
            (".25", Some(250)),
            ("7.", Some(7_000)),
        ] {
            assert_eq!(milliseconds(text.as_bytes()), ms, "{text}");
        }
        for text in [
            "",
            ".",
            "-1",
            "1e3",
            "1,5",
            "0x1",
            "99999999999999999999",
            "1.2.3",
            " 1",
        ] {
            assert_eq!(milliseconds(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn queries() {
        assert_eq!(
            times(b"a=1&start=2&end=x"),
            Some(Times {
                start_ms: 2000,
                end_ms: None
            })
        );
        assert_eq!(times(b"restart=2&start"), None);
        assert_eq!(
            times(b"end=4.5"),
            Some(Times {
                start_ms: 0,
                end_ms: Some(4500)
            })
        );
    }

    #[test]
    fn fragments_have_one_name() {
        for (name, number) in [("seg-1.m4s", Some(0)), ("seg-12.m4s", Some(11))] {
            assert_eq!(fragment(name.as_bytes()), number);
        }
        for name in [
            "seg-0.m4s",
            "seg-01.m4s",
            "seg-+1.m4s",
            "seg-.m4s",
            "seg-1.ts",
            "seg-99999999999999999999.m4s",
        ] {
            assert_eq!(fragment(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn endings() {
        assert!(is_mp4(b"a.MP4") && is_mp4(b"a/b.m4a") && !is_mp4(b".mp4") && !is_mp4(b"amp4"));
    }
}
