//! The access log: what a line says ([`Format`]), about what ([`Record`]), and where it goes ([`LogFile`], [`LogBuffer`]).
//!
//! Place in the walk: `pipeline/log.rs`, once per exchange, whatever happened. A worker renders the line into its own
//! [`LogBuffer`]; the buffer goes to the shared [`LogFile`] when it is full or a second old.

pub mod file;
pub mod format;
pub mod record;

pub use file::{Flushed, LogBuffer, LogFile, LogTarget};
pub use format::{Format, FormatError, LogClock, Needs};
pub use record::{ConnectionStatus, Record, Variables};
