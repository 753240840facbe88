//! Settings of authentication and authorization, as a front end fills them.
//!
//! Called by: the front ends, which fill and merge them; `AuthContext`, which reads them.
//! Caveat: "not set" differs from "set to the default" until settings have been merged, so optional
//! settings are `Option`s.

pub mod authentication;
pub mod authorization;
mod fcgi;
mod form;
pub mod host_access;
mod ldap;
mod merge;
mod methods;
mod provider;
pub mod requirement;
mod session;

pub use authentication::{Anonymous, Authentication, DbmFile, DigestSettings};
pub use authorization::{Authorization, Group, Logic, Merging, Require, Rule};
pub use fcgi::{FcgiAuthorizer, FcgiCheck, FcgiDuty};
pub use form::{FormFields, FormSettings};
pub use host_access::{ForMethods, HostAccess, Order, Source};
pub use ldap::LdapSettings;
pub use merge::Aliases;
pub use methods::{Methods, as_numbered};
pub use provider::Provider;
pub use requirement::Requirement;
pub use session::{SessionCookie, SessionDatabase, SessionSettings};

use merge::{either, merged_aliases};
use std::sync::Arc;

/// Everything that is configured for one place.
#[derive(Clone, Debug, Default)]
pub struct AuthSettings {
    pub authentication: Authentication,
    pub authorization: Authorization,
    pub host_access: HostAccess,
    /// Boxed, because few of many hosts have queries.
    sql: Option<Box<SqlQueries>>,
    /// The directory of users.
    pub ldap: Option<Arc<LdapSettings>>,
    /// Sessions of clients.
    pub session: Option<Arc<SessionSettings>>,
    pub provider_aliases: Aliases<ProviderAlias>,
    pub requirement_aliases: Aliases<RequirementAlias>,
}

/// A provider with settings of its own (`<AuthnProviderAlias>`).
#[derive(Clone, Debug)]
pub struct ProviderAlias {
    pub provider: Provider,
    pub settings: Arc<AuthSettings>,
}

/// A requirement with settings of its own (`<AuthzProviderAlias>`).
#[derive(Clone, Debug)]
pub struct RequirementAlias {
    pub requirement: Requirement,
    pub settings: Arc<AuthSettings>,
}

/// Queries for passwords and groups in the host's database (mod_authn_dbd, mod_authz_dbd).
#[derive(Clone, Debug, Default)]
pub struct SqlQueries {
    /// The password of a user (AuthDBDUserPWQuery).
    pub user: Option<Arc<str>>,
    /// The Digest hash of a user and a realm (AuthDBDUserRealmQuery).
    pub realm: Option<Arc<str>>,
    /// The groups of a user, or a login or logout (AuthzDBDQuery).
    pub groups: Option<Arc<str>>,
    /// URL to redirect a user to after login or logout (AuthzDBDRedirectQuery).
    pub redirect: Option<Arc<str>>,
    /// After login or logout the client is redirected to its Referer.
    pub to_referer: Option<bool>,
}

static NO_QUERIES: SqlQueries = SqlQueries {
    user: None,
    realm: None,
    groups: None,
    redirect: None,
    to_referer: None,
};

impl AuthSettings {
    /// Queries of the host's database.
    pub fn sql(&self) -> &SqlQueries {
        self.sql.as_deref().unwrap_or(&NO_QUERIES)
    }

    pub fn sql_mut(&mut self) -> &mut SqlQueries {
        self.sql.get_or_insert_default()
    }

    fn merged_ldap(&self, over: &AuthSettings) -> Option<Arc<LdapSettings>> {
        match (&self.ldap, &over.ldap) {
            (Some(outer), Some(over)) if !Arc::ptr_eq(outer, over) => {
                Some(Arc::new(outer.merge(over)))
            }
            (outer, over) => over.as_ref().or(outer.as_ref()).cloned(),
        }
    }

    fn merged_session(&self, over: &AuthSettings) -> Option<Arc<SessionSettings>> {
        match (&self.session, &over.session) {
            (Some(outer), Some(over)) if !Arc::ptr_eq(outer, over) => {
                Some(Arc::new(outer.merge(over)))
            }
            (outer, over) => over.as_ref().or(outer.as_ref()).cloned(),
        }
    }

    fn merged_sql(&self, over: &AuthSettings) -> Option<Box<SqlQueries>> {
        match (&self.sql, &over.sql) {
            (Some(outer), Some(over)) => Some(Box::new(outer.merge(over))),
            (outer, over) => over.as_ref().or(outer.as_ref()).cloned(),
        }
    }

    /// Returns these settings with those of an inner section merged over them.
    pub fn merge(&self, over: &AuthSettings) -> AuthSettings {
        AuthSettings {
            authentication: self.authentication.merge(&over.authentication),
            authorization: self.authorization.merge(&over.authorization),
            host_access: self.host_access.merge(&over.host_access),
            sql: self.merged_sql(over),
            ldap: self.merged_ldap(over),
            session: self.merged_session(over),
            provider_aliases: merged_aliases(&self.provider_aliases, &over.provider_aliases),
            requirement_aliases: either(&self.requirement_aliases, &over.requirement_aliases),
        }
    }
}

impl SqlQueries {
    fn merge(&self, over: &SqlQueries) -> SqlQueries {
        SqlQueries {
            user: either(&self.user, &over.user),
            realm: either(&self.realm, &over.realm),
            groups: either(&self.groups, &over.groups),
            redirect: either(&self.redirect, &over.redirect),
            to_referer: over.to_referer.or(self.to_referer),
        }
    }
}
