//! Log-in by a form (mod_auth_form).
//!
//! Called by: `Authentication`; read by `form`.
//! Caveat: the names of the form's fields have defaults, which Apache documents.

use super::{merge::either, provider::Provider};
use saker_ap_expr::StringExpression;
use std::sync::Arc;

/// Bytes of a form by default.
const FORM_BYTES: u64 = 8192;

/// Settings of the scheme `Form`.
#[derive(Clone, Debug, Default)]
pub struct FormSettings {
    /// `None` or empty: the password file.
    pub providers: Option<Vec<Provider>>,
    pub fields: FormFields,
    pub bytes_max: Option<u64>,
    /// URL for clients who have to log in, in place of a 401.
    pub login_required: Option<Arc<StringExpression>>,
    /// URL after a log-in.
    pub login_success: Option<Arc<StringExpression>>,
    /// URL after a log-out.
    pub logout: Option<Arc<StringExpression>>,
    /// Secret that stands for the password in later requests of a session.
    pub site_passphrase: Option<Box<str>>,
    /// Unknown users are refused (the default); else another module may decide.
    pub authoritative: Option<bool>,
    /// Upstreams get the credentials as those of Basic.
    pub fakes_basic: Option<bool>,
    /// The log-in page may be stored.
    pub may_be_stored: Option<bool>,
}

/// Names of the fields of the form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormFields {
    pub user: Option<Box<str>>,
    pub password: Option<Box<str>>,
    pub location: Option<Box<str>>,
    pub method: Option<Box<str>>,
    pub media_type: Option<Box<str>>,
    pub content: Option<Box<str>>,
}

impl FormFields {
    fn merge(&self, over: &FormFields) -> FormFields {
        FormFields {
            user: either(&self.user, &over.user),
            password: either(&self.password, &over.password),
            location: either(&self.location, &over.location),
            method: either(&self.method, &over.method),
            media_type: either(&self.media_type, &over.media_type),
            content: either(&self.content, &over.content),
        }
    }
}

impl FormSettings {
    pub(super) fn merge(&self, over: &FormSettings) -> FormSettings {
        FormSettings {
            providers: either(&self.providers, &over.providers),
            fields: self.fields.merge(&over.fields),
            bytes_max: over.bytes_max.or(self.bytes_max),
            login_required: either(&self.login_required, &over.login_required),
            login_success: either(&self.login_success, &over.login_success),
            logout: either(&self.logout, &over.logout),
            site_passphrase: either(&self.site_passphrase, &over.site_passphrase),
            authoritative: over.authoritative.or(self.authoritative),
            fakes_basic: over.fakes_basic.or(self.fakes_basic),
            may_be_stored: over.may_be_stored.or(self.may_be_stored),
        }
    }

    /// Bytes of a form; larger ones are refused with 413.
    pub fn form_bytes_max(&self) -> u64 {
        self.bytes_max.unwrap_or(FORM_BYTES)
    }
}
