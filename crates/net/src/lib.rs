//! Sockets on tokio and what the operating system offers a server. The one home of unsafe code.
//!
//! Floor 1. `listener` binds and accepts without telling the event loop about the new connection,
//! `stream` registers it only when it has to wait, and counts its system calls. The rest is what a
//! daemon asks of Linux: who it runs as, on which core, what systemd handed to it, what time it is.
//! Every `unsafe` block names its assumption, who guarantees it, and the test that goes through it.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "Saker runs on Linux only: macOS and BSD have no SO_ATTACH_REUSEPORT_CBPF, inotify, or pidfd"
);

pub mod address;
pub mod blocking;
pub mod child;
pub mod clock;
pub mod deadlines;
pub mod file_bytes;
pub mod folders;
pub mod guarded_open;
pub mod idle_streams;
pub mod jobs;
pub mod listener;
pub mod modsecurity;
pub mod network;
pub mod privileged;
pub mod process;
pub mod program;
pub mod proxy_preface;
pub mod readiness;
pub mod refused_calls;
pub mod renamed_log;
pub mod shares;
pub mod short_text;
pub mod socket_path;
pub mod spawn_as;
pub mod steering;
pub mod stream;
pub mod systemd;
pub mod terminal;
pub mod ticker;
pub mod tunnel_device;
pub mod udp;
pub mod wire;

mod socket_options;

pub use address::{Bind, LocalAddress, PeerAddress};
pub use child::{ChildManner, ChildSignal, Group};
pub use deadlines::{Deadline, Deadlines};
pub use idle_streams::{IdleStream, IdleStreams};
pub use listener::{Accepted, BindOptions, BoundSocket, Listener, bind, refuse_if_taken};
pub use network::Network;
pub use readiness::Readiness;
pub use short_text::ShortText;
pub use socket_options::{TcpInfo, tcp_info};
pub use stream::{RawStream, Stream};
pub use ticker::Ticker;
pub use udp::{
    Arrival, Arrivals, BoundUdp, Departure, UdpOptions, UdpSocket, bind_udp, bind_udp_beside,
};
