//! Limits on frames that an HTTP/3 peer can send too often.

use saker_http_mux::Bucket;

/// The buckets of one connection, one for each rate in [`crate::Limits`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Floods {
    pub resets: Bucket,
    pub priority_updates: Bucket,
    pub empty_frames: Bucket,
    pub table_updates: Bucket,
}
