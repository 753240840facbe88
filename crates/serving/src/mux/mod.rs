//! What drivers of protocols with many streams per connection (HTTP/2, HTTP/3) share: the exchanges
//! of one connection.
//!
//! Place in the walk: a driver reads bytes, asks its machine what they mean and tells [`Exchanges`]
//! (`requests.rs`); heads and content go out through the driver's [`Wire`]. A request that a
//! resolved resource can answer is answered at once; everything else walks in a task of its own
//! (`walk.rs`) and brings its response back through the [`Inbox`]. Bodies are pumped in the order
//! that the machine's scheduler gives (`pump.rs`).
//!
//! Absent on purpose: bytes, frames, sockets and windows, which are the drivers'.

mod completion_queue;
pub mod head;
mod pump;
mod requests;
mod stream;
mod tunnel;
mod upload;
mod wait;
mod wakeups;
mod walk;
mod wire;

pub use wait::{Limit, Over, Pressure};
pub use wire::{Reset, StreamId, Wire};

use crate::request::Session;
use completion_queue::Inbox;
use saker_net::Deadline;
use std::{collections::HashMap, hash::BuildHasherDefault, rc::Rc};
use stream::{IdHasher, Stream};
use wakeups::Wakeups;

/// Something per stream.
pub type ByStream<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Bodies up to this size follow their head at once.
const INLINE_BYTES_MAX: usize = 16 << 10;

/// The exchanges that are open on a connection.
pub struct Exchanges {
    pub session: Session,
    streams: ByStream<StreamId, Stream>,
    inbox: Rc<Inbox>,
    deadline: Rc<Deadline>,
    /// Streams with a body on the way out.
    sending: usize,
    /// Those of them whose body is being made, or held up by a pace.
    waiting: usize,
    wakeups: Wakeups,
    limit: Limit,
    /// Something has gone, or come, since the limit was last set.
    pub progress: bool,
}

impl Exchanges {
    pub fn new(session: Session) -> Exchanges {
        let deadline = session.worker.deadlines.add();
        Exchanges {
            session,
            streams: HashMap::default(),
            inbox: Rc::new(Inbox::default()),
            deadline,
            sending: 0,
            waiting: 0,
            wakeups: Wakeups::default(),
            limit: Limit::None,
            progress: false,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }
}

impl Drop for Exchanges {
    fn drop(&mut self) {
        // Letters hold on to the inbox.
        drop(self.inbox.take());
        let streams: Vec<Stream> = self.streams.drain().map(|(_, stream)| stream).collect();
        // A panic may hold the logs.
        if !std::thread::panicking() {
            streams.iter().for_each(|stream| self.log_cut(stream));
        }
        self.session.worker.deadlines.remove(&self.deadline);
    }
}
