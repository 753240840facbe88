//! A directory of users.
//!
//! Called by: `AuthSettings`; asked by `directories`.

use std::fmt;

/// A directory, and the way users are looked up in it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LdapSettings {
    /// With the words of TLS that `saker_database` knows.
    pub url: String,
    /// Entry that searches; empty: anonymous.
    pub bind_dn: String,
    pub bind_password: String,
    pub base: String,
    pub one_level: bool,
    /// Filter for the entry of a user, with `?` for the name.
    pub filter: String,
    /// Attribute whose value becomes the name of the user.
    pub user_attribute: Option<String>,
    /// Further attributes that are read.
    pub attributes: Vec<String>,
    /// Attribute of the user's entry with the DNs of groups.
    pub group_attribute: Option<String>,
    /// Filter for the entries of the user's groups, with `?` for the DN of the user, and their base.
    pub groups: Option<(String, String)>,
    pub timeout_ms: u64,
    /// Connections that check passwords.
    pub connections: u32,
    /// Time that a success is remembered; 0: not at all.
    pub cache_ms: u64,
}

/// Without the password.
impl fmt::Debug for LdapSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LdapSettings({} below {:?})", self.filter, self.base)
    }
}
