//! HTTP caching (RFC 9111) as a shared cache, a file per matter.
//!
//! Place in the walk: asked at the look-up (may this entry answer this request?) and before storing (may this response be kept, how long?).

pub mod control;
