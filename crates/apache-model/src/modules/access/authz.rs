//! Setters of mod_authz_core: `Require`, its containers and aliases.
//!
//! Called by: the table of directives in `settings`; `load`, which checks finished sections.
//! Out of scope: how rules merge and decide (`saker_auth`).

use crate::{
    modules::access::{
        require,
        settings::{AliasReader, Auth},
    },
    reading::{Place, Reading},
};
use saker_ap_expr::words::word;
use saker_apache_syntax::Node;
use saker_auth::settings::{Group, Logic, Merging, Require, RequirementAlias, Rule};
use std::sync::Arc;

pub(super) fn add_require(
    node: &Node,
    auth: &mut Auth,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let (mut name, mut rest) = word(node.argument_text());
    let negated = name.eq_ignore_ascii_case(b"not");
    if negated {
        (name, rest) = word(rest);
    }
    let requirement = require::parse(&name, rest, node, reading)?;
    let group = auth.innermost();
    if negated && group.logic == Logic::Any {
        return Err(format!(
            "negative Require directive has no effect in {} directive",
            group.name()
        ));
    }
    let text = String::from_utf8_lossy(node.argument_text()).into();
    let require = Require {
        negated,
        methods: reading.methods.clone(),
        requirement,
        text,
        origin: node.origin.clone(),
    };
    group.members.push(Arc::new(Rule::Require(require)));
    Ok(())
}

/// Begins a container; what follows goes into it.
pub fn open_group(node: &Node, auth: &mut Auth, group: Group) -> Result<(), String> {
    if !node.argument_text().is_empty() {
        return Err(format!(
            "{} directive doesn't take additional arguments",
            group.name()
        ));
    }
    auth.open.push(group);
    Ok(())
}

/// Ends the innermost container and puts it into the one around it.
pub fn close_group(auth: &mut Auth) -> Result<(), String> {
    let Some(group) = auth.open.pop() else {
        return Ok(());
    };
    if group.members.is_empty() {
        return Err(format!(
            "{} directive contains no authorization directives",
            group.name()
        ));
    }
    let outer = auth.innermost();
    if group.negated && outer.logic == Logic::Any {
        return Err(format!(
            "{} directive has no effect in {} directive",
            group.name(),
            outer.name()
        ));
    }
    match !group.negated && group.logic == outer.logic {
        true => outer.members.extend(group.members),
        false => outer.members.push(Arc::new(Rule::Group(group))),
    }
    Ok(())
}

/// The name of a provider, that of the alias, and the arguments of the provider.
pub fn add_requirement_alias(
    node: &Node,
    auth: &mut Auth,
    reading: &mut Reading<'_>,
    read: &AliasReader,
) -> Result<(), String> {
    let words = node.arguments();
    let (Some(provider), Some(name)) = (words.first(), words.get(1)) else {
        return Err("<AuthzProviderAlias> directive requires additional arguments".into());
    };
    if words.len() > 3 {
        reading.warn(
            node,
            "only the first argument counts; enclose several in quotation marks",
        );
    }
    let parameters = words.get(2).map(Vec::as_slice).unwrap_or_default();
    let requirement = require::parse(provider, parameters, node, reading)?;
    let settings = read(node, reading);
    let alias = RequirementAlias {
        requirement,
        settings: Arc::new(settings),
    };
    Arc::make_mut(auth.settings.requirement_aliases.get_or_insert_default())
        .insert(name.as_slice().into(), alias);
    Ok(())
}

pub(super) fn set_merging(node: &Node, auth: &mut Auth, _: &mut Reading<'_>) -> Result<(), String> {
    let word = node
        .arguments()
        .into_iter()
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    auth.settings.authorization.merging = Some(match word.as_slice() {
        b"off" => Merging::Off,
        b"and" => Merging::With(Logic::All),
        b"or" => Merging::With(Logic::Any),
        _ => return Err("AuthMerging must be one of: Off | And | Or".into()),
    });
    Ok(())
}

/// Checks the rules of a section once it has been read. Apache refuses to start with rules that can
/// only deny; in `.htaccess` files it does not check.
pub fn check(auth: &Auth, reading: &Reading<'_>) -> Option<String> {
    match reading.place {
        Place::Htaccess(_) => None,
        _ => auth.settings.authorization.check().err(),
    }
}
