//! What the driver knows of a stream beside the machine: its body on the way out, its upload, its log line.

use super::upload::Upload;
use crate::{
    pieces::Pieces,
    serving::{Busy, Pace, Pending},
};
use std::{cell::RefCell, hash::Hasher, rc::Rc, task::Waker};
use tokio::task::AbortHandle;

#[derive(Default)]
pub struct Stream {
    /// The request's walk, until it has answered.
    pub walk: Option<WalkTask>,
    /// The request's body, while somebody may read it.
    pub upload: Option<Rc<RefCell<Upload>>>,
    /// The response's body.
    pub pieces: Option<Pieces>,
    pub pace: Option<Pace>,
    /// Of a stream that has waited.
    pub waker: Option<Waker>,
    /// Nothing is asked of it until it is woken.
    pub waits: bool,
    pub log: Option<Pending>,
    pub _busy: Option<Busy>,
    /// Content of the response so far.
    pub body_bytes: u64,
    /// With framing.
    pub bytes: u64,
}

/// A walk that ends with its stream.
pub struct WalkTask(pub AbortHandle);

impl Drop for WalkTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Stream ids are odd numbers that count up: a multiplication spreads them well enough.
#[derive(Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
