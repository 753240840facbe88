//! Drives HTTP/2 connections: frames in, exchanges answered, frames of many streams out in one write.
//!
//! Place in the walk: as `driver_h1`. A request that a resolved resource can answer is answered where its frame is read (`inbound.rs`);
//! everything else walks in a task of its own and brings its response back through the [`Inbox`]. Bodies are pumped in the order that the
//! machine's scheduler gives, as far as windows and one write's worth of bytes go (`pump.rs`). The difficulty is the number of things that one
//! wake-up may be about; [`Connection::poll_turn`] is the one list of them.

mod head;
mod inbound;
mod inbox;
mod pump;
mod start;
mod stream;
mod tunnel;
mod turn;
mod upload;
mod wait;
mod wakeups;
mod walk;

pub use start::{Beginning, run};

use crate::{io::Io, serving::Session};
use inbox::Inbox;
use saker_http2::StreamId;
use saker_net::Deadline;
use std::{collections::HashMap, hash::BuildHasherDefault, rc::Rc, time::Duration};
use stream::{IdHasher, Stream};
use wakeups::Wakeups;

/// Frames gathered for one write.
const OUT_BYTES_MAX: usize = 64 << 10;
/// Bodies up to this size follow their head at once.
const INLINE_BYTES_MAX: usize = 16 << 10;
/// How long we read on after GOAWAY, so that a reset does not take it from the client.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 1 << 20;

struct Connection {
    session: Session,
    io: Io,
    machine: saker_http2::Connection,
    streams: HashMap<StreamId, Stream, BuildHasherDefault<IdHasher>>,
    inbox: Rc<Inbox>,
    deadline: Rc<Deadline>,
    /// Frames that the transport did not take; nothing is read before they have gone.
    backlog: Vec<u8>,
    /// Streams with a body on the way out.
    sending: usize,
    /// Those of them whose body is being made, or held up by a pace.
    waiting: usize,
    wakeups: Wakeups,
    /// Input holds frames that have not been looked at, because the output was full.
    unseen_input: bool,
    /// After an upgrade, until the client's preface has come: some clients have little room for what comes before they have changed.
    awaits_preface: bool,
    /// GOAWAY is out, or on its way: why.
    ending: Option<turn::Ending>,
    limit: wait::Limit,
    /// Bodies have been handed over since the limit was last set.
    progress: bool,
}

fn now_ms() -> u64 {
    saker_net::clock::turn_ms()
}
