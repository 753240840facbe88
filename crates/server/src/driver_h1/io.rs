//! The stream of a connection with what was read from it and not used yet.

use crate::worker::Worker;
use saker_net::Stream;
use std::{
    io,
    task::{Context, Poll, ready},
};

pub struct Io {
    pub stream: Stream,
    /// Read, not used. Empty, and without memory, while the connection is idle.
    pub input: Vec<u8>,
}

impl Io {
    pub fn new(stream: Stream, input: Vec<u8>) -> Io {
        Io { stream, input }
    }

    /// Drops what has been used.
    pub fn consume(&mut self, bytes: usize) {
        if bytes >= self.input.len() {
            self.input = Vec::new();
        } else {
            self.input.drain(..bytes);
        }
    }

    /// Reads and throws away until the end of the stream, an error, or `left` bytes.
    pub fn poll_discard(&mut self, cx: &mut Context<'_>, worker: &Worker, left: &mut usize) -> Poll<()> {
        self.input = Vec::new();
        loop {
            let mut buffers = worker.buffers.borrow_mut();
            let read: io::Result<usize> = ready!(self.stream.poll_read(cx, &mut buffers.read));
            match read {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(bytes) if bytes >= *left => return Poll::Ready(()),
                Ok(bytes) => *left -= bytes,
            }
        }
    }
}
