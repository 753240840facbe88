//! The parts of a record that a format uses.
//!
//! Called by: formats, which declare them, and `pipeline`, which collects only what is needed.

/// Parts of a record that cost the caller something to collect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub duration: bool,
    pub first_byte: bool,
    pub bytes_in: bool,
    pub bytes_out: bool,
    pub response_fields: bool,
    pub notes: bool,
    pub environment: bool,
    pub trailers: bool,
    pub file: bool,
    /// The dispatch of the request: its handler, internal redirects.
    pub walk: bool,
    pub tls: bool,
}
