//! Serving connections: workers, listeners, TLS, and the drivers of HTTP/1, HTTP/2 and HTTP/3.
//!
//! Called by: the process supervisor, which starts a worker per core and sends it commands.
//! Caveat: everything here runs on a worker's thread and is `!Send`, except [`shared`], which
//! declares what cores share.
//! Out of scope: which handlers, filters, and loggers there are (`registry` in `server`), configuration,
//! privileges.

pub mod accept;
pub mod access_logs;
pub mod admission;
pub mod buffers;
mod client_end;
pub mod common_headers;
pub mod figures;
pub mod forensic_logs;
pub mod freshness;
pub mod h1;
pub mod h2;
pub mod h3;
mod io;
pub mod latencies;
pub mod listener;
mod log_conditions;
pub mod log_files;
mod logged_hosts;
pub mod mux;
mod pieces;
mod preface;
pub mod quic;
pub mod quic_secrets;
pub mod request;
pub mod reverse_dns;
pub mod services;
pub mod shared;
pub mod stream;
pub mod tail_logger;
pub mod tls_state;
pub mod trace_logger;
pub mod transport;
pub mod worker;
pub mod worker_thread;
