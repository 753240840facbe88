//! The open exchanges of a multiplexed connection.
//!
//! Called by: the drivers of HTTP/2 and HTTP/3, which own one set per connection.
//! Caveat: the operations are in files by subject: `requests`, `dispatch`, `pump`, `tunnel`,
//! `wait`.

use super::{
    completion_queue::CompletionQueue,
    limit::Limit,
    stream::{IdHasher, Stream},
    wakeups::Wakeups,
    wire::StreamId,
};
use crate::request::Session;
use saker_net::Deadline;
use std::{collections::HashMap, hash::BuildHasherDefault, rc::Rc};

/// Something per stream.
pub type ByStream<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Bodies up to this size follow their head at once.
pub(super) const INLINE_BYTES_MAX: usize = 16 << 10;

/// The exchanges that are open on a connection.
pub struct Exchanges {
    pub session: Session,
    pub(super) streams: ByStream<StreamId, Stream>,
    pub(super) completions: Rc<CompletionQueue>,
    pub(super) deadline: Rc<Deadline>,
    /// Streams with a body on the way out.
    pub(super) sending: usize,
    /// Streams among them that wait for their body or for their pace.
    pub(super) waiting: usize,
    pub(super) wakeups: Wakeups,
    pub(super) limit: Limit,
    /// Something has gone, or come, since the limit was last set.
    pub progress: bool,
}

impl Exchanges {
    pub fn new(session: Session) -> Exchanges {
        let deadline = session.worker.deadlines.add();
        Exchanges {
            session,
            streams: HashMap::default(),
            completions: Rc::new(CompletionQueue::default()),
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
        drop(self.completions.take());
        let streams: Vec<Stream> = self.streams.drain().map(|(_, stream)| stream).collect();
        // A panic may hold the logs.
        if !std::thread::panicking() {
            streams.iter().for_each(|stream| self.log_cut(stream));
        }
        self.session.worker.deadlines.remove(&self.deadline);
    }
}
