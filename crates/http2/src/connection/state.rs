//! State of a connection that several of its parts read or change.
//!
//! Called by: the connection, which owns these values, and the files beside this one, each of which
//! handles some kinds of frames.

use crate::stream::StreamId;
use saker_http_mux::HeadStore;

/// Progress through the connection preface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Server: the client's magic is to come.
    Preface,
    /// The first frame must be SETTINGS.
    Settings,
    Open,
}

/// Context that the driver passes to one call.
pub(super) struct Turn<'t> {
    pub now_ms: u64,
    pub head: &'t mut HeadStore,
    pub out: &'t mut Vec<u8>,
}

/// Progress of a graceful shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    No,
    /// The first GOAWAY is out, without a real last stream.
    Announced,
    /// The last stream has been named.
    Final,
}

/// Facts from the HEADERS frame besides its fields.
#[derive(Clone, Copy)]
pub(super) struct Opening {
    pub stream: StreamId,
    pub end_stream: bool,
    /// It has a priority of RFC 7540 that names its own stream.
    pub is_self_dependent: bool,
}

/// A block that waits for CONTINUATION.
pub(super) struct PendingBlock {
    pub opening: Opening,
    pub continuations: u32,
    pub bytes: Vec<u8>,
}
