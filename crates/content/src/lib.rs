//! Content of responses: where its bytes are, ranges of it, and its codings.
//!
//! Called by: static-files, page-cache, handlers and their filters.
//! Caveat: encoders are deterministic (same input, same settings, same bytes on every worker),
//! because strong entity tags rely on it.
//! Out of scope: choosing what to serve; this crate knows no configuration language.

pub mod byteranges;
pub mod coded_fields;
pub mod coding;
mod content;
pub mod dictionary;

pub use content::{Content, Loaded, load};
