//! A socket to a backend under TLS, with the verbs of a transport.
//!
//! Difficulty: what is written and what goes to the socket differ. A write is taken when its
//! records are made; what the socket does not take then is kept, one write at most, and goes first
//! the next time.

use crate::failure::Failure;
use saker_net::Stream;
use saker_tls::{ClientSession, ClientTls, TlsError};
use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    net::SocketAddr,
    task::{Context, Poll, ready},
};

/// Asked for by one read: some full records.
const CIPHER_BYTES: usize = 32 << 10;

thread_local! {
    static CIPHER: RefCell<Box<[u8]>> = RefCell::new(vec![0; CIPHER_BYTES].into());
}

pub struct UpstreamTlsStream {
    stream: Stream,
    session: ClientSession,
    /// Decrypted, not read.
    surplus: Vec<u8>,
    /// Made, not sent.
    unsent: Vec<u8>,
    is_closed: bool,
}

impl UpstreamTlsStream {
    /// Shakes hands. `protocol`: what the server has to agree to speak, where that can't be left
    /// open.
    pub async fn connect(
        stream: Stream,
        tls: &ClientTls,
        protocol: Option<&[u8]>,
    ) -> Result<UpstreamTlsStream, Failure> {
        let session = tls.session().map_err(Failure::Tls)?;
        let mut secured = UpstreamTlsStream {
            stream,
            session,
            surplus: Vec::new(),
            unsent: Vec::new(),
            is_closed: false,
        };
        secured.session.transmit(&mut secured.unsent);
        poll_fn(|cx| secured.poll_handshake(cx)).await?;
        match protocol {
            Some(protocol) if secured.session.alpn() != Some(protocol) => Err(Failure::Unspoken),
            _ => Ok(secured),
        }
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        loop {
            ready!(self.poll_flush(cx)).map_err(Failure::Unreachable)?;
            if !self.session.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            match ready!(self.poll_records(cx)) {
                Ok(()) if self.is_closed => {
                    return Poll::Ready(Err(Failure::Unreachable(
                        io::ErrorKind::UnexpectedEof.into(),
                    )));
                }
                Ok(()) => {}
                Err(Broken::Io(error)) => return Poll::Ready(Err(Failure::Unreachable(error))),
                Err(Broken::Tls(fault)) => return Poll::Ready(Err(Failure::Tls(fault))),
            }
        }
    }

    /// One read, and what it completes.
    fn poll_records(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        CIPHER.with_borrow_mut(|cipher| {
            let bytes = ready!(self.stream.poll_read_now(cx, cipher)).map_err(Broken::Io)?;
            if bytes == 0 {
                // TCP's end without TLS's (RFC 8446 section 6.1): what goes to the end of the
                // connection may have been cut.
                self.is_closed = true;
                return Poll::Ready(Err(Broken::Io(io::ErrorKind::UnexpectedEof.into())));
            }
            let received = self.session.receive(
                cipher.get(..bytes).unwrap_or_default(),
                &mut self.surplus,
                &mut self.unsent,
            );
            if received.is_err() {
                // Sends the alert; delivery isn't awaited.
                let _ = self.stream.write_now(&self.unsent);
            }
            self.is_closed |= received.map_err(Broken::Tls)?;
            Poll::Ready(Ok(()))
        })
    }

    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            if !self.surplus.is_empty() {
                let bytes = self.surplus.len().min(buf.len());
                let rest = self.surplus.split_off(bytes);
                if let Some(place) = buf.get_mut(..bytes) {
                    place.copy_from_slice(&self.surplus);
                }
                self.surplus = rest;
                return Poll::Ready(Ok(bytes));
            }
            if self.is_closed {
                return Poll::Ready(Ok(0));
            }
            // A reader waiting for a response must not hold back its own output.
            if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
                return Poll::Ready(Err(error));
            }
            ready!(self.poll_records(cx)).map_err(|broken| match broken {
                Broken::Io(error) => error,
                Broken::Tls(fault) => io::Error::new(io::ErrorKind::InvalidData, fault.to_string()),
            })?;
        }
    }

    pub fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(cx))?;
        let taken = self.session.send(buf, &mut self.unsent);
        if taken == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        match self.poll_flush(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(taken)),
        }
    }

    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let sent = match self.stream.write_now(&self.unsent) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.stream.poll_write(cx, &self.unsent))?
                }
                result => result?,
            };
            match sent {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent if sent >= self.unsent.len() => self.unsent = Vec::new(),
                sent => drop(self.unsent.drain(..sent)),
            }
        }
        Poll::Ready(Ok(()))
    }

    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.stream.peer_address()
    }

    pub fn local_address(&self) -> Option<SocketAddr> {
        self.stream.local_address().ok().flatten()
    }

    pub fn shutdown(&mut self) -> io::Result<()> {
        self.session.close(&mut self.unsent);
        // Delivery isn't awaited.
        let _ = self.stream.write_now(&self.unsent);
        self.unsent = Vec::new();
        self.stream.shutdown_write()
    }
}

enum Broken {
    Io(io::Error),
    Tls(TlsError),
}
