//! Setters of mod_auth_form.
//!
//! Called by: `directives`.
//! Out of scope: the scheme itself (`saker_auth`), the handlers (`saker_apache`).

use crate::{
    arguments::{first, texts},
    modules::access::{authn, settings::Auth},
    reading::Reading,
};
use saker_apache_syntax::Node;
use saker_auth::settings::{FormFields, FormSettings};

pub(super) fn add_providers(
    node: &Node,
    auth: &mut Auth,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let more = authn::providers(node, reading)?;
    form(auth).providers.get_or_insert_default().extend(more);
    Ok(())
}

pub(super) fn form(auth: &mut Auth) -> &mut FormSettings {
    auth.settings.authentication.form_mut()
}

/// The name of a field.
pub(super) fn set_field(
    node: &Node,
    auth: &mut Auth,
    field: fn(&mut FormFields) -> &mut Option<Box<str>>,
) -> Result<(), String> {
    *field(&mut form(auth).fields) = first(node).map(Into::into);
    Ok(())
}

pub(super) fn set_size(node: &Node, auth: &mut Auth, _: &mut Reading<'_>) -> Result<(), String> {
    let word = first(node).unwrap_or_default();
    let bytes: u64 = word
        .parse()
        .ok()
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| format!("AuthFormSize must be a positive number of bytes, not '{word}'"))?;
    form(auth).bytes_max = Some(bytes);
    Ok(())
}

pub(super) fn set_passphrase(
    node: &Node,
    auth: &mut Auth,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    let passphrase = texts(node).into_iter().next().unwrap_or_default();
    if passphrase.is_empty() {
        return Err("AuthFormSitePassphrase must not be empty".into());
    }
    form(auth).site_passphrase = Some(passphrase.into());
    Ok(())
}
