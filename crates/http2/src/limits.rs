//! Everything that a peer may make us keep or do, as numbers with names.
//!
//! A head that is too large is an answer (431); a stream too many is refused; whatever floods is
//! ENHANCE_YOUR_CALM and the end of the connection. Floods are counted by buckets: so many at once,
//! so many per second after that.

use saker_http_mux::HeadLimits;

/// One set for each listener; each connection has a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Streams that the peer may have open: our SETTINGS_MAX_CONCURRENT_STREAMS. More are refused.
    pub concurrent_streams_max: u32,
    /// Size of a head or of trailers, uncompressed as RFC 9113 section 6.5.2 counts (32 bytes on
    /// top of each field): our SETTINGS_MAX_HEADER_LIST_SIZE.
    pub header_list_bytes_max: u32,
    /// Fields in a head or in trailers, pseudo-fields included. All `cookie` fields count as one,
    /// since clients cut cookies up (RFC 9113 section 8.2.3).
    pub header_count_max: u32,
    /// `:path` of a request.
    pub target_bytes_max: u32,
    /// Name and value of one field together.
    pub field_bytes_max: u32,
    /// A Host that differs from `:authority` is dropped; it is malformed otherwise.
    pub authority_replaces_host: bool,
    /// A malformed request, its content included, is refused with a status; its stream is reset
    /// otherwise.
    pub answers_malformed: bool,
    /// A head that is too large ends the connection; it gets a response otherwise.
    pub ends_large_heads: bool,
    /// CONTINUATION frames in one field block; with `frame_bytes_max` this bounds the bytes that
    /// wait for its end.
    pub continuation_frames_max: u32,
    /// Streams that ended badly by the peer's doing: reset by it before we had answered, or refused
    /// or reset by us for its faults.
    pub resets_max: u32,
    pub resets_per_second: u32,
    /// PING frames. Frames of content that we send allow one more each: some clients measure the
    /// path while they receive.
    pub pings_max: u32,
    pub pings_per_second: u32,
    /// SETTINGS frames, acknowledgements apart.
    pub settings_max: u32,
    pub settings_per_second: u32,
    /// WINDOW_UPDATE frames. Frames of content that we send allow four more each.
    pub window_updates_max: u32,
    pub window_updates_per_second: u32,
    /// PRIORITY and PRIORITY_UPDATE frames. Requests allow two more each.
    pub priority_updates_max: u32,
    pub priority_updates_per_second: u32,
    /// Frames without effect: empty DATA that does not end a stream, unknown types, resets of
    /// closed streams, further acknowledgements of SETTINGS; also GOAWAY, and 1xx responses to a
    /// client.
    pub empty_frames_max: u32,
    pub empty_frames_per_second: u32,
    /// Replies (acknowledgements, resets, window updates) that wait to be read by the peer.
    pub control_bytes_max: usize,
    /// Content of one stream that the peer may send ahead: our SETTINGS_INITIAL_WINDOW_SIZE.
    pub stream_window_bytes: u32,
    /// The same for all streams of the connection together; 65,535 at least (RFC 9113 section
    /// 6.9.2).
    pub connection_window_bytes: u32,
    /// Dynamic table for heads that the peer sends: our SETTINGS_HEADER_TABLE_SIZE.
    pub header_table_bytes: u32,
    /// Payload of one frame: our SETTINGS_MAX_FRAME_SIZE, 16,384 to 16,777,215.
    pub frame_bytes_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            concurrent_streams_max: 128,
            header_list_bytes_max: 32 * 1024,
            header_count_max: 100,
            target_bytes_max: u32::MAX,
            field_bytes_max: u32::MAX,
            authority_replaces_host: false,
            answers_malformed: false,
            ends_large_heads: false,
            continuation_frames_max: 8,
            resets_max: 100,
            resets_per_second: 20,
            pings_max: 50,
            pings_per_second: 10,
            settings_max: 20,
            settings_per_second: 1,
            window_updates_max: 2_000,
            window_updates_per_second: 1_000,
            priority_updates_max: 500,
            priority_updates_per_second: 100,
            empty_frames_max: 500,
            empty_frames_per_second: 100,
            control_bytes_max: 64 * 1024,
            stream_window_bytes: 256 * 1024,
            connection_window_bytes: 1024 * 1024,
            header_table_bytes: 4_096,
            frame_bytes_max: crate::frame::FRAME_BYTES_MIN,
        }
    }
}

/// RFC 9113 section 6.9.1.
const WINDOW_MAX: u32 = (1 << 31) - 1;

impl Limits {
    pub(crate) fn of_heads(&self) -> HeadLimits {
        HeadLimits {
            list_bytes_max: self.header_list_bytes_max,
            field_count_max: self.header_count_max,
            target_bytes_max: self.target_bytes_max,
            field_bytes_max: self.field_bytes_max,
            authority_replaces_host: self.authority_replaces_host,
            answers_malformed: self.answers_malformed,
        }
    }

    /// With values that the protocol can't express brought to the nearest that it can.
    pub(crate) fn normalized(mut self) -> Limits {
        self.stream_window_bytes = self.stream_window_bytes.min(WINDOW_MAX);
        self.connection_window_bytes = self
            .connection_window_bytes
            .clamp(crate::window::INITIAL_BYTES, WINDOW_MAX);
        self.frame_bytes_max = self
            .frame_bytes_max
            .clamp(crate::frame::FRAME_BYTES_MIN, crate::frame::FRAME_BYTES_CAP);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_within_the_protocol() {
        assert_eq!(Limits::default().normalized(), Limits::default());
    }

    #[test]
    fn impossible_values_become_possible_ones() {
        let small = Limits {
            connection_window_bytes: 1,
            frame_bytes_max: 1,
            ..Limits::default()
        }
        .normalized();
        assert_eq!(
            (small.connection_window_bytes, small.frame_bytes_max),
            (65_535, 16_384)
        );
        let large = u32::MAX;
        let large = Limits {
            connection_window_bytes: large,
            stream_window_bytes: large,
            frame_bytes_max: large,
            ..Limits::default()
        }
        .normalized();
        assert_eq!(
            (large.connection_window_bytes, large.stream_window_bytes),
            (WINDOW_MAX, WINDOW_MAX)
        );
        assert_eq!(large.frame_bytes_max, 16_777_215);
    }
}
