//! Settings of authentication and authorization.
//!
//! Called by: `local`, which merges them with those of other modules.
//! Out of scope: what the settings do (`saker_auth`).

use crate::reading::Reading;
use saker_apache_syntax::Node;
use saker_auth::{AuthSettings, settings::Group};

/// Settings of authentication and authorization.
#[derive(Clone, Debug, Default)]
pub struct Auth {
    pub settings: AuthSettings,
    /// Containers around the directive that is being read.
    pub(super) open: Vec<Group>,
}

/// Reads the settings in a provider's alias; handed in by the reader of sections.
pub type AliasReader = dyn Fn(&Node, &mut Reading<'_>) -> AuthSettings;

impl Auth {
    pub fn merge(&self, over: &Auth) -> Auth {
        Auth {
            settings: self.settings.merge(&over.settings),
            open: Vec::new(),
        }
    }

    /// Returns whether any rule decides who has access.
    pub fn has_rules(&self) -> bool {
        self.settings.authorization.group.is_some() || self.settings.host_access.is_set()
    }

    /// The container that the next rule goes into.
    pub(super) fn innermost(&mut self) -> &mut Group {
        match self.open.last_mut() {
            Some(group) => group,
            None => self.settings.authorization.rules_mut(),
        }
    }
}
