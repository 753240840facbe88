//! HTTP semantics (RFC 9110), independent of the protocol version that carries them.
//!
//! Floor 1: knows bytes, not sockets, files or configuration. Everything here is a pure function or
//! a plain type; the protocol machines (`http1`, later `http2`, `http3`) produce a [`RequestHead`],
//! the pipeline and the handlers read it through [`HeadView`].

pub mod chars;
pub mod conditional;
pub mod content_coding;
pub mod date;
pub mod effective_host;
pub mod entity_tag;
pub mod escape;
pub mod field_name;
pub mod fields;
pub mod head;
pub mod host;
pub mod media_type;
pub mod method;
pub mod path;
pub mod range;
pub mod status;
pub mod target;
pub mod version;

pub use fields::{Fields, Value};
pub use head::{FieldSpan, HeadIndex, HeadView, KnownField, RequestHead, Span};
pub use method::Method;
pub use status::Status;
pub use version::Version;
