//! The transport of a connection, with the bytes that were read and not yet used.
//!
//! Called by: the drivers of HTTP/1 and HTTP/2, and by `accept` before them.

use crate::{transport::Transport, worker::Worker};
use saker_http::{Fields, Status};
use saker_http1::encode_informational;
use saker_pipeline::InterimWriter;
use std::{
    future::poll_fn,
    io,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

pub struct Io {
    pub transport: Transport,
    /// Read, not used. Empty, and without memory, while the connection is idle.
    pub input: Vec<u8>,
    /// Interim responses (RFC 9110 section 15.2) that the transport has not taken yet. They go
    /// before everything else.
    pub interim: Vec<u8>,
}

impl Io {
    pub fn new(transport: Transport, input: Vec<u8>) -> Io {
        Io {
            transport,
            input,
            interim: Vec::new(),
        }
    }

    /// The same, for another driver.
    pub fn hand_over(&mut self) -> Io {
        Io {
            transport: self.transport.hand_over(),
            input: std::mem::take(&mut self.input),
            interim: std::mem::take(&mut self.interim),
        }
    }

    /// Drops used bytes.
    pub fn consume(&mut self, bytes: usize) {
        if bytes >= self.input.len() {
            self.input = Vec::new();
        } else {
            self.input.drain(..bytes);
        }
    }

    /// Writes queued interim responses.
    pub fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.interim.is_empty() {
            let written = ready!(self.transport.poll_write(cx, &self.interim))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.interim.drain(..written);
        }
        self.interim = Vec::new();
        Poll::Ready(Ok(()))
    }

    /// Reads and throws away until the end of the stream, an error, or `left` bytes.
    pub fn poll_discard(
        &mut self,
        cx: &mut Context<'_>,
        worker: &Worker,
        left: &mut usize,
    ) -> Poll<()> {
        self.input = Vec::new();
        loop {
            let mut buffers = worker.buffers.borrow_mut();
            let read: io::Result<usize> = ready!(self.transport.poll_read(cx, &mut buffers.read));
            match read {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(bytes) if bytes >= *left => return Poll::Ready(()),
                Ok(bytes) => *left -= bytes,
            }
        }
    }

    /// Says that nothing more will come, then reads on and throws away, so that a reset does not
    /// take our last words from the client (RFC 9112 section 9.6).
    pub async fn linger(&mut self, worker: &Worker, time: Duration, bytes_max: usize) {
        if self.transport.shutdown_write().is_err() {
            return;
        }
        let mut left = bytes_max;
        let drain = poll_fn(|cx| self.poll_discard(cx, worker, &mut left));
        let _ = tokio::time::timeout(time, drain).await;
    }
}

impl InterimWriter for Io {
    fn send_interim(&mut self, status: Status, fields: &Fields) {
        encode_informational(status, fields, &mut self.interim);
        // The next writer writes what is left, so nothing has to be woken.
        let _ = self.poll_interim(&mut Context::from_waker(Waker::noop()));
    }
}
