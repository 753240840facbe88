//! The transport of a connection: a socket, plain or under TLS, with the same operations for both.
//!
//! Called by: the drivers, through `io`.
//! Caveat: under TLS a write is accepted when its records are encrypted; the part that the socket
//! does not accept is kept here, one write at most, and is sent with the next write or flush. An
//! idle connection owns no buffer: ciphertext passes through buffers of the thread.

use crate::freshness::ReadOrigin;
use saker_net::Stream;
use saker_tls::{Received, ServerSession, SessionInfo, State, TlsError};
use std::{
    cell::RefCell,
    fs::File,
    io::{self, IoSlice},
    os::unix::fs::FileExt,
    sync::Arc,
    task::{Context, Poll, ready},
};

pub enum Transport {
    Plain(Socket),
    Tls(Box<TlsStream>),
    /// Another driver has taken over.
    HandedOver,
}

/// A connection that knows where its last read came from.
pub struct Socket {
    stream: Stream,
    /// The last read filled its buffer: there may be more, which the next read takes without
    /// waiting.
    was_full: bool,
    /// The last read followed a wake-up of its own.
    by_wake_up: bool,
}

impl Socket {
    fn new(stream: Stream) -> Socket {
        Socket {
            stream,
            was_full: false,
            by_wake_up: false,
        }
    }

    pub fn into_stream(self) -> Stream {
        self.stream
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = self.stream.poll_read(cx, buf);
        self.note(&read, buf.len());
        read
    }

    fn poll_read_now(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = self.stream.poll_read_now(cx, buf);
        self.note(&read, buf.len());
        read
    }

    fn poll_read_behind(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let room = buf.capacity() - buf.len();
        let read = self.stream.poll_read_behind(cx, buf);
        self.note(&read, room);
        read
    }

    /// A read that does not fill its buffer makes the event loop forget that there is something, so
    /// that the one after it needs news.
    fn note(&mut self, read: &Poll<io::Result<usize>>, room: usize) {
        if let Poll::Ready(Ok(bytes)) = read {
            self.by_wake_up = !std::mem::replace(&mut self.was_full, *bytes == room);
        }
    }
}

/// A socket under TLS.
pub struct TlsStream {
    stream: Socket,
    /// The bytes of the last read were one record, received after a wake-up.
    by_wake_up: bool,
    session: ServerSession,
    /// Part of a record that has not come whole.
    partial: Vec<u8>,
    /// Decrypted, but more than the reader had room for.
    surplus: Vec<u8>,
    /// Made, not sent.
    unsent: Vec<u8>,
    unsent_from: usize,
    /// Time of the last send, on the clock of turns.
    sent_ms: u64,
    /// Nothing more comes from the peer.
    closed: bool,
    /// The peer has sent close_notify.
    peer_closed: bool,
}

/// Ciphertext requested by one recv: three full records, so that their content fits the reader's
/// buffer.
const CIPHER_BYTES: usize = 52 << 10;
/// Plaintext that one write takes.
const WRITE_BYTES_MAX: usize = 64 << 10;

/// Buffers shared by all connections of a thread.
struct Scratch {
    cipher: Box<[u8]>,
    plain: Vec<u8>,
    out: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> =
        RefCell::new(Scratch { cipher: Box::default(), plain: Vec::new(), out: Vec::new() });
}

/// Reason for a failed handshake.
pub enum HandshakeFailure {
    Gone,
    Fault(TlsError),
}

/// Progress of a handshake.
pub enum HandshakeStep {
    Done,
    /// A certificate for the client's name is being made: ask again in a while.
    AwaitsCertificate,
}

impl Transport {
    pub fn plain(stream: Stream) -> Transport {
        Transport::Plain(Socket::new(stream))
    }

    pub fn is_plain(&self) -> bool {
        matches!(self, Transport::Plain(_))
    }

    /// Origin of the bytes of the last read.
    pub fn origin(&self) -> ReadOrigin {
        let by_wake_up = match self {
            Transport::Plain(socket) => socket.by_wake_up,
            Transport::Tls(secured) => secured.by_wake_up,
            Transport::HandedOver => false,
        };
        if by_wake_up {
            ReadOrigin::WakeUp
        } else {
            ReadOrigin::Unknown
        }
    }

    /// The same, for another driver.
    pub fn hand_over(&mut self) -> Transport {
        std::mem::replace(self, Transport::HandedOver)
    }

    fn stream(&self) -> io::Result<&Stream> {
        match self {
            Transport::Plain(socket) => Ok(&socket.stream),
            Transport::Tls(secured) => Ok(&secured.stream.stream),
            Transport::HandedOver => Err(handed_over()),
        }
    }

    /// Ready when a read would not have to wait.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(socket) => socket.stream.poll_readable(cx),
            Transport::Tls(secured)
                if !secured.surplus.is_empty() || !secured.unsent.is_empty() || secured.closed =>
            {
                Poll::Ready(Ok(()))
            }
            Transport::Tls(secured) => secured.stream.stream.poll_readable(cx),
            Transport::HandedOver => Poll::Ready(Err(handed_over())),
        }
    }

    /// `Ready(Ok(0))` is the end of the stream.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(socket) => socket.poll_read(cx, buf),
            Transport::Tls(secured) => secured.poll_read(cx, buf),
            Transport::HandedOver => Poll::Ready(Err(handed_over())),
        }
    }

    /// Reads in a task that was woken for input; see [`Stream::poll_read_now`].
    pub fn poll_read_now(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(socket) => socket.poll_read_now(cx, buf),
            Transport::Tls(secured) => secured.poll_read(cx, buf),
            Transport::HandedOver => Poll::Ready(Err(handed_over())),
        }
    }

    /// Reads into the space after the content of `buf`, through `scratch` if that space must be
    /// cleared first.
    pub fn poll_read_behind(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        scratch: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if let Transport::Plain(socket) = self {
            return socket.poll_read_behind(cx, buf);
        }
        let room = scratch.len().min(buf.capacity() - buf.len());
        let read = ready!(self.poll_read(cx, &mut scratch[..room]))?;
        buf.extend_from_slice(&scratch[..read]);
        Poll::Ready(Ok(read))
    }

    /// Writes as much as possible at once, without leaving a waker.
    pub fn write_now(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(socket) => socket.stream.write_now(buf),
            Transport::Tls(secured) => secured.write_now(&[buf]),
            Transport::HandedOver => Err(handed_over()),
        }
    }

    pub fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(socket) => socket.stream.poll_write(cx, buf),
            Transport::Tls(secured) => secured.poll_write(cx, &[buf]),
            Transport::HandedOver => Poll::Ready(Err(handed_over())),
        }
    }

    pub fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(socket) => socket
                .stream
                .poll_write_vectored(cx, &[IoSlice::new(first), IoSlice::new(second)]),
            Transport::Tls(secured) => secured.poll_write(cx, &[first, second]),
            Transport::HandedOver => Poll::Ready(Err(handed_over())),
        }
    }

    /// Like [`Transport::poll_write`], for callers that send more at once.
    pub fn poll_send_more_now(
        &mut self,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(socket) => socket.stream.poll_send_more_now(cx, buf),
            Transport::Tls(secured) => secured.poll_hold(cx, buf),
            Transport::HandedOver => Poll::Ready(Err(handed_over())),
        }
    }

    /// Sends part of a file; `Ready(Ok(0))` with `count > 0`: it ends before `offset`.
    pub fn poll_sendfile(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        match self {
            Transport::Plain(socket) => socket.stream.poll_sendfile(cx, file, offset, count),
            Transport::Tls(secured) => secured.poll_send_file(cx, file, offset, count),
            Transport::HandedOver => Poll::Ready(Err(handed_over())),
        }
    }

    /// Ready when nothing is kept back here.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Transport::Tls(secured) => secured.poll_flush(cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    pub fn has_unsent(&self) -> bool {
        match self {
            Transport::Tls(secured) => !secured.unsent.is_empty(),
            _ => false,
        }
    }

    /// Says that nothing more will come from us: close_notify, then the end of the TCP stream.
    pub fn shutdown_write(&mut self) -> io::Result<()> {
        if let Transport::Tls(secured) = self {
            secured.send_close();
        }
        self.stream()?.shutdown_write()
    }

    /// See [`Stream::is_hung_up`].
    pub fn is_hung_up(&self) -> bool {
        self.stream().is_ok_and(Stream::is_hung_up)
    }

    pub fn reset_on_drop(&self) -> io::Result<()> {
        self.stream()?.reset_on_drop()
    }

    /// Answers the peer's close_notify with our own (RFC 8446 section 6.1). Does nothing on a
    /// truncated connection.
    pub fn answer_close_notify(&mut self) {
        if let Transport::Tls(secured) = self
            && secured.peer_closed
        {
            secured.send_close();
        }
    }

    /// The last words on an orderly end: close_notify. Nothing on a plain connection.
    pub fn send_close_notify(&mut self) {
        if let Transport::Tls(secured) = self {
            secured.send_close();
        }
    }
}

fn handed_over() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl TlsStream {
    /// `input`: bytes of the handshake that have been read already.
    pub fn new(stream: Stream, session: ServerSession, input: Vec<u8>) -> TlsStream {
        TlsStream {
            stream: Socket::new(stream),
            by_wake_up: false,
            session,
            partial: input,
            surplus: Vec::new(),
            unsent: Vec::new(),
            unsent_from: 0,
            sent_ms: 0,
            closed: false,
            peer_closed: false,
        }
    }

    pub fn info(&self) -> Option<&Arc<SessionInfo>> {
        self.session.info()
    }

    /// The socket under it, for an answer in the clear.
    pub fn into_stream(self) -> Stream {
        self.stream.into_stream()
    }

    /// The same with the bytes that have come, none of which is of TLS.
    pub fn into_plain(self) -> (Stream, Vec<u8>) {
        (self.stream.into_stream(), self.partial)
    }

    /// Continues the handshake. Bytes after it are kept for the first read; our last flight is sent
    /// with the first write, or with the first read that has to wait.
    pub fn poll_handshake(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<HandshakeStep, HandshakeFailure>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut fed = self.partial.is_empty();
            loop {
                if !self.session.is_handshaking() {
                    return Poll::Ready(Ok(HandshakeStep::Done));
                }
                ready!(self.poll_flush(cx)).map_err(|_| HandshakeFailure::Gone)?;
                let kept = self.restore(scratch);
                // Bytes that were there before are processed before more are read.
                let read = match std::mem::replace(&mut fed, true) {
                    false => 0,
                    true => {
                        match ready!(self.stream.poll_read_now(cx, &mut scratch.cipher[kept..])) {
                            Ok(0) | Err(_) => return Poll::Ready(Err(HandshakeFailure::Gone)),
                            Ok(read) => read,
                        }
                    }
                };
                if let Err(fault) = self.feed(scratch, kept + read) {
                    if fault == TlsError::PlainHttp {
                        // For an answer to it.
                        self.partial = scratch.cipher[..kept + read].to_vec();
                    }
                    let _ = self
                        .stream
                        .stream
                        .write_now(&self.unsent[self.unsent_from..]);
                    return Poll::Ready(Err(HandshakeFailure::Fault(fault)));
                }
                self.surplus.extend_from_slice(&scratch.plain);
                if self.session.awaits_certificate() {
                    return Poll::Ready(Ok(HandshakeStep::AwaitsCertificate));
                }
            }
        })
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.by_wake_up = false;
        if !self.surplus.is_empty() {
            return Poll::Ready(Ok(self.take_surplus(buf)));
        }
        // The peer may be waiting for unsent bytes before it responds, so they are sent first.
        if !self.unsent.is_empty()
            && let Poll::Ready(Err(error)) = self.poll_flush(cx)
        {
            return Poll::Ready(Err(error));
        }
        SCRATCH.with_borrow_mut(|scratch| {
            loop {
                if self.closed {
                    return Poll::Ready(Ok(0));
                }
                if ready!(self.poll_record(cx, scratch))? == 0 {
                    // The end of the TCP stream without close_notify: earlier content is intact,
                    // because every record is (RFC 8446 section 6.1).
                    self.closed = true;
                }
                if !scratch.plain.is_empty() {
                    return Poll::Ready(Ok(self.give(&scratch.plain, buf)));
                }
            }
        })
    }

    /// Copies kept bytes to the beginning of the scratch buffer; returns their number.
    fn restore(&self, scratch: &mut Scratch) -> usize {
        if scratch.cipher.is_empty() {
            scratch.cipher = vec![0; CIPHER_BYTES].into();
        }
        scratch.cipher[..self.partial.len()].copy_from_slice(&self.partial);
        self.partial.len()
    }

    /// Receives once and decrypts complete records; returns the number of bytes read.
    fn poll_record(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &mut Scratch,
    ) -> Poll<io::Result<usize>> {
        let kept = self.restore(scratch);
        let read = ready!(self.stream.poll_read_now(cx, &mut scratch.cipher[kept..]))?;
        self.by_wake_up = self.stream.by_wake_up && is_one_record(&scratch.cipher[..kept + read]);
        match self.feed(scratch, kept + read) {
            Ok(()) => Poll::Ready(Ok(read)),
            Err(fault) => {
                // The alert; it is not waited for.
                let _ = self
                    .stream
                    .stream
                    .write_now(&self.unsent[self.unsent_from..]);
                Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    fault.to_string(),
                )))
            }
        }
    }

    /// Hands the first `bytes` of the scratch buffer to the session.
    fn feed(&mut self, scratch: &mut Scratch, bytes: usize) -> Result<(), TlsError> {
        scratch.plain.clear();
        scratch.out.clear();
        let bytes = &mut scratch.cipher[..bytes];
        let received = self
            .session
            .receive(bytes, &mut scratch.plain, &mut scratch.out);
        self.unsent.extend_from_slice(&scratch.out);
        let Received { used, state } = received?;
        self.peer_closed |= state == State::Closed;
        self.closed |= self.peer_closed;
        set_aside(&mut self.partial, &bytes[used..]);
        Ok(())
    }

    fn give(&mut self, plain: &[u8], buf: &mut [u8]) -> usize {
        let taken = plain.len().min(buf.len());
        buf[..taken].copy_from_slice(&plain[..taken]);
        self.surplus.extend_from_slice(&plain[taken..]);
        taken
    }

    fn take_surplus(&mut self, buf: &mut [u8]) -> usize {
        let taken = self.surplus.len().min(buf.len());
        buf[..taken].copy_from_slice(&self.surplus[..taken]);
        set_aside_rest(&mut self.surplus, taken);
        taken
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, parts: &[&[u8]]) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(cx))?;
        Poll::Ready(self.write_now(parts))
    }

    /// Encrypts the parts and sends as much as the socket accepts.
    fn write_now(&mut self, parts: &[&[u8]]) -> io::Result<usize> {
        if self.unsent.len() - self.unsent_from > HELD_BYTES_MAX {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.out.clear();
            // Held-back bytes (the end of the handshake, for example) are sent with the same system
            // call.
            scratch
                .out
                .extend_from_slice(&self.unsent[self.unsent_from..]);
            self.forget_unsent();
            let taken = self.encrypt(parts, &mut scratch.out)?;
            self.send_or_keep(&scratch.out)?;
            Ok(taken)
        })
    }

    fn encrypt(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> io::Result<usize> {
        let now_ms = saker_net::clock::turn_ms();
        if now_ms.saturating_sub(std::mem::replace(&mut self.sent_ms, now_ms)) >= QUIET_MS {
            self.session.after_idle();
        }
        let mut room = WRITE_BYTES_MAX;
        let mut cut = [&[][..]; 2];
        for (slot, part) in cut.iter_mut().zip(parts) {
            *slot = &part[..part.len().min(room)];
            room -= slot.len();
        }
        self.session
            .send_parts(&cut, out)
            .map_err(|fault| io::Error::other(fault.to_string()))?;
        Ok(WRITE_BYTES_MAX - room)
    }

    /// Makes records and keeps them for the write that follows at once.
    fn poll_hold(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(cx))?;
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.out.clear();
            let taken = self.encrypt(&[buf], &mut scratch.out)?;
            self.keep_unsent(&scratch.out);
            Poll::Ready(Ok(taken))
        })
    }

    /// Sends the piece of the file after held-back bytes (a head), with the same system call.
    fn poll_send_file(
        &mut self,
        cx: &mut Context<'_>,
        file: &File,
        offset: u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        if self.unsent.len() - self.unsent_from > HELD_BYTES_MAX {
            ready!(self.poll_flush(cx))?;
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let Scratch { plain, out, .. } = scratch;
            plain.resize(count.min(WRITE_BYTES_MAX), 0);
            let read = read_at(file, plain, offset)?;
            out.clear();
            out.extend_from_slice(&self.unsent[self.unsent_from..]);
            self.forget_unsent();
            let taken = self.encrypt(&[&plain[..read]], out)?;
            self.send_or_keep(out)?;
            Poll::Ready(Ok(taken))
        })
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let sent = ready!(
                self.stream
                    .stream
                    .poll_write(cx, &self.unsent[self.unsent_from..])
            )?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unsent_from += sent;
            if self.unsent_from == self.unsent.len() {
                self.forget_unsent();
            }
        }
        Poll::Ready(Ok(()))
    }

    fn send_or_keep(&mut self, out: &[u8]) -> io::Result<()> {
        let sent = match self.stream.stream.write_now(out) {
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        self.keep_unsent(&out[sent..]);
        Ok(())
    }

    fn keep_unsent(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
    }

    fn forget_unsent(&mut self) {
        self.unsent = Vec::new();
        self.unsent_from = 0;
    }

    fn send_close(&mut self) {
        let mut out = self.unsent.split_off(self.unsent_from);
        self.forget_unsent();
        self.session.close(&mut out);
        // Does not wait: bytes that the socket does not accept are lost with the connection.
        let _ = self.stream.stream.write_now(&out);
    }
}

/// Time without sending after which TCP's congestion window is no longer known to be large; see
/// [`ServerSession::after_idle`].
const QUIET_MS: u64 = 1_000;
/// Maximum number of bytes that wait for the file behind them: a head.
const HELD_BYTES_MAX: usize = 36 << 10;

/// RFC 8446 section 5.1: type, version, length.
fn is_one_record(bytes: &[u8]) -> bool {
    matches!(bytes, [_, _, _, high, low, ..] if usize::from(u16::from_be_bytes([*high, *low])) + 5 == bytes.len())
}

fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match file.read_at(buf, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Keeps `rest`, without memory if it is empty.
fn set_aside(kept: &mut Vec<u8>, rest: &[u8]) {
    if rest.is_empty() {
        if kept.capacity() > 0 {
            *kept = Vec::new();
        }
        return;
    }
    kept.clear();
    kept.extend_from_slice(rest);
}

fn set_aside_rest(kept: &mut Vec<u8>, taken: usize) {
    if taken == kept.len() {
        *kept = Vec::new();
    } else {
        kept.drain(..taken);
    }
}
