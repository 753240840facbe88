//! Sources of passwords, by the names that configurations use.
//!
//! Called by: `Authentication` and `FormSettings`; asked by `providers`.
//! Out of scope: their settings.

use super::FcgiAuthorizer;
use std::sync::Arc;

/// Source of passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    File,
    Dbm,
    /// The host's database (mod_dbd).
    Sql,
    /// A directory ([`LdapSettings`](super::LdapSettings)).
    Ldap,
    Anonymous,
    /// A cache in front of other providers (mod_authn_socache). Files are kept in memory anyway, so
    /// it knows no user.
    Cache,
    /// A FastCGI authorizer.
    Fcgi(Arc<FcgiAuthorizer>),
    /// Another provider with settings of its own.
    Alias(Box<str>),
    /// Not supported: authentication fails with an error.
    Unsupported(Box<str>),
}
