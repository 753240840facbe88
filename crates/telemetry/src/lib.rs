//! What the server tells its operator: counters, error log, access log.
//!
//! Floor 1. Place in the walk: counters are bumped wherever something happens; `pipeline/log.rs`
//! renders one access log line when an exchange is over; everything else that is worth a line goes
//! to [`error_log`]. Metrics and messages are declared once, in tables.
//!
//! The one difficulty: none of this may cost a request anything that can be felt, nor stop a
//! worker: counters have one writer each, access log lines are gathered per worker, and whatever
//! may block (pipes, terminals) is written by a thread of its own.
//!
//! Absent on purpose: tracing spans, log crates and their global filters, and any decision about
//! what is worth logging.

pub mod access_log;
pub mod error_log;
mod escape;
mod flood_gate;
pub mod forensic_log;
pub mod heard;
pub mod httpd_message;
pub mod local_time;
pub mod message;
pub mod metrics;
mod queue_writer;
mod report;
mod syslog;

pub use message::{Level, Message};
pub use metrics::{Counters, Metric, Snapshot};
