//! Output of an endpoint.
//!
//! Called by: the endpoint and its send backlog.
//! Out of scope: input; the driver hands it to the endpoint.

use saker_net::{Departure, UdpSocket};

/// Output for datagrams: a socket, or a test.
pub trait Sink {
    /// `false`: no room for now.
    fn send(&mut self, departure: Departure<'_>) -> bool;
    /// Datagrams of one peer that can be sent in one call.
    fn datagrams_at_once(&self) -> usize;
}

impl Sink for &UdpSocket {
    fn send(&mut self, departure: Departure<'_>) -> bool {
        UdpSocket::send(self, departure)
    }

    fn datagrams_at_once(&self) -> usize {
        UdpSocket::datagrams_at_once(self)
    }
}
