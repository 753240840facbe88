//! State and limits that all exchanges of a worker share, and the events that they produce.
//!
//! Called by: exchanges of connections and of streams, tunnels, and the code that reads responses.
//! Caveat: the read buffer is lent for one read at a time; nothing may hold it across an `await`.
//! Out of scope: everything that belongs to one exchange.

use saker_cgi::ResponseHead;
use saker_http::Fields;
use saker_net::{Deadline, Deadlines, clock};
use saker_pipeline::Chunk;
use std::{cell::RefCell, rc::Rc, task::Context};

/// Maximum size of one read.
pub const READ_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes that a request moves in one turn, each way, before others get theirs. Otherwise a
/// program that is always ready would occupy the worker forever.
pub const TURN_BYTES_MAX: usize = 128 << 10;

/// Room for most heads.
const OUT_BYTES: usize = 2048;
/// Buffers for requests that a worker keeps, and how long they may have become.
const OUT_KEPT_MAX: usize = 32;
const OUT_KEPT_BYTES_MAX: usize = 16 << 10;

/// Event from a program, from which the caller builds a response.
pub enum UpstreamEvent {
    Head(ResponseHead),
    Content(Chunk),
    Trailers(Fields),
    /// 101: the bytes that come from here on are another protocol's.
    Switched(ResponseHead),
    End,
}

/// State shared by a worker's exchanges.
#[derive(Clone)]
pub struct ExchangeContext {
    pub deadlines: Rc<Deadlines>,
    /// For reads: lent while there are bytes.
    pub scratch: Rc<RefCell<Box<[u8]>>>,
    /// Empty buffers for requests.
    spare_out: Rc<RefCell<Vec<Vec<u8>>>>,
}

impl ExchangeContext {
    pub fn new(deadlines: Rc<Deadlines>) -> ExchangeContext {
        ExchangeContext {
            deadlines,
            scratch: Rc::new(RefCell::new(vec![0; READ_BYTES_MAX].into())),
            spare_out: Rc::default(),
        }
    }

    /// An empty buffer for a request.
    pub fn out_buffer(&self) -> Vec<u8> {
        let spare = self.spare_out.borrow_mut().pop();
        spare.unwrap_or_else(|| Vec::with_capacity(OUT_BYTES))
    }

    /// Keeps the buffer for another request, if it has not grown much.
    pub fn keep_out_buffer(&self, mut buffer: Vec<u8>) {
        let mut spare = self.spare_out.borrow_mut();
        if (1..=OUT_KEPT_BYTES_MAX).contains(&buffer.capacity()) && spare.len() < OUT_KEPT_MAX {
            buffer.clear();
            spare.push(buffer);
        }
    }
}

/// Time without a byte. Moved by what is said, and looked at by the worker's ticker.
pub struct IdleLimit {
    deadlines: Rc<Deadlines>,
    deadline: Rc<Deadline>,
    pub timeout_ms: u64,
}

impl IdleLimit {
    pub fn new(context: &ExchangeContext, timeout_ms: u64) -> IdleLimit {
        let limit = IdleLimit {
            deadlines: Rc::clone(&context.deadlines),
            deadline: context.deadlines.add(),
            timeout_ms,
        };
        limit.push();
        limit
    }

    pub fn push(&self) {
        self.deadline.arm(clock::monotonic_ms() + self.timeout_ms);
    }

    pub fn end(&self) {
        self.deadline.disarm();
    }

    /// Wakes `cx` after that time, whatever comes.
    pub fn look_again(&self, cx: &Context<'_>, after_ms: u64) {
        self.deadline.arm(clock::monotonic_ms() + after_ms);
        self.deadline.register(cx);
    }

    pub fn is_over(&self) -> bool {
        self.deadline.is_over()
    }

    pub fn register(&self, cx: &Context<'_>) {
        self.deadline.register(cx);
    }
}

impl Drop for IdleLimit {
    fn drop(&mut self) {
        self.deadlines.remove(&self.deadline);
    }
}
