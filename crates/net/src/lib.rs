//! Sockets on tokio and what the operating system offers a server. The one home of unsafe code.

pub mod network;
pub use network::Network;
