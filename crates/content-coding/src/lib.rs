//! Content codings (`Content-Encoding`, RFC 9110 section 8.4): gzip, brotli and zstd.
//!
//! `encoder` encodes and decodes bytes, `eligibility` decides which content may be coded and how
//! its fields change.
//!
//! Called by: static files and the page cache, which keep coded variants, and the `compress` filter
//! of content-filters, which encodes responses as they are sent.
//! Out of scope: negotiation (`saker_http::content_coding`).

mod eligibility;
mod encoder;

pub use eligibility::{describe, is_compressible, may_be_coded};
pub use encoder::{
    Encoder, Levels, decode, decode_up_to, encode, encode_all, encode_as_job, from_config,
};
