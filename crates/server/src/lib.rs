//! The server: process, workers, listeners, protocol drivers, control socket, command line.
//!
//! Floor 6, the top: everything below is put together here. `process` runs the main thread,
//! `worker` one thread per core, `driver_h1` and `driver_h2` a task per connection, `driver_h3` a
//! connection of the worker's QUIC loop, the latter two on what `multiplexed` says about streams;
//! `shared` declares what cores share, `registry` which handlers and filters there are.

pub mod accept;
pub mod automatic;
pub mod buffers;
pub mod cli;
pub mod connection;
pub mod control;
pub mod driver_h1;
pub mod driver_h2;
pub mod driver_h3;
pub mod explain;
pub mod figures;
pub mod freshness;
mod io;
pub mod listener;
pub mod log_files;
mod logged_hosts;
pub mod multiplexed;
pub mod names;
mod pieces;
pub mod process;
pub mod quic;
pub mod registry;
pub mod secured;
pub mod serving;
pub mod shared;
pub mod site_logs;
pub mod staples;
pub mod tail;
pub mod transport;
pub mod worker;
