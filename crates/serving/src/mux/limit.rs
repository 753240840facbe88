//! Time limits of a multiplexed connection: which one runs, and what its end means.
//!
//! Called by: `wait`; the drivers act on the outcome.

use crate::request::Cause;

/// The time limit that is running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// The server is working, or a handler's own limit is running.
    #[default]
    None,
    /// No stream is open, since a moment ago.
    Idle,
    /// No stream is open, for so long that memory was given back.
    Resting,
    /// Part of a frame, or of a field block, has come.
    Head,
    /// The socket takes nothing.
    Write,
    /// The client's windows are closed.
    Window,
}

/// The part of that state that only the driver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    None,
    /// Part of a frame, or of a field block, has come.
    Head,
    /// The socket takes nothing.
    Write,
}

/// An expired limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The connection rests from now on: memory of earlier requests can be given back.
    Rest,
    /// The connection has to end. It has been logged.
    End(Cause, Limit),
}
