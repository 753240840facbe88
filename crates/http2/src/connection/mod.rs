//! One HTTP/2 connection, in the role of the server or of the client.
//!
//! The driver reads bytes into [`Connection::receive`] and sends by verbs; both append frames to a
//! buffer that the driver lends and writes when it likes. The parts: `receive` (frames in),
//! `headers` (field blocks), `data` (content and the windows we give), `control` (the other
//! frames), `send` (frames out), `ending` (GOAWAY).
//!
//! The one difficulty: what a peer may make us do without getting anything done. Each such thing
//! has a bucket or a bound in [`Limits`]; a stream that the peer breaks is reset and counted, a
//! connection that it breaks ends with a reason.

mod control;
mod data;
mod ending;
mod headers;
mod receive;
mod send;
mod state;

use saker_http_mux::{HeadRefusal, Priority, PriorityNotes};

use crate::error::{ConnectionError, ErrorCode, Reason};
use crate::flood::Floods;
use crate::hpack::{Decoder, Encoder};
use crate::limits::Limits;
use crate::settings::{self, PeerSettings, Role};
use crate::stream::{Stream, StreamId};
use crate::streams::Streams;
use crate::window::{self, ReceiveWindow, SendWindow};

pub use send::{HeadEncoder, OpenError};
use state::{Ending, PendingBlock, Progress};

/// Client connection preface (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Event produced by input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A request (server) or a final response (client) is in the head store.
    Head { stream: StreamId, end_stream: bool },
    /// Client: a response with a status of 1xx is in the head store; the final one is still to
    /// come.
    Informational { stream: StreamId },
    /// A head over a limit (server: 431 or 414), or a malformed one where these are answered (400).
    /// The store has what fitted; a method or target that did not come is empty.
    HeadRefused {
        stream: StreamId,
        end_stream: bool,
        what: HeadRefusal,
    },
    /// Content. `flow_bytes` (content and padding) have to be released, also where the stream has
    /// ended meanwhile.
    Data {
        stream: StreamId,
        data: &'a [u8],
        flow_bytes: usize,
        end_stream: bool,
    },
    /// Content of another length than the head announces, where malformed requests are answered. More
    /// of it is no fault any more.
    ContentRefused { stream: StreamId, end_stream: bool },
    /// Trailers are in the head store. They end the peer's side of the stream.
    Trailers { stream: StreamId },
    /// The stream is gone: reset by the peer, or by us for what the peer did to it
    /// ([`Connection::stream_fault`] has the reason then).
    Reset { stream: StreamId, code: ErrorCode },
    /// Some stream can send again.
    WindowOpened,
    /// The peer will take no streams above `last`. Client: those above are gone and may be tried
    /// elsewhere.
    GoAway { last: StreamId, code: ErrorCode },
}

pub struct Connection {
    role: Role,
    limits: Limits,
    /// We are a server and allow `:protocol` (RFC 8441).
    extended_connect: bool,
    progress: Progress,
    /// The peer has acknowledged our SETTINGS.
    is_settings_acked: bool,
    /// The peer's SETTINGS have come.
    is_peer_known: bool,
    peer: PeerSettings,
    decoder: Decoder,
    encoder: Encoder,
    streams: Streams,
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    /// A field block whose CONTINUATION is to come; nothing else may.
    block: Option<Box<PendingBlock>>,
    /// PRIORITY_UPDATE for streams that are still idle.
    idle_priorities: PriorityNotes,
    floods: Floods,
    /// Replies since the output was last empty.
    control_bytes: usize,
    ending: Ending,
    /// The highest stream of the peer's that the driver has heard of.
    last_processed: StreamId,
    is_peer_going_away: bool,
    stream_fault: Option<(StreamId, Reason)>,
    fault: Option<ConnectionError>,
    /// Streams whose rest is not wanted, to be told so by [`Connection::write_stops`].
    stops: Vec<StreamId>,
}

impl Connection {
    /// `extended_connect`: whether CONNECT may come with `:protocol` (RFC 8441 section 3).
    pub fn server(limits: Limits, extended_connect: bool) -> Connection {
        Connection::new(Role::Server, limits, extended_connect)
    }

    pub fn client(limits: Limits) -> Connection {
        Connection::new(Role::Client, limits, false)
    }

    /// After `Upgrade: h2c` (RFC 7540 section 3.2). `settings` is the decoded value of
    /// HTTP2-Settings. Stream 1 has the request, is ended by the client and owed a response; the
    /// client's preface is still to come.
    pub fn server_upgraded(limits: Limits, settings: &[u8]) -> Result<Connection, Reason> {
        let mut connection = Connection::server(limits, false);
        connection.peer.apply(settings, Role::Server)?;
        connection
            .encoder
            .set_table_bytes_max(connection.peer.header_table_bytes as usize);
        let mut stream = Stream::new(
            StreamId(1),
            connection.peer.initial_window_bytes,
            connection.limits.stream_window_bytes,
        );
        (stream.head_received, stream.remote_ended) = (true, true);
        connection.streams.note_used(stream.id);
        connection.streams.insert(stream, Priority::default());
        connection.last_processed = stream.id;
        Ok(connection)
    }

    fn new(role: Role, limits: Limits, extended_connect: bool) -> Connection {
        let limits = limits.normalized();
        Connection {
            role,
            limits,
            extended_connect,
            progress: if role == Role::Server {
                Progress::Preface
            } else {
                Progress::Settings
            },
            is_settings_acked: false,
            is_peer_known: false,
            peer: PeerSettings::new(),
            decoder: Decoder::new(limits.header_table_bytes as usize),
            encoder: Encoder::new(),
            streams: Streams::new(),
            send_window: SendWindow::new(window::INITIAL_BYTES),
            receive_window: ReceiveWindow::new(limits.connection_window_bytes),
            block: None,
            idle_priorities: PriorityNotes::default(),
            floods: Floods::default(),
            control_bytes: 0,
            ending: Ending::No,
            last_processed: StreamId::CONNECTION,
            is_peer_going_away: false,
            stream_fault: None,
            fault: None,
            stops: Vec::new(),
        }
    }

    /// Our preface (RFC 9113 section 3.4): the client's magic, SETTINGS, and a WINDOW_UPDATE for
    /// the connection, whose window SETTINGS can't change. Once, before anything else is sent.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if self.role == Role::Client {
            out.extend_from_slice(PREFACE);
        }
        settings::write(&self.limits, self.role, self.extended_connect, out);
        let more = self
            .limits
            .connection_window_bytes
            .saturating_sub(window::INITIAL_BYTES);
        if more > 0 {
            crate::frame::write_window_update(StreamId::CONNECTION, more, out);
        }
    }

    /// Everything appended so far has been written to the peer, so that nothing of
    /// `control_bytes_max` is used. Only needed where the output is not empty when
    /// [`Connection::receive`] is called.
    pub fn flushed(&mut self) {
        self.control_bytes = 0;
    }

    /// Tells clients that have their whole response to stop with their content (RFC 9113 section
    /// 8.1). To be called when what went before has been written: some clients (curl 7.88) forget a
    /// response that comes in one piece with the reset of its stream.
    pub fn write_stops(&mut self, out: &mut Vec<u8>) {
        self.stops
            .drain(..)
            .for_each(|stream| crate::frame::write_reset(stream, ErrorCode::NoError, out));
    }

    /// True if [`Connection::write_stops`] has something to write.
    pub fn has_stops(&self) -> bool {
        !self.stops.is_empty()
    }

    /// Streams with an entry: those that at least one side has not ended.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// True if more can be sent on a stream.
    pub fn is_open(&self, stream: StreamId) -> bool {
        self.streams
            .get(stream)
            .is_some_and(|stream| !stream.local_ended)
    }

    /// A field block has begun, and its CONTINUATION is still to come.
    pub fn is_in_field_block(&self) -> bool {
        self.block.is_some()
    }

    /// The reason of the last stream error of ours, for the log.
    pub fn stream_fault(&self) -> Option<(StreamId, Reason)> {
        self.stream_fault
    }

    /// Client: whether `:protocol` may be sent (RFC 8441 section 3).
    pub fn peer_allows_extended_connect(&self) -> bool {
        self.peer.connect_protocol
    }

    /// The peer's SETTINGS_MAX_HEADER_LIST_SIZE, an advice (RFC 9113 section 6.5.2).
    pub fn peer_header_list_bytes_max(&self) -> Option<u32> {
        self.peer.header_list_bytes_max
    }

    /// Gives back memory that streams of the past needed; for a connection that has been idle for a
    /// while.
    pub fn trim(&mut self) {
        self.streams.trim();
        self.idle_priorities.trim();
    }

    /// Streams that the other side did not open yet (RFC 9113 section 5.1). Nothing is pushed, so a
    /// server's streams stay idle.
    fn is_idle(&self, stream: StreamId) -> bool {
        !stream.is_of_client() || stream > self.streams.highest()
    }

    /// True if the driver still has to do with a stream. A server that has answered is done, unless
    /// both sides talk.
    fn is_of_interest(&self, stream: &Stream) -> bool {
        self.role == Role::Client || !stream.local_ended || stream.is_tunnel
    }
}

#[cfg(any(test, debug_assertions))]
impl Connection {
    /// Checks what must hold between any two calls; for tests and fuzzing, in builds with debug
    /// assertions.
    pub fn check_invariants(&self) {
        self.streams.check_invariants();
        assert!(
            self.role == Role::Client
                || self.streams.len() <= self.limits.concurrent_streams_max as usize
        );
        assert!(self.receive_window.left() <= self.limits.connection_window_bytes as i32);
    }
}

#[cfg(test)]
mod tests;
