//! Counters of an endpoint: plain numbers that metrics and status pages take.

/// Since it was last taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub datagrams_in: u64,
    pub bytes_in: u64,
    pub datagrams_out: u64,
    pub bytes_out: u64,
    pub handshakes: u64,
    /// Given up, by us or by the client.
    pub handshakes_failed: u64,
    /// Dropped or refused, because there were too many, or the door said no.
    pub handshakes_refused: u64,
    pub retries: u64,
    pub version_negotiations: u64,
    pub stateless_resets: u64,
    pub migrations: u64,
    pub early_data_connections: u64,
    pub packets_sent: u64,
    pub packets_lost: u64,
    /// Times that windows were made smaller, for loss or for a mark (ECN).
    pub congestion_events: u64,
    /// Connections that were established and are over, and the round trips that they had at the
    /// end, summed.
    pub ended: u64,
    pub ended_rtt_us: u64,
}

/// Kind of a datagram sent in reply to one that belongs to no connection.
pub(crate) enum Reply {
    VersionNegotiation,
    Close,
    StatelessReset,
}

impl Reply {
    pub fn of(datagram: &[u8]) -> Reply {
        match datagram {
            [first, 0, 0, 0, 0, ..] if first & 0x80 != 0 => Reply::VersionNegotiation,
            [first, ..] if first & 0x80 != 0 => Reply::Close,
            _ => Reply::StatelessReset,
        }
    }
}

impl Counts {
    pub fn take(&mut self) -> Counts {
        std::mem::take(self)
    }

    pub(crate) fn reply(&mut self, reply: Reply) {
        match reply {
            Reply::VersionNegotiation => self.version_negotiations += 1,
            Reply::Close => self.handshakes_refused += 1,
            Reply::StatelessReset => self.stateless_resets += 1,
        }
    }
}
