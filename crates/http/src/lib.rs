//! HTTP semantics (RFC 9110), independent of the protocol version.
//!
//! Called by: the protocol machines (`http1`, `http2`, `http3`), which produce a [`RequestHead`];
//! the pipeline and the handlers, which read it through [`HeadView`]. Everything here is a pure
//! function or a plain type.
//! Out of scope: sockets, files, and configuration.

pub mod basic_credentials;
pub mod chars;
pub mod conditional;
pub mod content_coding;
pub mod cookies;
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
pub mod query;
pub mod range;
pub mod scan;
pub mod status;
pub mod target;
pub mod version;

pub use cookies::Cookie;
pub use fields::{Fields, Value};
pub use head::{FieldSpan, HeadIndex, HeadView, KnownField, RequestHead, Span};
pub use method::Method;
pub use status::Status;
pub use version::Version;
