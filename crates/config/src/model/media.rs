//! Streaming of audio and video files.
//!
//! Called by: the handler of static files.
//! Out of scope: the keys (`directives/media`).

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// FLV files from a byte or time (`?start=`, `?end=`).
    pub flv: bool,
    /// MP4 and related files from a time (`?start=`, `?end=`).
    pub mp4: bool,
    /// The same files as HLS (`/film.mp4/index.m3u8`).
    pub hls: bool,
    pub flv_start: FlvStart,
    pub mp4_start: Mp4Start,
    /// Maximum size of an index.
    pub index_bytes_max: u64,
    /// Approximate duration of HLS segments.
    pub hls_fragment_ms: u64,
    /// Time that clients and caches may keep HLS playlists and segments.
    pub hls_max_age_s: u64,
    /// Rate in percent of the playback speed; `None`: unlimited.
    pub rate_percent: Option<u64>,
    /// Playing time that is sent at full speed first.
    pub head_start_ms: u64,
}

/// Unit of `?start=` for FLV files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlvStart {
    #[default]
    Bytes,
    Seconds,
}

/// The beginning of a part of an MP4 file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mp4Start {
    /// The key frame at or before the time.
    #[default]
    KeyFrame,
    /// The sample of the time, as by nginx. Parts beyond the end are an error of the server.
    Sample,
    /// The same with hidden samples from the key frame on (`mp4_start_key_frame`).
    HiddenKeyFrame,
}

impl Default for Media {
    fn default() -> Self {
        Media {
            flv: false,
            mp4: false,
            hls: false,
            flv_start: FlvStart::Bytes,
            mp4_start: Mp4Start::KeyFrame,
            index_bytes_max: 16 << 20,
            hls_fragment_ms: 6_000,
            hls_max_age_s: 3_600,
            rate_percent: None,
            head_start_ms: 10_000,
        }
    }
}

impl Media {
    /// Files are sent unchanged and at full speed.
    pub fn is_idle(&self) -> bool {
        !self.flv && !self.mp4 && !self.hls && self.rate_percent.is_none()
    }
}
