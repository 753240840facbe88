//! The access phase: `phase` runs it over `request`, which answers `saker_auth` from an exchange.
//!
//! Called by: the access phase and the fixups.
//! Caveat: a request that needs no decision (`Require all granted`) must leave no mark on the
//! exchange, so that its outcome can be cached; every rule about the client, its user or its
//! environment records its dependency.
//! Out of scope: the directives (`saker_apache_model`), decisions (`saker_auth`).

pub mod client_name;
pub mod credentials;
pub mod fake;
pub mod form;
pub mod form_content;
pub mod phase;
pub mod request;
pub mod tls;
