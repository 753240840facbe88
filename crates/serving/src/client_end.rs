//! The client's end of a tunnel or of a stream: its transport, with the bytes that were read before.
//!
//! Called by: the tunnels of HTTP/1, and `stream`.
//! Caveat: bytes pass through the buffer that the caller lends; nothing is held here.

use crate::{io::Io, worker::Worker};
use saker_pipeline::Tunnel;
use saker_telemetry::Metric;
use std::{
    io,
    rc::Rc,
    task::{Context, Poll},
};

/// The client's end.
pub struct ClientEnd {
    pub io: Io,
    pub worker: Rc<Worker>,
}

impl Tunnel for ClientEnd {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        // Bytes after the request's head.
        if !self.io.input.is_empty() {
            let bytes = self.io.input.len().min(buf.len());
            buf[..bytes].copy_from_slice(&self.io.input[..bytes]);
            self.io.consume(bytes);
            return Poll::Ready(Ok(bytes));
        }
        let polled = self.io.transport.poll_read_now(cx, buf);
        if let Poll::Ready(Ok(bytes)) = &polled {
            self.worker.counters.add(Metric::BytesIn, *bytes as u64);
        }
        polled
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = match self.io.transport.write_now(buf) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.io.transport.poll_write(cx, buf)
            }
            result => Poll::Ready(result),
        };
        if let Poll::Ready(Ok(bytes)) = &polled {
            self.worker.counters.add(Metric::BytesOut, *bytes as u64);
        }
        polled
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.transport.poll_flush(cx)
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.io.transport.shutdown_write()
    }
}
