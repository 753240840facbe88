//! Tunnels after 101: connections that only pass bytes, with the time limit of their exchange.
//!
//! Caveat: memory matters, as tunnels are idle for hours, and there are thousands of them. So a
//! tunnel holds only its connection, a deadline, and the bytes read after the response's head until
//! they are consumed; nothing of the exchange stays.

use crate::{exchange_context::IdleLimit, pool::Connection};
use saker_pipeline::{RequestLogContext, Tunnel};
use saker_telemetry::{error_log, message};
use std::{
    any::Any,
    io,
    task::{Context, Poll, ready},
};

pub struct ProgramTunnel {
    connection: Connection,
    /// Read behind the head.
    ahead: Vec<u8>,
    /// Bytes of the request not yet sent when the response arrived.
    owed: Vec<u8>,
    limit: IdleLimit,
    client: RequestLogContext,
    /// Guard that counts the request as active.
    _held: Box<dyn Any>,
}

impl ProgramTunnel {
    pub fn new(
        connection: Connection,
        ahead: Vec<u8>,
        owed: Vec<u8>,
        limit: IdleLimit,
        client: RequestLogContext,
        held: Box<dyn Any>,
    ) -> ProgramTunnel {
        limit.push();
        ProgramTunnel {
            connection,
            ahead,
            owed,
            limit,
            client,
            _held: held,
        }
    }

    /// Any byte, in either direction, moves the limit.
    fn moved(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(polled, Poll::Ready(Ok(bytes)) if bytes > 0) {
            self.limit.push();
        }
        polled
    }

    fn poll_owed(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.owed.is_empty() {
            let Some(transport) = self.connection.transport() else {
                return Poll::Ready(Err(gone()));
            };
            match ready!(transport.poll_write(cx, &self.owed))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent if sent >= self.owed.len() => self.owed = Vec::new(),
                sent => drop(self.owed.drain(..sent)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Tunnel for ProgramTunnel {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        if !self.ahead.is_empty() {
            let bytes = self.ahead.len().min(buf.len());
            let rest = self.ahead.split_off(bytes);
            if let Some(place) = buf.get_mut(..bytes) {
                place.copy_from_slice(&self.ahead);
            }
            self.ahead = rest;
            return Poll::Ready(Ok(bytes));
        }
        let Some(transport) = self.connection.transport() else {
            return Poll::Ready(Err(gone()));
        };
        let polled = transport.poll_read(cx, buf);
        if let Poll::Ready(Err(error)) = &polled {
            let name = self
                .connection
                .backend()
                .map(ToString::to_string)
                .unwrap_or_default();
            error_log::log_about(
                &message::PROGRAM_CUT,
                &self.client,
                format_args!("{name}: {error}"),
            );
        }
        self.moved(polled)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = match self.poll_owed(cx) {
            Poll::Ready(Ok(())) => match self.connection.transport() {
                Some(transport) => transport.poll_write(cx, buf),
                None => Poll::Ready(Err(gone())),
            },
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        };
        self.moved(polled)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_owed(cx))?;
        match self.connection.transport() {
            Some(transport) => transport.poll_flush(cx),
            None => Poll::Ready(Err(gone())),
        }
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.connection
            .transport()
            .map_or_else(|| Err(gone()), crate::transport::Transport::shutdown)
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.limit.is_over() {
            return Poll::Ready(());
        }
        self.limit.register(cx);
        Poll::Pending
    }
}

fn gone() -> io::Error {
    io::ErrorKind::NotConnected.into()
}
