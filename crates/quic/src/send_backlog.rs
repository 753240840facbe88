//! Datagrams that a full send queue did not take: kept, and first when there is room again.

use crate::sink::Sink;
use saker_net::Departure;
use std::net::{IpAddr, SocketAddr};

/// Datagrams for one peer, in memory that is used again.
#[derive(Default)]
pub struct SendBacklog {
    bytes: Vec<u8>,
    rest: Option<Heading>,
}

#[derive(Clone, Copy)]
pub struct Heading {
    pub peer: SocketAddr,
    pub local: Option<IpAddr>,
    pub ecn: u8,
    pub datagram_bytes: usize,
}

impl SendBacklog {
    pub fn is_empty(&self) -> bool {
        self.rest.is_none()
    }

    pub fn keep(&mut self, heading: Heading, bytes: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.rest = Some(heading);
    }

    /// `false`: still no room.
    pub fn flush(&mut self, sink: &mut impl Sink) -> bool {
        let Some(heading) = self.rest else {
            return true;
        };
        let sent = sink.send(heading.departure(&self.bytes));
        if sent {
            self.rest = None;
        }
        sent
    }
}

impl Heading {
    pub fn departure(self, bytes: &[u8]) -> Departure<'_> {
        Departure {
            peer: self.peer,
            local: self.local,
            ecn: self.ecn,
            datagram_bytes: self.datagram_bytes,
            bytes,
        }
    }
}
