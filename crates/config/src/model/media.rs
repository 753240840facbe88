//! What is done with audio and video files beyond sending them as they are.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// FLV files from a byte or a time on (`?start=`, `?end=`).
    pub flv: bool,
    /// MP4 files and their kin from a time on (`?start=`, `?end=`).
    pub mp4: bool,
    /// The same files as HLS (`/film.mp4/index.m3u8`).
    pub hls: bool,
    pub flv_start: FlvStart,
    /// Files whose index takes more are not cut.
    pub index_bytes_max: u64,
    /// About how long fragments of HLS are.
    pub hls_fragment_ms: u64,
    /// How long clients and caches may keep what HLS is made of.
    pub hls_max_age_s: u64,
    /// How fast files are sent, in percent of how fast they are played; `None`: as fast as it goes.
    pub rate_percent: Option<u64>,
    /// So much of a file's playing time is sent as fast as it goes.
    pub head_start_ms: u64,
}

/// What `?start=` of an FLV file counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlvStart {
    #[default]
    Bytes,
    Seconds,
}

impl Default for Media {
    fn default() -> Self {
        Media {
            flv: false,
            mp4: false,
            hls: false,
            flv_start: FlvStart::Bytes,
            index_bytes_max: 16 << 20,
            hls_fragment_ms: 6_000,
            hls_max_age_s: 3_600,
            rate_percent: None,
            head_start_ms: 10_000,
        }
    }
}

impl Media {
    /// Files are sent as they are, as fast as it goes.
    pub fn is_idle(&self) -> bool {
        !self.flv && !self.mp4 && !self.hls && self.rate_percent.is_none()
    }
}
