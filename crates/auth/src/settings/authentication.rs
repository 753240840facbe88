//! Authentication of clients: scheme, realm, providers.
//!
//! Called by: `AuthSettings`.
//! Caveat: Apache merges each of its modules in its own way. Most settings override one by one;
//! mod_authn_anon, mod_auth_digest and the DBM modules have no merge, so a section with any of
//! their settings replaces all of them.

use super::{fcgi::FcgiCheck, form::FormSettings, merge::either, provider::Provider};
use saker_ap_expr::StringExpression;
use std::{path::PathBuf, sync::Arc};

/// Users without passwords (mod_authn_anon).
#[derive(Clone, Debug)]
pub struct Anonymous {
    pub users: Vec<Box<str>>,
    /// Every user name is accepted (`*`).
    pub any_user: bool,
    /// An empty user name is accepted.
    pub without_user: bool,
    pub must_give_email: bool,
    pub verify_email: bool,
    pub log_email: bool,
}

impl Default for Anonymous {
    fn default() -> Anonymous {
        Anonymous {
            users: Vec::new(),
            any_user: false,
            without_user: false,
            must_give_email: true,
            verify_email: false,
            log_email: true,
        }
    }
}

/// A DBM file of users, or of the groups of users.
#[derive(Clone, Debug)]
pub struct DbmFile {
    pub file: Option<PathBuf>,
    /// The kind by its APR name.
    pub kind: Box<str>,
}

impl Default for DbmFile {
    fn default() -> DbmFile {
        DbmFile {
            file: None,
            kind: "default".into(),
        }
    }
}

/// Settings of the Digest scheme.
#[derive(Clone, Debug, Default)]
pub struct DigestSettings {
    pub providers: Vec<Provider>,
    /// Paths for which the same credentials are valid.
    pub domain: Vec<Box<str>>,
    /// Seconds; 0: one request, negative: unlimited.
    pub nonce_lifetime_s: Option<i64>,
}

/// User name and password as texts that may contain variables.
pub type CredentialTexts = (Arc<StringExpression>, Arc<StringExpression>);

/// Authentication settings for clients.
#[derive(Clone, Debug, Default)]
pub struct Authentication {
    /// `Basic`, `Digest`, `Form` or `None`.
    pub scheme: Option<Arc<StringExpression>>,
    /// The realm.
    pub name: Option<Arc<StringExpression>>,
    /// Providers of Basic. `None` or empty: the password file.
    pub providers: Option<Vec<Provider>>,
    /// Unknown users are refused (the default); else another module may decide.
    pub authoritative: Option<bool>,
    /// Passwords of Basic are checked against hashes of Digest.
    pub as_digest: Option<bool>,
    /// Credentials that programs get instead (AuthBasicFake); `Some(None)`: the client's own.
    pub fake: Option<Option<CredentialTexts>>,
    pub user_file: Option<PathBuf>,
    pub group_file: Option<PathBuf>,
    pub user_dbm: Option<Arc<DbmFile>>,
    pub group_dbm: Option<Arc<DbmFile>>,
    pub anonymous: Option<Arc<Anonymous>>,
    pub digest: Option<Arc<DigestSettings>>,
    pub form: Option<Arc<FormSettings>>,
    /// A FastCGI authorizer in the place of a scheme; `Some(None)`: none here.
    pub fcgi: Option<Option<Arc<FcgiCheck>>>,
}

impl Authentication {
    pub(super) fn merge(&self, over: &Authentication) -> Authentication {
        Authentication {
            scheme: either(&self.scheme, &over.scheme),
            name: either(&self.name, &over.name),
            providers: either(&self.providers, &over.providers),
            authoritative: over.authoritative.or(self.authoritative),
            as_digest: over.as_digest.or(self.as_digest),
            fake: either(&self.fake, &over.fake),
            user_file: either(&self.user_file, &over.user_file),
            group_file: either(&self.group_file, &over.group_file),
            user_dbm: either(&self.user_dbm, &over.user_dbm),
            group_dbm: either(&self.group_dbm, &over.group_dbm),
            anonymous: either(&self.anonymous, &over.anonymous),
            digest: either(&self.digest, &over.digest),
            form: match (&self.form, &over.form) {
                (Some(outer), Some(inner)) if !Arc::ptr_eq(outer, inner) => {
                    Some(Arc::new(outer.merge(inner)))
                }
                (outer, inner) => either(outer, inner),
            },
            fcgi: either(&self.fcgi, &over.fcgi),
        }
    }

    /// The settings of forms, to be changed.
    pub fn form_mut(&mut self) -> &mut FormSettings {
        Arc::make_mut(self.form.get_or_insert_default())
    }

    /// The settings of Digest, to be changed.
    pub fn digest_mut(&mut self) -> &mut DigestSettings {
        Arc::make_mut(self.digest.get_or_insert_default())
    }

    /// The settings of anonymous users, to be changed.
    pub fn anonymous_mut(&mut self) -> &mut Anonymous {
        Arc::make_mut(self.anonymous.get_or_insert_default())
    }
}
