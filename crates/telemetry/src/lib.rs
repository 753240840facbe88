//! Telemetry: counters, error log, access log.
//!
//! Called by: all crates. Counters are incremented wherever something happens; `pipeline/log.rs`
//! renders one access log line when an exchange is over; everything else worth a line goes to
//! [`error_log`]. Metrics and messages are declared once, in tables.
//! Caveat: none of this may slow a request noticeably, nor stop a worker: counters have one writer
//! each, access log lines are gathered per worker, and everything that may block (pipes, terminals)
//! is written by a thread of its own.
//! Out of scope: tracing spans, log crates and their global filters, and decisions about what is
//! worth logging.

pub mod access_log;
pub mod error_log;
mod escape;
mod flood_gate;
pub mod forensic_log;
pub mod heard;
pub mod httpd_message;
pub mod latency;
pub mod local_time;
pub mod message;
pub mod metrics;
mod queue_writer;
mod report;
mod syslog;
pub mod trace;

pub use message::{Level, Message};
pub use metrics::{Counters, Metric, Snapshot};
