//! Buffers of a worker, borrowed by the connection that has bytes.
//!
//! Called by: every driver, for the length of one turn.
//! Caveat: an idle connection holds none of them.

use saker_http::HeadIndex;
use saker_http2::HeadStore;

/// Size of one recv: larger than most request heads, so that a short read means the socket is
/// drained.
pub const READ_BYTES: usize = 64 << 10;

pub struct Buffers {
    pub read: Box<[u8]>,
    pub out: Vec<u8>,
    pub index: HeadIndex,
    /// Heads of HTTP/2, decoded.
    pub head: HeadStore,
}

impl Default for Buffers {
    fn default() -> Self {
        let (read, out) = (vec![0; READ_BYTES].into(), Vec::with_capacity(READ_BYTES));
        Buffers {
            read,
            out,
            index: HeadIndex::default(),
            head: HeadStore::default(),
        }
    }
}
