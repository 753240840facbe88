//! mod_authz_core: `Require` and the containers around it.
//!
//! Difficulty: sections of the configuration replace each other's rules as a whole unless
//! AuthMerging says otherwise, and rules in `<Limit>` count for some methods only: a rule for other
//! methods grants where all must, and says nothing where any may.

use super::requirement::Requirement;
use crate::{
    load::{read_all, read_one},
    local::{Local, Set},
    modules::dir::set_flag,
    reading::{Methods, Place, Reading},
};
use saker_ap_expr::words::word;
use saker_apache_syntax::Node;
use saker_config::model::Origin;
use std::{collections::HashMap, sync::Arc};

/// How the rules of a container go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logic {
    All,
    Any,
}

/// A container, or what a section says outside of any.
#[derive(Clone, Debug)]
pub struct Group {
    pub logic: Logic,
    /// `<RequireNone>`.
    pub negated: bool,
    pub members: Vec<Arc<Rule>>,
}

#[derive(Clone, Debug)]
pub enum Rule {
    Group(Group),
    Require(Require),
}

#[derive(Clone, Debug)]
pub struct Require {
    pub negated: bool,
    pub methods: Methods,
    pub requirement: Requirement,
    /// As it was written, for those who ask what decided.
    pub text: Box<str>,
    pub origin: Origin,
}

impl Rule {
    pub fn is_for(&self, method: &[u8]) -> bool {
        match self {
            Rule::Group(group) => group.is_for(method),
            Rule::Require(require) => require.methods.include(method),
        }
    }

    fn is_negated(&self) -> bool {
        match self {
            Rule::Group(group) => group.negated,
            Rule::Require(require) => require.negated,
        }
    }
}

impl Group {
    fn new(logic: Logic) -> Group {
        Group {
            logic,
            negated: false,
            members: Vec::new(),
        }
    }

    pub fn is_for(&self, method: &[u8]) -> bool {
        self.members.iter().any(|rule| rule.is_for(method))
    }

    fn name(&self) -> &'static str {
        match (self.logic, self.negated) {
            (Logic::All, _) => "<RequireAll>",
            (Logic::Any, false) => "<RequireAny>",
            (Logic::Any, true) => "<RequireNone>",
        }
    }

    /// The name of a container, this one or one inside, that can never grant anything.
    fn only_negative(&self) -> Option<&'static str> {
        let inner = self.members.iter().find_map(|rule| match &**rule {
            Rule::Group(group) => group.only_negative(),
            Rule::Require(_) => None,
        });
        inner.or_else(|| {
            self.members
                .iter()
                .all(|rule| rule.is_negated())
                .then(|| self.name())
        })
    }
}

/// `<AuthzProviderAlias>`: a requirement with settings of its own. All of them stand in the
/// server's own configuration.
#[derive(Clone, Debug)]
pub struct ProviderAlias {
    pub requirement: Requirement,
    pub local: Arc<Local>,
}

/// AuthMerging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    Off,
    With(Logic),
}

#[derive(Clone, Debug, Default)]
pub struct Authz {
    pub group: Option<Arc<Group>>,
    merging: Option<Merging>,
    pub forbidden_on_failure: Option<bool>,
    /// By name, which tells capital letters from small ones.
    pub aliases: Option<Arc<HashMap<Box<[u8]>, ProviderAlias>>>,
    /// Containers around the directive that is being read.
    open: Vec<Group>,
}

impl Authz {
    pub const DIRECTIVES: &'static [(&'static str, Set)] = &[
        ("Require", add_require),
        ("<RequireAll", |node, local, reading| {
            add_group(node, local, reading, Group::new(Logic::All))
        }),
        ("<RequireAny", |node, local, reading| {
            add_group(node, local, reading, Group::new(Logic::Any))
        }),
        ("<RequireNone", |node, local, reading| {
            add_group(
                node,
                local,
                reading,
                Group {
                    negated: true,
                    ..Group::new(Logic::Any)
                },
            )
        }),
        ("<AuthzProviderAlias", add_alias),
        ("AuthMerging", set_merging),
        ("AuthzSendForbiddenOnFailure", |node, local, _| {
            set_flag(node, &mut local.authz.forbidden_on_failure)
        }),
    ];

    pub fn under(&self, over: &Authz) -> Authz {
        let forbidden_on_failure = over.forbidden_on_failure.or(self.forbidden_on_failure);
        // Sections of one kind are laid over each other before they are laid over folders, so what
        // they said about merging stays said.
        let (merging, group) = match (over.merging, &self.group, &over.group) {
            (None, group @ Some(_), None) => (self.merging, group.clone()),
            (None | Some(Merging::Off), _, group) => (over.merging, group.clone()),
            (Some(Merging::With(logic)), Some(outer), Some(inner)) => {
                (over.merging, Some(Arc::new(merged(logic, outer, inner))))
            }
            (Some(Merging::With(_)), outer, inner) => {
                (over.merging, inner.as_ref().or(outer.as_ref()).cloned())
            }
        };
        let aliases = over.aliases.as_ref().or(self.aliases.as_ref()).cloned();
        Authz {
            group,
            merging,
            forbidden_on_failure,
            aliases,
            open: Vec::new(),
        }
    }

    /// Where the next rule goes.
    fn innermost(&mut self) -> &mut Group {
        match self.open.last_mut() {
            Some(group) => group,
            None => Arc::make_mut(
                self.group
                    .get_or_insert_with(|| Arc::new(Group::new(Logic::Any))),
            ),
        }
    }

    /// Apache refuses to start with rules that can only deny; in `.htaccess` it doesn't look.
    pub fn complaint(&self) -> Option<String> {
        let name = self.group.as_ref()?.only_negative()?;
        let shown = if self
            .group
            .as_ref()
            .is_some_and(|group| group.members.iter().all(|rule| rule.is_negated()))
        {
            "<Directory>, <Location>, or similar"
        } else {
            name
        };
        Some(format!(
            "{shown} directive contains only negative authorization directives"
        ))
    }
}

fn merged(logic: Logic, outer: &Group, inner: &Group) -> Group {
    let members = [outer, inner].map(|group| Arc::new(Rule::Group(group.clone())));
    Group {
        logic,
        negated: false,
        members: members.into(),
    }
}

fn add_require(node: &Node, local: &mut Local, reading: &mut Reading<'_>) -> Result<(), String> {
    let (mut name, mut rest) = word(node.argument_text());
    let negated = name.eq_ignore_ascii_case(b"not");
    if negated {
        (name, rest) = word(rest);
    }
    let requirement = Requirement::parse(&name, rest, node, reading)?;
    let group = local.authz.innermost();
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

fn add_group(
    node: &Node,
    local: &mut Local,
    reading: &mut Reading<'_>,
    group: Group,
) -> Result<(), String> {
    if !node.argument_text().is_empty() {
        return Err(format!(
            "{} directive doesn't take additional arguments",
            group.name()
        ));
    }
    local.authz.open.push(group);
    node.children
        .iter()
        .for_each(|child| read_one(child, local, reading));
    let Some(group) = local.authz.open.pop() else {
        return Ok(());
    };
    if group.members.is_empty() {
        return Err(format!(
            "{} directive contains no authorization directives",
            group.name()
        ));
    }
    let outer = local.authz.innermost();
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

/// A provider, the alias, and what would stand behind the provider after `Require`.
fn add_alias(node: &Node, local: &mut Local, reading: &mut Reading<'_>) -> Result<(), String> {
    let words = node.arguments();
    let (Some(provider), Some(name)) = (words.first(), words.get(1)) else {
        return Err("<AuthzProviderAlias> directive requires additional arguments".into());
    };
    if words.len() > 3 {
        reading.warn(
            node,
            "only the first argument counts; several must be enclosed in quotation marks",
        );
    }
    let parameters = words.get(2).map(Vec::as_slice).unwrap_or_default();
    let requirement = Requirement::parse(provider, parameters, node, reading)?;
    let inner = read_all(&node.children, reading);
    let alias = ProviderAlias {
        requirement,
        local: Arc::from(inner),
    };
    Arc::make_mut(local.authz.aliases.get_or_insert_default())
        .insert(name.as_slice().into(), alias);
    Ok(())
}

fn set_merging(node: &Node, local: &mut Local, _: &mut Reading<'_>) -> Result<(), String> {
    let word = node
        .arguments()
        .into_iter()
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    local.authz.merging = Some(match word.as_slice() {
        b"off" => Merging::Off,
        b"and" => Merging::With(Logic::All),
        b"or" => Merging::With(Logic::Any),
        _ => return Err("AuthMerging must be one of: Off | And | Or".into()),
    });
    Ok(())
}

/// To be called when a section of the server's configuration has been read whole.
pub fn check(local: &Local, reading: &Reading<'_>) -> Option<String> {
    match reading.place {
        Place::Htaccess(_) => None,
        _ => local.authz.complaint(),
    }
}
