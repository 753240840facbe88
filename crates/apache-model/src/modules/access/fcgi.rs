//! Setters of mod_authnz_fcgi.
//!
//! Called by: `directives`. A provider of the server is kept as an alias is: a name for users, for
//! requirements, or for both.
//! Out of scope: asking (`saker_auth::fcgi`).

use crate::{
    arguments::texts,
    modules::access::{authn, settings::Auth},
    reading::Reading,
};
use saker_apache_syntax::Node;
use saker_auth::{
    AuthSettings, fcgi_requirement,
    settings::{FcgiAuthorizer, FcgiCheck, FcgiDuty, Provider, ProviderAlias, RequirementAlias},
};
use saker_config::model::BackendAddress;
use std::sync::Arc;

/// Type, name, and address of a provider.
pub(super) fn define(node: &Node, auth: &mut Auth, _: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let [kind, name, address] = words.as_slice() else {
        return Err("AuthnzFcgiDefineProvider: a type, a name and an address are needed".into());
    };
    let duty = FcgiDuty::named(kind).ok_or("Invalid provider type")?;
    let server = address
        .strip_prefix("fcgi://")
        .map(|rest| rest.split('/').next().unwrap_or_default());
    let Some(BackendAddress::Tcp { host, port }) =
        server.and_then(|server| BackendAddress::tcp(server, 8000))
    else {
        return Err(format!("'{address}' is no address of a FastCGI program"));
    };
    let authorizer = Arc::new(FcgiAuthorizer {
        name: name.as_str().into(),
        duty,
        host,
        port,
    });
    let settings = Arc::new(AuthSettings::default());
    if authorizer.knows_users() {
        let alias = ProviderAlias {
            provider: Provider::Fcgi(Arc::clone(&authorizer)),
            settings: Arc::clone(&settings),
        };
        let all = auth.settings.provider_aliases.get_or_insert_default();
        Arc::make_mut(all).insert(name.as_bytes().into(), alias);
    }
    if authorizer.knows_requirements() {
        let alias = RequirementAlias {
            requirement: fcgi_requirement(&authorizer),
            settings,
        };
        let all = auth.settings.requirement_aliases.get_or_insert_default();
        Arc::make_mut(all).insert(name.as_bytes().into(), alias);
    }
    Ok(())
}

/// A provider, and how its decision is taken.
pub(super) fn check(node: &Node, auth: &mut Auth, reading: &mut Reading<'_>) -> Result<(), String> {
    let words = texts(node);
    let (name, options) = words.split_first().ok_or("a provider is needed")?;
    if name.eq_ignore_ascii_case("none") {
        auth.settings.authentication.fcgi = Some(None);
        return Ok(());
    }
    if !reading.aliases.authn.iter().any(|known| **known == **name) {
        return Err(format!("Unknown Authn provider: {name}"));
    }
    let mut check = FcgiCheck {
        authorizer: name.as_str().into(),
        is_authoritative: true,
        default_user: None,
        requires_credentials: false,
        user: None,
    };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let value = options
            .next()
            .ok_or_else(|| format!("{option} has no value"))?;
        match option.to_ascii_lowercase().as_str() {
            "authoritative" => check.is_authoritative = flag(value)?,
            "requirebasicauth" => check.requires_credentials = flag(value)?,
            "defaultuser" => check.default_user = Some(value.as_str().into()),
            "userexpr" => check.user = Some(authn::compiled(value.as_bytes(), reading)?),
            _ => return Err(format!("Unexpected option '{option}'")),
        }
    }
    auth.settings.authentication.fcgi = Some(Some(Arc::new(check)));
    Ok(())
}

fn flag(word: &str) -> Result<bool, String> {
    match word.to_ascii_lowercase().as_str() {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("'{word}' is neither On nor Off")),
    }
}
