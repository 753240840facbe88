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
    /// Attribute that `filter` compares with the name; for questions about the user's own entry.
    pub name_attribute: String,
    /// Attribute whose value becomes the name of the user.
    pub user_attribute: Option<String>,
    /// The user's DN becomes the name.
    pub user_is_dn: bool,
    /// Attributes by which entries of groups name their members; empty: `member` and
    /// `uniqueMember`.
    pub member_attributes: Vec<String>,
    /// Groups name their members by user name, not by DN.
    pub members_are_names: bool,
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

impl LdapSettings {
    /// Returns these settings with those of an inner section over them. One that names a directory
    /// stands alone.
    pub fn merge(&self, over: &LdapSettings) -> LdapSettings {
        if !over.url.is_empty() {
            return over.clone();
        }
        let mut merged = self.clone();
        if !over.bind_dn.is_empty() {
            merged.bind_dn.clone_from(&over.bind_dn);
            merged.bind_password.clone_from(&over.bind_password);
        }
        if over.user_attribute.is_some() {
            merged.user_attribute.clone_from(&over.user_attribute);
        }
        if !over.member_attributes.is_empty() {
            merged.member_attributes.clone_from(&over.member_attributes);
        }
        merged.user_is_dn |= over.user_is_dn;
        merged.members_are_names |= over.members_are_names;
        merged
    }
}

/// Without the password.
impl fmt::Debug for LdapSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LdapSettings({} below {:?})", self.filter, self.base)
    }
}
