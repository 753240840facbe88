//! Settings of Apache's authentication and authorization modules, and their directives.
//!
//! Called by: `dir_config`; `read_section`, for containers and aliases, whose content may be any
//! directive.
//! Out of scope: the access phase (`saker_apache`), decisions (`saker_auth`).

pub mod authn;
pub mod authz;
pub mod compat;
pub mod directives;
mod fcgi;
mod form;
mod ldap;
pub mod require;
mod session;
pub mod settings;

pub use authn::add_provider_alias;
pub use authz::{add_requirement_alias, check, close_group, open_group};
pub use require::method_number;
pub use settings::Auth;

#[cfg(test)]
mod tests;
