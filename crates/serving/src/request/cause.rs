//! The reason why a connection ends: for the counters, and for how it is closed.
//!
//! Called by: every driver.

use saker_telemetry::Metric;

/// Reason why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// As negotiated: `Connection: close`, a limit on requests, draining.
    Done,
    Gone,
    Idle,
    HeadTimeout,
    BodyTimeout,
    WriteTimeout,
    Rejected,
    /// A response went out while the request's body had not been read.
    Unread,
    /// A response was cut.
    Cut,
    /// The client is denied.
    Refused,
    /// The client is banned.
    Banned,
}

impl Cause {
    pub fn metric(self) -> Metric {
        match self {
            Cause::Done | Cause::Unread => Metric::ClosedByServer,
            Cause::Gone => Metric::ClosedByClient,
            Cause::Idle => Metric::ClosedIdle,
            Cause::HeadTimeout => Metric::ClosedHeadTimeout,
            Cause::BodyTimeout => Metric::ClosedBodyTimeout,
            Cause::WriteTimeout => Metric::ClosedWriteTimeout,
            Cause::Rejected => Metric::ClosedMalformed,
            Cause::Cut => Metric::ClosedError,
            Cause::Refused => Metric::ClosedDenied,
            Cause::Banned => Metric::ClosedBanned,
        }
    }

    /// Returns true if the client may still be sending, so that closing at once could destroy the
    /// last response.
    pub fn lingers(self) -> bool {
        matches!(self, Cause::Rejected | Cause::Unread | Cause::HeadTimeout)
    }
}
