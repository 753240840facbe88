//! Audio and video: seeking in FLV and MP4 files, HLS from MP4 files, and rate limits by playback
//! speed.
//!
//! Called by: `settings`, for sites and routes.

use crate::{
    context::{ROUTE, SITE},
    kind::{Kind, Word},
    model::{FlvStart, Settings},
    row::Row,
    value::{Value, ValueError},
};

const EVERYWHERE: crate::context::Contexts = SITE.or(ROUTE);

const YEAR_MS: u64 = 365 * 24 * 3_600_000;

static FACTOR: Word = Word {
    expects: "a multiple of the playback speed, from \"0.1\" to \"100\", or \"off\"",
    pattern: "^(off|[0-9]+(\\.[0-9]{1,2})?)$",
    read: |text| factor(text).map(|percent| Value::Number(percent.unwrap_or(0))),
};

pub const ROWS: &[Row<Settings>] = &[
    Row {
        name: "media",
        contexts: EVERYWHERE,
        kind: Kind::ListOf(&Kind::Choice(&["flv", "mp4", "hls"])),
        default: Some("[]"),
        example: Some("[\"flv\", \"mp4\", \"hls\"]"),
        summary: "Streaming of audio and video files. `flv`: FLV files from `?start=`. `mp4`: MP4, \
                  M4V, M4A, MOV and 3GP files from `?start=` to `?end=`, in seconds, beginning at \
                  a key frame. `hls`: the same files as HLS, at `/film.mp4/index.m3u8` and \
                  `/film.mp4/master.m3u8`.",
        since: "0.2",
        apache: Some("AddHandler flv-stream, AddHandler h264-streaming.extensions"),
        aliases: &["flv", "mp4", "hls", "flv-streaming.extensions", "vod"],
        set: |settings, given| {
            let uses = given.texts();
            let has = |name: &str| uses.iter().any(|used| used == name);
            (settings.media.flv, settings.media.mp4, settings.media.hls) =
                (has("flv"), has("mp4"), has("hls"));
        },
        ..Row::BASE
    },
    Row {
        name: "flv_start",
        contexts: EVERYWHERE,
        kind: Kind::Choice(&["bytes", "seconds"]),
        default: Some("\"bytes\""),
        summary: "Unit of `?start=` and `?end=` for FLV files: bytes of the file, as most servers \
                  and players have it, or seconds.",
        since: "0.2",
        set: |settings, given| {
            settings.media.flv_start = if given.text() == "seconds" {
                FlvStart::Seconds
            } else {
                FlvStart::Bytes
            };
        },
        ..Row::BASE
    },
    Row {
        name: "media_index_max",
        contexts: EVERYWHERE,
        kind: Kind::Bytes {
            min: 1 << 10,
            max: 1 << 30,
        },
        default: Some("\"16MiB\""),
        unit: Some("bytes"),
        summary: "Maximum size of the index (`moov` box) of an MP4 file; requests that need a \
                  larger one get 500. One hour takes about 2 MiB.",
        since: "0.2",
        aliases: &["mp4_max_buffer_size"],
        set: |settings, given| settings.media.index_bytes_max = given.number(),
        ..Row::BASE
    },
    Row {
        name: "media_rate",
        contexts: EVERYWHERE,
        kind: Kind::Word(&FACTOR),
        default: Some("\"off\""),
        example: Some("\"1.5\""),
        summary: "Send FLV and MP4 files at this multiple of their playback speed, after \
                  `media_head_start`. The speed is computed from file size and duration; files \
                  without a known duration are not limited.",
        since: "0.2",
        aliases: &["mp4_limit_rate"],
        set: |settings, given| {
            settings.media.rate_percent = Some(given.number()).filter(|percent| *percent > 0)
        },
        ..Row::BASE
    },
    Row {
        name: "media_head_start",
        contexts: EVERYWHERE,
        kind: Kind::Duration {
            min_ms: 0,
            max_ms: 24 * 3_600_000,
        },
        default: Some("\"10s\""),
        summary: "With `media_rate`: playing time that is sent at full speed first.",
        since: "0.2",
        aliases: &["mp4_limit_rate_after"],
        set: |settings, given| settings.media.head_start_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "hls_fragment",
        contexts: EVERYWHERE,
        kind: Kind::Duration {
            min_ms: 500,
            max_ms: 60_000,
        },
        default: Some("\"6s\""),
        summary: "Approximate duration of HLS segments; each starts at the nearest key frame.",
        since: "0.2",
        aliases: &["hls_fragment_length", "vod_segment_duration"],
        set: |settings, given| settings.media.hls_fragment_ms = given.number(),
        ..Row::BASE
    },
    Row {
        name: "hls_max_age",
        contexts: EVERYWHERE,
        kind: Kind::Duration {
            min_ms: 0,
            max_ms: YEAR_MS,
        },
        default: Some("\"1h\""),
        summary: "How long clients and caches may keep HLS playlists and segments (Cache-Control: \
                  max-age).",
        since: "0.2",
        aliases: &["hls_cache_control"],
        set: |settings, given| settings.media.hls_max_age_s = given.number() / 1000,
        ..Row::BASE
    },
];

/// In percent; `None`: off.
fn factor(text: &str) -> Result<Option<u64>, ValueError> {
    if text == "off" {
        return Ok(None);
    }
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| {
        !digits.is_empty() && digits.len() <= 3 && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let hundredths = match part.len() {
        1 => part.parse::<u64>().map(|tenths| tenths * 10),
        _ => part.parse(),
    };
    match (
        is_number(whole) && is_number(part) && part.len() <= 2,
        whole.parse::<u64>(),
        hundredths,
    ) {
        (true, Ok(whole), Ok(hundredths))
            if (10..=10_000).contains(&(whole * 100 + hundredths)) =>
        {
            Ok(Some(whole * 100 + hundredths))
        }
        _ => Err(ValueError::plain(None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors() {
        for (text, percent) in [
            ("1.5", Some(150)),
            ("1", Some(100)),
            ("0.1", Some(10)),
            ("1.05", Some(105)),
            ("100", Some(10_000)),
            ("off", None),
        ] {
            assert_eq!(factor(text), Ok(percent), "{text}");
        }
        for text in [
            "",
            "0",
            "0.09",
            "100.01",
            "1.",
            ".5",
            "-1",
            "1.555",
            "1,5",
            "on",
            "9999999999999999999999",
        ] {
            assert!(factor(text).is_err(), "{text}");
        }
    }
}
