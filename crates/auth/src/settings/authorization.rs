//! `Require` rules and the containers around them (mod_authz_core).
//!
//! Called by: `AuthSettings`.
//! Caveat: the rules of a section replace those outside as a whole unless `merging` is set. Rules
//! for some methods only grant where all must and are neutral where any may, for other methods.

use super::{merge::either, methods::Methods, requirement::Requirement};
use saker_config::model::Origin;
use std::sync::Arc;

/// Combination of a container's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logic {
    All,
    Any,
}

/// A container of rules, or the rules of a section outside any container.
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

/// One `Require` line.
#[derive(Clone, Debug)]
pub struct Require {
    pub negated: bool,
    pub methods: Methods,
    pub requirement: Requirement,
    /// The line as written, for `saker explain`.
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
    pub fn new(logic: Logic) -> Group {
        Group {
            logic,
            negated: false,
            members: Vec::new(),
        }
    }

    /// `<RequireNone>`.
    pub fn none() -> Group {
        Group {
            negated: true,
            ..Group::new(Logic::Any)
        }
    }

    pub fn is_for(&self, method: &[u8]) -> bool {
        self.members.iter().any(|rule| rule.is_for(method))
    }

    /// The name of the container in Apache's configuration.
    pub fn name(&self) -> &'static str {
        match (self.logic, self.negated) {
            (Logic::All, _) => "<RequireAll>",
            (Logic::Any, false) => "<RequireAny>",
            (Logic::Any, true) => "<RequireNone>",
        }
    }

    /// The name of a container, this one or one inside, that can never grant access.
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

/// Combination of a section's rules with those outside it (AuthMerging).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    Off,
    With(Logic),
}

/// The rules of a place.
#[derive(Clone, Debug, Default)]
pub struct Authorization {
    pub group: Option<Arc<Group>>,
    pub merging: Option<Merging>,
    /// Users who may not are refused with 403 instead of another challenge.
    pub forbidden_on_failure: Option<bool>,
    /// A place without rules is open, whatever scheme of authentication it names: as if all were
    /// granted outside of it.
    pub is_open: bool,
}

impl Authorization {
    pub(super) fn merge(&self, over: &Authorization) -> Authorization {
        // Sections of one kind are merged with each other before they are merged over directories,
        // so their setting of AuthMerging is kept.
        let (merging, group) = match (over.merging, &self.group, &over.group) {
            (None, group @ Some(_), None) => (self.merging, group.clone()),
            (None | Some(Merging::Off), _, group) => (over.merging, group.clone()),
            (Some(Merging::With(logic)), Some(outer), Some(inner)) => {
                (over.merging, Some(Arc::new(combined(logic, outer, inner))))
            }
            (Some(Merging::With(_)), outer, inner) => (over.merging, either(outer, inner)),
        };
        Authorization {
            group,
            merging,
            forbidden_on_failure: over.forbidden_on_failure.or(self.forbidden_on_failure),
            is_open: self.is_open || over.is_open,
        }
    }

    /// The rules outside any container, to be added to.
    pub fn rules_mut(&mut self) -> &mut Group {
        Arc::make_mut(
            self.group
                .get_or_insert_with(|| Arc::new(Group::new(Logic::Any))),
        )
    }

    /// Returns an error for rules that can only deny.
    pub fn check(&self) -> Result<(), String> {
        let Some((group, name)) = self
            .group
            .as_ref()
            .and_then(|group| Some((group, group.only_negative()?)))
        else {
            return Ok(());
        };
        let shown = if group.members.iter().all(|rule| rule.is_negated()) {
            "<Directory>, <Location>, or similar"
        } else {
            name
        };
        Err(format!(
            "{shown} directive contains only negative authorization directives"
        ))
    }
}

fn combined(logic: Logic, outer: &Group, inner: &Group) -> Group {
    let members = [outer, inner].map(|group| Arc::new(Rule::Group(group.clone())));
    Group {
        logic,
        negated: false,
        members: members.into(),
    }
}
