//! Log-in (`[site.auth]`): Basic and Digest authentication with files, databases, and directories;
//! JSON Web Tokens; OpenID Connect.
//!
//! Called by: the access phase of native sites.
//! Caveat: key files are read when the configuration is loaded, by the part of the server that may
//! read them; password files when they are needed.
//! Out of scope: authorization servers (`authorize`) and rules by address alone (`access`).

use super::{DatabaseUrl, Origin};
use saker_identity::{Algorithm, KeySet, SealKeys};
use saker_net::Network;
use std::{fmt, path::PathBuf, sync::Arc};

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
    /// Users in a directory, besides the other sources.
    pub ldap: Option<Arc<LdapRules>>,
    /// Tokens instead of passwords.
    pub jwt: Option<Arc<JwtRules>>,
    /// Log-in at a provider instead of passwords.
    pub oidc: Option<Arc<OidcRules>>,
    /// Request fields that are set from attributes (LDAP) or claims (JWT, OpenID Connect).
    pub fields: IdentityFields,
    /// Variables for programs, from the same.
    pub variables: IdentityFields,
    /// A value is broken, and reported: what is missing can't be told.
    pub has_unread: bool,
    pub origin: Origin,
}

/// Names with the attribute or claim that each one's value comes from.
pub type IdentityFields = Vec<(Box<str>, Box<str>)>;

/// A text that is not shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(pub Box<str>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A file with the place that names it.
pub type LocatedPath = (PathBuf, Origin);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LdapScope {
    /// The base and all entries below it.
    #[default]
    Subtree,
    /// Entries directly below the base.
    One,
}

/// A directory of users (`[site.auth.ldap]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LdapRules {
    /// `ldap:`, `ldaps:` or `ldapi:`.
    pub url: String,
    pub start_tls: bool,
    pub ca_file: Option<PathBuf>,
    pub base: String,
    pub scope: LdapScope,
    /// Filter for the entry of a user, with `?` for the name; `None`: by `user_attribute` alone.
    pub filter: Option<String>,
    /// Attribute with the name of a user.
    pub user_attribute: String,
    /// DN that searches; `None`: anonymous.
    pub bind_dn: Option<String>,
    pub password: Secret,
    pub password_file: Option<LocatedPath>,
    /// Attribute of a user's entry with the DNs of groups.
    pub group_attribute: Option<String>,
    /// Filter for the entries of a user's groups, with `?` for the DN of the user.
    pub group_filter: Option<String>,
    /// Base of groups; `None`: that of users.
    pub group_base: Option<String>,
    pub timeout_ms: u64,
    /// Connections that check passwords, for each worker.
    pub connections: u32,
    /// Time that a successful log-in is remembered; 0: not at all.
    pub cache_ms: u64,
    pub origin: Origin,
}

impl Default for LdapRules {
    fn default() -> LdapRules {
        LdapRules {
            url: String::new(),
            start_tls: false,
            ca_file: None,
            base: String::new(),
            scope: LdapScope::Subtree,
            filter: None,
            user_attribute: "uid".into(),
            bind_dn: None,
            password: Secret::default(),
            password_file: None,
            group_attribute: None,
            group_filter: None,
            group_base: None,
            timeout_ms: 5000,
            connections: 4,
            cache_ms: 60_000,
            origin: Origin::built_in(),
        }
    }
}

/// Access with tokens (`[site.auth.jwt]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtRules {
    pub algorithms: Vec<Algorithm>,
    pub keys_file: Option<LocatedPath>,
    pub secret_file: Option<LocatedPath>,
    /// The keys of the file.
    pub keys: Option<KeySet>,
    /// URL of a JWK set.
    pub keys_url: Option<String>,
    pub refresh_ms: u64,
    pub ca_file: Option<PathBuf>,
    pub issuer: Option<String>,
    pub audiences: Vec<String>,
    pub leeway_s: i64,
    /// Claims, each with the values of which the token needs one.
    pub claims: Vec<(String, Vec<String>)>,
    /// Name of a cookie with the token.
    pub cookie: Option<String>,
    /// Name of a parameter of the query with the token.
    pub query: Option<String>,
    pub user_claim: String,
    pub groups_claim: String,
    pub origin: Origin,
}

impl Default for JwtRules {
    fn default() -> JwtRules {
        JwtRules {
            algorithms: Vec::new(),
            keys_file: None,
            secret_file: None,
            keys: None,
            keys_url: None,
            refresh_ms: 3_600_000,
            ca_file: None,
            issuer: None,
            audiences: Vec::new(),
            leeway_s: 60,
            claims: Vec::new(),
            cookie: None,
            query: None,
            user_claim: "sub".into(),
            groups_claim: "groups".into(),
            origin: Origin::built_in(),
        }
    }
}

/// Log-in at an OpenID Connect provider (`[site.auth.oidc]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcRules {
    pub issuer: String,
    pub client_id: String,
    /// `None`: a public client.
    pub client_secret: Option<Secret>,
    pub client_secret_file: Option<LocatedPath>,
    pub scopes: Vec<String>,
    /// Path that the provider sends clients back to.
    pub callback: String,
    /// Path that ends the session.
    pub logout: String,
    /// Path or URL for clients that have logged out; `None`: a page.
    pub logged_out: Option<String>,
    /// Addresses and domains with access, besides users and groups.
    pub emails: Vec<String>,
    pub domains: Vec<String>,
    /// Accepts addresses that the provider has not verified.
    pub unverified_emails: bool,
    /// Fetches further claims.
    pub userinfo: bool,
    pub user_claim: String,
    pub groups_claim: String,
    pub session_lifetime_s: i64,
    /// Time after which the session is renewed with the refresh token.
    pub renew_s: i64,
    /// Keys of cookies; `None`: those in the state directory.
    pub keys: Option<SealKeys>,
    pub key_file: Option<LocatedPath>,
    pub ca_file: Option<PathBuf>,
    /// Works over plain HTTP, too.
    pub allow_http: bool,
    pub origin: Origin,
}

impl Default for OidcRules {
    fn default() -> OidcRules {
        OidcRules {
            issuer: String::new(),
            client_id: String::new(),
            client_secret: None,
            client_secret_file: None,
            scopes: ["openid", "email", "profile"].map(String::from).into(),
            callback: "/oidc/callback".into(),
            logout: "/oidc/logout".into(),
            logged_out: None,
            emails: Vec::new(),
            domains: Vec::new(),
            unverified_emails: false,
            userinfo: false,
            user_claim: "sub".into(),
            groups_claim: "groups".into(),
            session_lifetime_s: 8 * 3600,
            renew_s: 900,
            keys: None,
            key_file: None,
            ca_file: None,
            allow_http: false,
            origin: Origin::built_in(),
        }
    }
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
            has_unread: false,
            ldap: None,
            jwt: None,
            oidc: None,
            fields: Vec::new(),
            variables: Vec::new(),
            origin: Origin::built_in(),
        }
    }
}
