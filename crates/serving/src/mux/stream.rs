//! The state of a stream beside the protocol machine's: its response body, its upload, its log
//! line.
//!
//! Called by: everything in this module.

use super::upload::Upload;
use crate::{
    pieces::Pieces,
    request::{Busy, Pace, Pending},
};
use saker_http::RequestHead;
use saker_pipeline::ClientAbort;
use saker_rate_limits::Counted;
use std::{
    cell::{Cell, RefCell},
    hash::Hasher,
    rc::Rc,
    task::Waker,
};
use tokio::task::AbortHandle;

#[derive(Default)]
pub struct Stream {
    /// The request's dispatch, until it has answered.
    pub dispatch: Option<DispatchTask>,
    /// The request's body, while it may still be read.
    pub upload: Option<Rc<RefCell<Upload>>>,
    /// The response's body.
    pub pieces: Option<Pieces>,
    pub pace: Option<Box<Pace>>,
    /// Waker of a stream that has waited.
    pub waker: Option<Waker>,
    /// The stream is not polled until it is woken.
    pub waits: bool,
    pub log: Option<Pending>,
    pub _busy: Option<Busy>,
    /// Its permits among the counted requests.
    pub _counted: Vec<Counted>,
    /// An extended CONNECT: the client's side stays open until the stream ends.
    pub is_connect: bool,
    /// State of the tunnel of an extended CONNECT.
    pub tunnel: Option<TunnelState>,
    /// Content bytes of the response so far.
    pub body_bytes: u64,
    /// Bytes including framing.
    pub bytes: u64,
}

impl Stream {
    /// Records the received content for the log.
    pub fn note_received(&self) {
        let Some(log) = &self.log else { return };
        match (&self.tunnel, &self.upload) {
            (Some(TunnelState::Open(received)), _) => log.received(received.get()),
            (_, Some(upload)) => {
                let mut upload = upload.borrow_mut();
                log.received(upload.received);
                log.request_trailers(upload.trailers_to_log.take());
            }
            (_, None) => {}
        }
    }
}

/// State of a tunnel.
pub enum TunnelState {
    /// The request is being dispatched; for a WebSocket, with the proof that the upstream owes.
    Asked { accept: Option<Vec<u8>> },
    /// Content is passed on.
    Open(Rc<Cell<u64>>),
}

/// A dispatch that is aborted with its stream, unless it may outlive its client.
pub struct DispatchTask {
    pub task: AbortHandle,
    pub client_abort: Rc<Cell<ClientAbort>>,
    /// The request, for the line of a client that leaves before the answer, where that tells it.
    pub asked: Option<Box<RequestHead>>,
    /// The request body that the task may still be waiting for; nothing of it will arrive.
    pub upload: Option<Rc<RefCell<Upload>>>,
}

impl Drop for DispatchTask {
    fn drop(&mut self) {
        let has_read = self
            .upload
            .as_ref()
            .is_none_or(|upload| upload.try_borrow().is_ok_and(|upload| upload.is_read()));
        if self.client_abort.get() != ClientAbort::Ignored || !has_read {
            self.task.abort();
        }
    }
}

/// Stream ids count up in steps of two or four: a multiplication spreads them well enough.
#[derive(Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        // Upwards only does a multiplication spread.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
