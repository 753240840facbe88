//! Setters of mod_authn_core, mod_auth_basic, mod_auth_digest, mod_authn_file, mod_authn_anon,
//! mod_authn_dbm, mod_authz_groupfile and mod_authz_dbm.
//!
//! Called by: the table of directives in `settings`.
//! Out of scope: what the settings do (`saker_auth`).

use crate::{
    arguments::{set_flag, texts},
    modules::access::settings::{AliasReader, Auth},
    reading::Reading,
};
use saker_ap_expr::StringExpression;
use saker_apache_syntax::Node;
use saker_auth::settings::{Anonymous, DbmFile, Provider, ProviderAlias};
use std::{path::PathBuf, sync::Arc};

fn first(node: &Node) -> String {
    texts(node).into_iter().next().unwrap_or_default()
}

/// `off`, or a user name and optionally a password.
pub(super) fn set_fake(
    node: &Node,
    auth: &mut Auth,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let words = node.arguments();
    let user = words.first().map(Vec::as_slice).unwrap_or_default();
    if user.eq_ignore_ascii_case(b"off") {
        auth.settings.authentication.fake = Some(None);
        return Ok(());
    }
    let password = words.get(1).map_or(&b"password"[..], Vec::as_slice);
    auth.settings.authentication.fake = Some(Some((
        compiled(user, reading)?,
        compiled(password, reading)?,
    )));
    Ok(())
}

pub(super) fn set_text(
    node: &Node,
    slot: &mut Option<Arc<StringExpression>>,
    reading: &Reading<'_>,
) -> Result<(), String> {
    *slot = Some(compiled(
        &node.arguments().into_iter().next().unwrap_or_default(),
        reading,
    )?);
    Ok(())
}

pub(super) fn compiled(
    text: &[u8],
    reading: &Reading<'_>,
) -> Result<Arc<StringExpression>, String> {
    let compiled = StringExpression::compile(text, reading.expression_options());
    compiled.map(Arc::new).map_err(|error| {
        format!(
            "Cannot parse expression '{}': {}",
            String::from_utf8_lossy(text),
            error.message
        )
    })
}

pub(super) fn set_file(
    node: &Node,
    slot: &mut Option<PathBuf>,
    reading: &Reading<'_>,
) -> Result<(), String> {
    *slot = Some(reading.server_path(first(node).as_bytes()));
    Ok(())
}

pub(super) fn set_dbm_file(
    node: &Node,
    slot: &mut Option<Arc<DbmFile>>,
    reading: &Reading<'_>,
) -> Result<(), String> {
    set_file(
        node,
        &mut Arc::make_mut(slot.get_or_insert_default()).file,
        reading,
    )
}

pub(super) fn set_dbm_kind(node: &Node, slot: &mut Option<Arc<DbmFile>>) -> Result<(), String> {
    Arc::make_mut(slot.get_or_insert_default()).kind = first(node).into();
    Ok(())
}

fn provider(word: &str, reading: &Reading<'_>) -> Result<Provider, String> {
    Ok(match word.to_ascii_lowercase().as_str() {
        "file" => Provider::File,
        "dbm" => Provider::Dbm,
        "anon" => Provider::Anonymous,
        "dbd" => Provider::Sql,
        "socache" => Provider::Cache,
        "ldap" => Provider::Ldap,
        _ if reading.aliases.authn.iter().any(|known| **known == *word) => {
            Provider::Alias(word.into())
        }
        _ => return Err(format!("Unknown Authn provider: {word}")),
    })
}

pub(super) fn providers(node: &Node, reading: &mut Reading<'_>) -> Result<Vec<Provider>, String> {
    texts(node)
        .iter()
        .map(|word| provider(word, reading))
        .collect()
}

pub(super) fn set_basic_providers(
    node: &Node,
    auth: &mut Auth,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let more = providers(node, reading)?;
    auth.settings
        .authentication
        .providers
        .get_or_insert_default()
        .extend(more);
    Ok(())
}

pub(super) fn set_digest_providers(
    node: &Node,
    auth: &mut Auth,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let more = providers(node, reading)?;
    if more.contains(&Provider::Anonymous) {
        return Err("The 'anon' Authn provider doesn't support Digest Authentication".into());
    }
    auth.settings
        .authentication
        .digest_mut()
        .providers
        .extend(more);
    Ok(())
}

pub(super) fn set_as_digest(
    node: &Node,
    auth: &mut Auth,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    let word = first(node);
    auth.settings.authentication.as_digest = Some(match word.to_ascii_lowercase().as_str() {
        "off" => false,
        "md5" => true,
        _ => {
            return Err(format!(
                "Invalid algorithm in AuthBasicUseDigestAlgorithm: {word}"
            ));
        }
    });
    Ok(())
}

pub(super) fn set_anonymous(
    node: &Node,
    auth: &mut Auth,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    for word in texts(node) {
        match word.as_str() {
            "*" => auth.settings.authentication.anonymous_mut().any_user = true,
            _ => auth
                .settings
                .authentication
                .anonymous_mut()
                .users
                .push(word.into()),
        }
    }
    Ok(())
}

pub(super) fn set_anonymous_flag(
    node: &Node,
    auth: &mut Auth,
    flag: fn(&mut Anonymous) -> &mut bool,
) -> Result<(), String> {
    let mut on = None;
    set_flag(node, &mut on)?;
    *flag(auth.settings.authentication.anonymous_mut()) = on.unwrap_or_default();
    Ok(())
}

pub(super) fn check_qop(node: &Node, auth: &mut Auth, _: &mut Reading<'_>) -> Result<(), String> {
    auth.settings.authentication.digest_mut();
    match texts(node)
        .iter()
        .all(|word| word.eq_ignore_ascii_case("auth"))
    {
        true => Ok(()),
        false => Err("AuthDigestQop is deprecated: only 'auth' is supported".into()),
    }
}

pub(super) fn check_algorithm(
    node: &Node,
    auth: &mut Auth,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    auth.settings.authentication.digest_mut();
    let word = first(node);
    match word.eq_ignore_ascii_case("MD5") {
        true => Ok(()),
        false => Err(format!(
            "Unsupported algorithm in AuthDigestAlgorithm: {word}"
        )),
    }
}

pub(super) fn set_nonce_lifetime(
    node: &Node,
    auth: &mut Auth,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    let word = first(node);
    let seconds = word
        .parse()
        .map_err(|_| format!("Invalid time in AuthDigestNonceLifetime: {word}"))?;
    auth.settings.authentication.digest_mut().nonce_lifetime_s = Some(seconds);
    Ok(())
}

pub(super) fn set_domain(node: &Node, auth: &mut Auth, _: &mut Reading<'_>) -> Result<(), String> {
    auth.settings
        .authentication
        .digest_mut()
        .domain
        .extend(texts(node).into_iter().map(Into::into));
    Ok(())
}

/// The name of a provider, then that of the alias.
pub fn add_provider_alias(
    node: &Node,
    auth: &mut Auth,
    reading: &mut Reading<'_>,
    read: &AliasReader,
) -> Result<(), String> {
    let words = texts(node);
    let (Some(kind), Some(name)) = (words.first(), words.get(1)) else {
        return Err("<AuthnProviderAlias> directive requires additional arguments".into());
    };
    if name.eq_ignore_ascii_case(kind) {
        return Err(
            "The alias provider name must be different from the base provider name.".into(),
        );
    }
    let provider = provider(kind, reading)?;
    let settings = read(node, reading);
    let alias = ProviderAlias {
        provider,
        settings: Arc::new(settings),
    };
    Arc::make_mut(auth.settings.provider_aliases.get_or_insert_default())
        .insert(name.as_bytes().into(), alias);
    Ok(())
}
