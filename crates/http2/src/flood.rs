//! Limits on frames that an HTTP/2 peer can send too often.

use saker_http_mux::Bucket;

/// The buckets of one connection, one for each rate in [`crate::Limits`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Floods {
    pub resets: Bucket,
    pub pings: Bucket,
    pub settings: Bucket,
    pub window_updates: Bucket,
    pub priority_updates: Bucket,
    pub empty_frames: Bucket,
}
