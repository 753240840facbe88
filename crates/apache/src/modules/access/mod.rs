//! Access in Apache's configuration: the directives of its authentication and authorization
//! modules, and the access phase that applies them.
//!
//! `settings` lists the directives; `authn`, `authz`, `compat` and `require` parse them. `phase`
//! runs at request time over `request`, which answers `saker_auth` from an exchange.
//!
//! Called by: `rules`, in the access phase and the fixups.
//! Caveat: a request that needs no decision (`Require all granted`) must leave no mark on the
//! exchange, so that its outcome can be cached; every rule about the client, its user or its
//! environment records its dependency.

mod authn;
mod authz;
mod client_name;
mod compat;
mod fake;
mod phase;
mod request;
mod require;
mod settings;

pub use authz::check;
pub use client_name::look_up;
pub use fake::{fake_credentials, set_authorization};
pub use phase::access;
pub use request::AccessRequest;
pub use require::method_number;
pub use settings::Auth;

#[cfg(test)]
mod tests;
