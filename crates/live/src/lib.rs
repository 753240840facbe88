//! Live statistics: figures of the last minutes and hours, and requests as they finish.
//!
//! Called by: the main thread, which samples the counters once a second while there is a console;
//! a logger of each worker, for finished requests while an operator watches; the console, which
//! shows both.
//! Caveat: nothing here runs per request unless an operator watches, and what is kept is bounded.
//! Out of scope: counters and histograms (`saker_telemetry`); pages (`saker_console`).

pub mod history;
mod line;
pub mod process;
pub mod sampler;
pub mod sketch;
pub mod tail;
pub mod tops;
