//! Log-in with a user name and a password (`[site.auth]`): Basic and Digest authentication.
//!
//! Called by: the access phase of native sites.
//! Out of scope: authorization servers (`authorize`) and rules by address alone (`access`).

use super::{DatabaseUrl, Origin};
use saker_net::Network;
use std::path::PathBuf;

/// Rules about users; a route's override the site's key by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthRules {
    /// False: everyone has access.
    pub is_on: bool,
    pub scheme: AuthScheme,
    pub realm: String,
    /// Names and password hashes: of `htpasswd` for Basic, of `htdigest` for Digest.
    pub user_file: Option<PathBuf>,
    /// Groups with the names of their members.
    pub group_file: Option<PathBuf>,
    /// Database of users, besides `user_file` or instead of it.
    pub database: Option<DatabaseUrl>,
    /// Query for the password hash of a user; for Digest, of a user in a realm.
    pub query: Option<String>,
    /// Query for the groups of a user, one in each row.
    pub group_query: Option<String>,
    /// Users with access. Without any, and without groups, all users of the file have it.
    pub users: Vec<String>,
    /// Groups with access.
    pub groups: Vec<String>,
    /// Networks that clients must come from; empty: all.
    pub networks: Vec<Network>,
    /// A client from one of the networks needs no user name.
    pub satisfies_any: bool,
    pub origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthScheme {
    /// RFC 7617.
    Basic,
    /// RFC 7616, with MD5, which is what browsers and `htdigest` have.
    Digest,
}

impl Default for AuthRules {
    fn default() -> AuthRules {
        AuthRules {
            is_on: true,
            scheme: AuthScheme::Basic,
            realm: "Restricted".into(),
            user_file: None,
            group_file: None,
            database: None,
            query: None,
            group_query: None,
            users: Vec::new(),
            groups: Vec::new(),
            networks: Vec::new(),
            satisfies_any: false,
            origin: Origin::built_in(),
        }
    }
}
