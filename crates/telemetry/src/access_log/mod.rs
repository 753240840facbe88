//! The access log: the format of a line ([`Format`]), its facts ([`Record`]), and its target
//! ([`LogFile`], [`LogBuffer`]).
//!
//! Called by: `pipeline/log.rs`, once per exchange, whatever happened. A worker renders the line
//! into its own [`LogBuffer`]; the buffer goes to the shared [`LogFile`] when it is full or a
//! second old.

pub mod by_host;
mod clock;
mod escapes;
pub mod file;
mod format;
mod item;
mod json;
mod line_sink;
mod mask;
mod needs;
mod open;
mod program;
mod record;
mod render;
mod rotation;
#[cfg(test)]
mod tests;

pub use clock::LogClock;
pub use escapes::Escapes;
pub use file::{Flushed, LogBuffer, LogFile, LogTarget};
pub use format::{Format, FormatError};
pub use mask::Mask;
pub use needs::Needs;
pub(crate) use open::LOG_MODE;
pub(crate) use program::Program;
pub use program::{log_program, start_programs_with};
pub use record::{Computed, ConnectionStatus, Lookup, Record, Variables};
pub use rotation::Rotation;
