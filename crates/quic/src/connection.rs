//! One QUIC connection as a driver sees it: events in, streams to read and write.
//!
//! Any call here may queue packets; the endpoint loop sends them when it settles the connection
//! after the driver's turn. Streams are named by their number on the wire (RFC 9000 section 2.1).
//!
//! Caveat: in 0-RTT, data may be a replay of what a client once sent; [`Connection::is_early`]
//! returns true while that is possible. Once the handshake is complete, it no longer is (RFC 8470
//! section 3).

use crate::{
    Settings,
    crypto::Hello,
    receive_window::{Promised, ReceiveWindow},
    settings::{SEND_BUFFER_BYTES_FIRST, code},
};
use bytes::Bytes;
use quinn_proto::{
    ConnectionError, Dir, ReadError, SendStream, Side, StreamEvent, StreamId, VarInt, WriteError,
};
use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

pub struct Connection {
    pub(crate) inner: quinn_proto::Connection,
    /// Time of the turn, set by the caller that starts the turn.
    pub(crate) now: Instant,
    send_buffer_bytes: u64,
    send_buffer_bytes_max: u64,
    /// Server connections only; clients size their windows by other criteria.
    receive_window: Option<ReceiveWindow>,
    /// Why it is over, and the code that we closed it with.
    pub(crate) lost: Option<Lost>,
    pub(crate) closed_with: Option<u64>,
    /// The address that the handshake is held with.
    first_peer: SocketAddr,
    /// It is the sender's own, by a token, since the first packet.
    is_peer_proved: bool,
}

#[derive(Debug, PartialEq)]
pub enum Event {
    /// The client's names are known, and streams may come, early ones first. Comes once, before all
    /// others.
    Hello,
    /// The handshake is over: the client is where it says, and nothing that comes is a replay.
    Established,
    /// [`Connection::accept`] has something.
    Opened {
        bidirectional: bool,
    },
    Readable(u64),
    Writable(u64),
    /// All that was written, and its end, has arrived.
    Delivered(u64),
    /// STOP_SENDING: the peer wants no more of it. Nothing can be written any more; quinn-proto has
    /// sent the reset.
    Stopped {
        stream: u64,
        code: u64,
    },
    /// More streams of ours may be opened.
    MayOpen {
        bidirectional: bool,
    },
    /// The last event.
    Lost(Lost),
}

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nothing came for as long as was agreed.
    TimedOut,
    /// CONNECTION_CLOSE of the application (HTTP/3's codes).
    ClosedByPeer { code: u64, reason: Bytes },
    /// CONNECTION_CLOSE of the peer's transport.
    AbortedByPeer { code: u64, reason: Bytes },
    /// A stateless reset: the peer has forgotten us.
    Reset,
    /// The peer did what QUIC or TLS forbids.
    Fault { code: u64, reason: String },
    /// We closed it.
    ByUs,
}

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    /// As much as was asked for; there may be more.
    More,
    /// All that has come; [`Event::Readable`] tells of more.
    Blocked,
    /// The stream's end has been read.
    End,
    /// RESET_STREAM, with its code; what had come is lost.
    Reset(u64),
    /// No such stream, or its end or reset was read before.
    Gone,
}

/// Result of a write.
#[derive(Debug, PartialEq, Eq)]
pub enum Written {
    /// So many bytes; 0 only where there were none to write.
    Bytes(usize),
    /// No room; [`Event::Writable`] tells of some.
    Blocked,
    /// The peer stopped the stream, with its code.
    Stopped(u64),
    Gone,
}

/// For logs and status.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub rtt: Duration,
    pub congestion_window_bytes: u64,
    /// Window at the end of slow start; `None` while slow start lasts or if the controller does not
    /// report it.
    pub slow_start_threshold_bytes: Option<u64>,
    pub packets_sent: u64,
    pub packets_lost: u64,
    pub congestion_events: u64,
    pub datagram_bytes: u16,
    /// Bytes that the peer may have in flight to us; 0 on the client side.
    pub receive_window_bytes: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

impl Connection {
    pub(crate) fn new(
        inner: quinn_proto::Connection,
        now: Instant,
        settings: &Settings,
        is_peer_proved: bool,
    ) -> Connection {
        let (first, max) = (
            settings.connection_window_bytes.into(),
            settings.connection_window_bytes_max.into(),
        );
        let receive_window = || ReceiveWindow::new(first, max, settings.stream_window_bytes.into());
        let receive_window = inner.side().is_server().then(receive_window);
        let send_buffer_bytes_max = settings.send_buffer_bytes_max;
        let send_buffer_bytes = SEND_BUFFER_BYTES_FIRST;
        let first_peer = inner.remote_address();
        Connection {
            inner,
            now,
            first_peer,
            is_peer_proved,
            send_buffer_bytes,
            send_buffer_bytes_max,
            receive_window,
            lost: None,
            closed_with: None,
        }
    }

    /// Returns the next event since the last call. Call until `None` in each turn.
    pub fn poll_event(&mut self) -> Option<Event> {
        use quinn_proto::Event as Their;
        loop {
            return Some(match self.inner.poll()? {
                Their::HandshakeDataReady => Event::Hello,
                Their::Connected => Event::Established,
                Their::ConnectionLost { reason } => {
                    let lost = Lost::from(reason);
                    self.lost = Some(lost.clone());
                    Event::Lost(lost)
                }
                Their::Stream(event) => Event::from(event),
                Their::DatagramReceived | Their::DatagramsUnblocked => continue,
            });
        }
    }

    /// Returns the parameters that TLS negotiated; `None` before [`Event::Hello`]. Allocates.
    pub fn hello(&self) -> Option<Hello> {
        self.inner
            .crypto_session()
            .handshake_data()?
            .downcast()
            .ok()
            .map(|hello| *hello)
    }

    /// The handshake is not over: what comes may be a replay of 0-RTT.
    pub fn is_early(&self) -> bool {
        self.inner.is_handshaking()
    }

    /// Returns true if either side has closed the connection; packets may still have to be sent.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// The next stream that the peer has opened.
    pub fn accept(&mut self, bidirectional: bool) -> Option<u64> {
        self.inner
            .streams()
            .accept(direction(bidirectional))
            .map(u64::from)
    }

    /// `None`: the peer allows no more for now.
    pub fn open(&mut self, bidirectional: bool) -> Option<u64> {
        self.inner
            .streams()
            .open(direction(bidirectional))
            .map(u64::from)
    }

    /// Hands over what has come, in order, until `bytes_max` have been.
    pub fn read(&mut self, stream: u64, bytes_max: usize, mut take: impl FnMut(Bytes)) -> Read {
        let Some(id) = self.receiving(stream) else {
            return Read::Gone;
        };
        let mut receiving = self.inner.recv_stream(id);
        let Ok(mut chunks) = receiving.read(true) else {
            return Read::Gone;
        };
        let mut left = bytes_max;
        let read = loop {
            if left == 0 {
                break Read::More;
            }
            match chunks.next(left) {
                Ok(Some(chunk)) => {
                    left -= chunk.bytes.len();
                    take(chunk.bytes);
                }
                Ok(None) => break Read::End,
                Err(ReadError::Blocked) => break Read::Blocked,
                Err(ReadError::Reset(code)) => break Read::Reset(code.into_inner()),
            }
        };
        // Whether flow control has something to say is seen when the connection is settled.
        let _ = chunks.finalize();
        if let Some(window) = &mut self.receive_window {
            window.note(
                stream,
                (bytes_max - left) as u64,
                read == Read::More,
                self.now,
                self.inner.rtt(),
            );
        }
        read
    }

    /// Takes bytes by copying, as far as the peer's windows allow it, if they begin within what may
    /// be held for the peer: all of them then, since quinn-proto looks through all pieces that are
    /// unacknowledged for each packet that it makes. With pieces as small as what the last
    /// acknowledgement gave free it would look through thousands. So no more should be given at a
    /// time than may be held too much.
    pub fn write(&mut self, stream: u64, bytes: &[u8]) -> Written {
        self.write_all(stream, bytes.len(), |outgoing, taken| {
            outgoing.write(bytes.get(taken..).unwrap_or_default())
        })
    }

    /// The same without copying: what was taken is gone from the chunk.
    pub fn write_chunk(&mut self, stream: u64, chunk: &mut Bytes) -> Written {
        self.write_all(stream, chunk.len(), |outgoing, _| {
            outgoing
                .write_chunks(std::slice::from_mut(chunk))
                .map(|written| written.bytes)
        })
    }

    fn write_all(
        &mut self,
        stream: u64,
        all: usize,
        mut some: impl FnMut(&mut SendStream<'_>, usize) -> Result<usize, WriteError>,
    ) -> Written {
        let Some(id) = self.sending(stream) else {
            return Written::Gone;
        };
        let first = some(&mut self.inner.send_stream(id), 0);
        let Some(taken) = first.as_ref().ok().copied().filter(|taken| *taken < all) else {
            return written(first);
        };
        self.inner
            .set_send_window(self.send_buffer_bytes.saturating_add(all as u64));
        // What is not taken now is held up by the peer, which is heard of the next time.
        let more = some(&mut self.inner.send_stream(id), taken).unwrap_or(0);
        self.inner.set_send_window(self.send_buffer_bytes);
        Written::Bytes(taken + more)
    }

    /// The end of what we send. `false`: the peer has stopped it, or it is gone.
    pub fn finish(&mut self, stream: u64) -> bool {
        self.sending(stream)
            .is_some_and(|id| self.inner.send_stream(id).finish().is_ok())
    }

    /// RESET_STREAM: gives up sending; what has not arrived is lost.
    pub fn reset(&mut self, stream: u64, error: u64) {
        if let Some(id) = self.sending(stream) {
            // Gone already is as good.
            let _ = self.inner.send_stream(id).reset(code(error));
        }
    }

    /// STOP_SENDING: gives up reading.
    pub fn stop(&mut self, stream: u64, error: u64) {
        if let Some(id) = self.receiving(stream) {
            let _ = self.inner.recv_stream(id).stop(code(error));
            self.receive_window
                .iter_mut()
                .for_each(|window| window.forget(stream));
        }
    }

    /// Streams of higher priority are sent first, those of the same take turns.
    pub fn prioritize(&mut self, stream: u64, priority: i32) {
        if let Some(id) = self.sending(stream) {
            let _ = self.inner.send_stream(id).set_priority(priority);
        }
    }

    /// Streams on which something that was written may not have arrived; those that are never ended
    /// count, too.
    pub fn streams_undelivered(&mut self) -> usize {
        self.inner.streams().send_streams()
    }

    /// CONNECTION_CLOSE of the application.
    pub fn close(&mut self, error: u64, reason: &str) {
        self.closed_with.get_or_insert(error);
        self.inner.close(
            self.now,
            code(error),
            Bytes::copy_from_slice(reason.as_bytes()),
        );
    }

    /// Has the peer answer, and keeps the path's state in between alive.
    pub fn ping(&mut self) {
        self.inner.ping();
    }

    /// New keys from now on (RFC 9001 section 6). quinn-proto makes them itself before old ones are
    /// worn out.
    pub fn update_keys(&mut self) {
        self.inner.force_key_update();
    }

    /// Current address of the peer, which may migrate.
    pub fn peer(&self) -> SocketAddr {
        self.inner.remote_address()
    }

    /// The address that the handshake is held with, which its end proves. The peer may have moved
    /// since, to one that is not proved yet.
    pub fn first_peer(&self) -> SocketAddr {
        self.first_peer
    }

    /// The address of ours that the peer talks to.
    pub fn local(&self) -> Option<IpAddr> {
        self.inner.local_ip()
    }

    pub fn rtt(&self) -> Duration {
        self.inner.rtt()
    }

    pub fn congestion_window_bytes(&self) -> u64 {
        self.inner.congestion_state().window()
    }

    /// Early data of this client was accepted (client's side), or was offered and can be read
    /// (server's).
    pub fn has_early_data(&self) -> bool {
        self.inner.accepted_0rtt() || self.inner.has_0rtt()
    }

    /// The handshake has begun with early data, and the client's address may be made up: nothing is
    /// to be done in its name yet. What came waits, and its events with it.
    pub fn is_unproved_early_data(&self) -> bool {
        !self.is_peer_proved && self.has_early_data() && self.is_early()
    }

    pub fn figures(&self) -> Figures {
        let stats = self.inner.stats();
        Figures {
            rtt: stats.path.rtt,
            congestion_window_bytes: stats.path.cwnd,
            slow_start_threshold_bytes: self
                .inner
                .congestion_state()
                .metrics()
                .ssthresh
                .filter(|threshold| *threshold < u64::MAX),
            packets_sent: stats.path.sent_packets,
            packets_lost: stats.path.lost_packets,
            congestion_events: stats.path.congestion_events,
            datagram_bytes: stats.path.current_mtu,
            receive_window_bytes: self
                .receive_window
                .as_ref()
                .map_or(0, ReceiveWindow::granted),
            bytes_in: stats.udp_rx.bytes,
            bytes_out: stats.udp_tx.bytes,
        }
    }

    /// Adapts the send buffer to the path: one window in flight and another to refill it from. With
    /// less, losses leave the congestion controller without data to probe with.
    pub(crate) fn adapt(&mut self) {
        let wanted = self
            .congestion_window_bytes()
            .saturating_mul(2)
            .clamp(SEND_BUFFER_BYTES_FIRST, self.send_buffer_bytes_max);
        if wanted > self.send_buffer_bytes {
            self.send_buffer_bytes = wanted;
            self.inner.set_send_window(wanted);
        }
    }

    /// Widens the receive window according to how fast the application reads.
    pub(crate) fn widen(&mut self, promised: &mut Promised, promised_max: u64) {
        let wider = self
            .receive_window
            .as_mut()
            .and_then(|window| window.widened(promised, promised_max));
        if let Some(bytes) = wider.and_then(|bytes| VarInt::from_u64(bytes).ok()) {
            self.inner.set_receive_window(bytes);
        }
    }

    pub(crate) fn give_back(&self, promised: &mut Promised) {
        self.receive_window
            .iter()
            .for_each(|window| window.give_back(promised));
    }

    /// Id of a stream that we may read, i.e. not one of our own unidirectional streams (quinn-proto
    /// treats reading those as a bug in the caller and panics).
    fn receiving(&self, stream: u64) -> Option<StreamId> {
        let id = stream_id(stream)?;
        (id.dir() == Dir::Bi || id.initiator() != self.side()).then_some(id)
    }

    fn sending(&self, stream: u64) -> Option<StreamId> {
        let id = stream_id(stream)?;
        (id.dir() == Dir::Bi || id.initiator() == self.side()).then_some(id)
    }

    fn side(&self) -> Side {
        self.inner.side()
    }
}

fn stream_id(stream: u64) -> Option<StreamId> {
    VarInt::from_u64(stream).ok().map(StreamId::from)
}

fn direction(bidirectional: bool) -> Dir {
    if bidirectional { Dir::Bi } else { Dir::Uni }
}

fn written(result: Result<usize, WriteError>) -> Written {
    match result {
        Ok(bytes) => Written::Bytes(bytes),
        Err(WriteError::Blocked) => Written::Blocked,
        Err(WriteError::Stopped(code)) => Written::Stopped(code.into_inner()),
        Err(WriteError::ClosedStream) => Written::Gone,
    }
}

impl From<StreamEvent> for Event {
    fn from(event: StreamEvent) -> Event {
        match event {
            StreamEvent::Opened { dir } => Event::Opened {
                bidirectional: dir == Dir::Bi,
            },
            StreamEvent::Readable { id } => Event::Readable(id.into()),
            StreamEvent::Writable { id } => Event::Writable(id.into()),
            StreamEvent::Finished { id } => Event::Delivered(id.into()),
            StreamEvent::Stopped { id, error_code } => Event::Stopped {
                stream: id.into(),
                code: error_code.into_inner(),
            },
            StreamEvent::Available { dir } => Event::MayOpen {
                bidirectional: dir == Dir::Bi,
            },
        }
    }
}

impl From<ConnectionError> for Lost {
    fn from(error: ConnectionError) -> Lost {
        match error {
            ConnectionError::TimedOut => Lost::TimedOut,
            ConnectionError::ApplicationClosed(close) => Lost::ClosedByPeer {
                code: close.error_code.into_inner(),
                reason: close.reason,
            },
            ConnectionError::ConnectionClosed(close) => Lost::AbortedByPeer {
                code: close.error_code.into(),
                reason: close.reason,
            },
            ConnectionError::Reset => Lost::Reset,
            ConnectionError::LocallyClosed => Lost::ByUs,
            ConnectionError::TransportError(error) => Lost::Fault {
                code: error.code.into(),
                reason: error.reason,
            },
            ConnectionError::VersionMismatch => Lost::Fault {
                code: 0,
                reason: "no version in common".into(),
            },
            ConnectionError::CidsExhausted => Lost::Fault {
                code: 0,
                reason: "no connection ids are left".into(),
            },
        }
    }
}
