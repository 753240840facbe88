//! Everything that a peer may make us keep or do, as numbers with names.
//!
//! A head that is too large is an answer (431); whatever floods is H3_EXCESSIVE_LOAD and the end of
//! the connection. Floods are counted by buckets: so many at once, so many per second after that.
//! How many streams there are, and how much they may send ahead, is QUIC's.

use saker_http_mux::HeadLimits;

/// One set for each listener; each connection has a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that the peer may have open: what QUIC's transport parameters say, for which the
    /// driver cares. Here it bounds the streams for which a PRIORITY_UPDATE may come, and is looked
    /// at again.
    pub concurrent_streams_max: u32,
    /// Size of a head or of trailers, uncompressed as RFC 9114 section 4.2.2 counts (32 bytes on
    /// top of each field): our SETTINGS_MAX_FIELD_SECTION_SIZE.
    pub header_list_bytes_max: u32,
    /// Fields in a head or in trailers, pseudo-fields included. All `cookie` fields count as one,
    /// since clients cut cookies up (RFC 9114 section 4.2.1).
    pub header_count_max: u32,
    /// `:path` of a request.
    pub target_bytes_max: u32,
    /// Name and value of one field together.
    pub field_bytes_max: u32,
    /// A malformed head is refused with a status; its stream is reset otherwise.
    pub answers_malformed: bool,
    /// A field section as it comes, compressed.
    pub field_section_bytes_max: u32,
    /// The same for all streams together, of sections that are not complete or wait for the table.
    pub waiting_section_bytes_max: usize,
    /// Dynamic table for heads that the peer sends: our SETTINGS_QPACK_MAX_TABLE_CAPACITY.
    pub table_bytes: u32,
    /// Streams whose field sections wait for the table: our SETTINGS_QPACK_BLOCKED_STREAMS.
    pub blocked_streams_max: u32,
    /// Instructions on the peer's encoder stream. Requests allow 32 more each.
    pub table_updates_max: u32,
    pub table_updates_per_second: u32,
    /// Payload of one frame on the control stream.
    pub control_frame_bytes_max: u32,
    /// Streams that ended badly by the peer's doing: given up by it before we had answered, or
    /// reset by us for its faults.
    pub resets_max: u32,
    pub resets_per_second: u32,
    /// PRIORITY_UPDATE frames. Requests allow two more each.
    pub priority_updates_max: u32,
    pub priority_updates_per_second: u32,
    /// Frames and streams without effect: empty DATA, unknown types (each KiB of them once more),
    /// repeated GOAWAY and MAX_PUSH_ID; 1xx responses to a client.
    pub empty_frames_max: u32,
    pub empty_frames_per_second: u32,
    /// Output waiting on the control, encoder, and decoder streams because the peer does not accept
    /// it.
    pub control_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            concurrent_streams_max: 128,
            header_list_bytes_max: 32 * 1024,
            header_count_max: 100,
            target_bytes_max: u32::MAX,
            field_bytes_max: u32::MAX,
            answers_malformed: false,
            field_section_bytes_max: 64 * 1024,
            waiting_section_bytes_max: 256 * 1024,
            table_bytes: 4_096,
            blocked_streams_max: 16,
            table_updates_max: 1_000,
            table_updates_per_second: 500,
            control_frame_bytes_max: 1_024,
            resets_max: 100,
            resets_per_second: 20,
            priority_updates_max: 500,
            priority_updates_per_second: 100,
            empty_frames_max: 500,
            empty_frames_per_second: 100,
            control_bytes_max: 64 * 1024,
        }
    }
}

impl Limits {
    pub(crate) fn of_heads(&self) -> HeadLimits {
        HeadLimits {
            list_bytes_max: self.header_list_bytes_max,
            field_count_max: self.header_count_max,
            target_bytes_max: self.target_bytes_max,
            field_bytes_max: self.field_bytes_max,
            authority_replaces_host: false,
            answers_malformed: self.answers_malformed,
        }
    }
}
