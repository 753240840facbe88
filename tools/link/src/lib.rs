//! A link between two networks on one machine: rate, delay, queue, loss and reordering, per
//! direction, where the kernel has no netem.
//!
//! Two network namespaces, each with a TUN device that the other network is routed to; one thread
//! takes packets from one device, keeps them as long as the link would, and hands them to the
//! other. Namespaces and devices belong to threads and descriptors of this process: when it goes,
//! however it goes, they go. `saker-link` is the program, the bench uses the library. The one
//! difficulty is that a namespace is a matter of threads: what is to happen in one is handed to its
//! [`Side`]. Absent on purpose: IPv6, more than two ends.

mod chance;
mod direction;
mod pump;
pub mod settings;
mod side;

pub use direction::Counts;
pub use pump::Report;
pub use settings::Settings;
pub use side::Side;

use pump::Pump;
use std::{io, net::Ipv4Addr};

/// Address of the server's end, seen from the client's.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 53, 0, 1);
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 53, 0, 2);
/// As Ethernet has it.
pub const MTU_BYTES: u16 = 1500;

/// Properties of a link.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    pub to_client: Settings,
    pub to_server: Settings,
    pub mtu_bytes: u16,
    /// The same seed and the same packets give the same losses.
    pub seed: u64,
}

impl Default for LinkSettings {
    fn default() -> LinkSettings {
        LinkSettings {
            to_client: Settings::default(),
            to_server: Settings::default(),
            mtu_bytes: MTU_BYTES,
            seed: 1,
        }
    }
}

/// A link that is up. Dropping it takes it down; what still runs in its networks keeps those,
/// without a way out of them.
pub struct Link {
    server: Side,
    client: Side,
    pump: Pump,
}

impl Link {
    pub fn open(settings: LinkSettings) -> io::Result<Link> {
        let (server, server_device) = Side::open("server", SERVER, settings.mtu_bytes)?;
        let (client, client_device) = Side::open("client", CLIENT, settings.mtu_bytes)?;
        let pump = Pump::start(server_device, client_device, settings)?;
        Ok(Link {
            server,
            client,
            pump,
        })
    }

    pub fn server(&self) -> &Side {
        &self.server
    }

    pub fn client(&self) -> &Side {
        &self.client
    }

    /// Takes it down and says what has gone over it.
    pub fn close(self) -> Report {
        self.pump.stop()
    }
}

// Tests of the public interface name the crate as its users do.
#[cfg(test)]
extern crate self as saker_link;
#[cfg(test)]
mod tests;
