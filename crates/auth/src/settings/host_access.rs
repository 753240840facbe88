//! Order, Allow, Deny and Satisfy (mod_access_compat).
//!
//! Called by: `AuthSettings`; decided by `host_rules`.
//! Caveat: the module has no merge of its own, so a section with any of these settings replaces all
//! of them; Order and Satisfy are kept per method, so `<Limit>` can change them for some.

use super::methods::Methods;
use saker_ap_expr::Subnet;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    AllowThenDeny,
    /// A client that neither list names is allowed.
    #[default]
    DenyThenAllow,
    MutualFailure,
}

/// A client in a list of Allow or Deny.
#[derive(Clone, Debug)]
pub enum Source {
    All,
    Ip(Subnet),
    /// A host name, or the end of one.
    Host(Box<[u8]>),
    Environment {
        name: Box<[u8]>,
        negated: bool,
    },
}

/// Settings for some methods.
pub type ForMethods<T> = Vec<(Methods, T)>;

/// The settings of one section.
#[derive(Clone, Debug, Default)]
pub struct HostRules {
    /// The last one for a method counts.
    pub order: ForMethods<Order>,
    pub satisfy_any: ForMethods<bool>,
    pub allow: ForMethods<Source>,
    pub deny: ForMethods<Source>,
}

/// The rules in force; `None`: every client is allowed.
#[derive(Clone, Debug, Default)]
pub struct HostAccess {
    pub rules: Option<Arc<HostRules>>,
}

impl HostAccess {
    pub fn is_set(&self) -> bool {
        self.rules.is_some()
    }

    pub(super) fn merge(&self, over: &HostAccess) -> HostAccess {
        HostAccess {
            rules: over.rules.as_ref().or(self.rules.as_ref()).cloned(),
        }
    }

    /// The rules of this section, to be changed.
    pub fn rules_mut(&mut self) -> &mut HostRules {
        Arc::make_mut(self.rules.get_or_insert_default())
    }

    /// Returns whether either the client's address or its user suffices (`Satisfy any`).
    pub fn satisfy_any(&self, method: &[u8]) -> bool {
        self.rules
            .as_ref()
            .and_then(|rules| last_for(&rules.satisfy_any, method))
            .unwrap_or_default()
    }
}

/// The last setting for a method.
pub fn last_for<T: Copy>(all: &ForMethods<T>, method: &[u8]) -> Option<T> {
    all.iter()
        .rev()
        .find(|(methods, _)| methods.include(method))
        .map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_setting_for_a_method_counts() {
        let get: Vec<Box<[u8]>> = vec![b"GET".as_slice().into()];
        let all = vec![(Methods::All, 1), (Methods::Only(get), 2)];
        assert_eq!(
            (
                last_for(&all, b"HEAD"),
                last_for(&all, b"POST"),
                last_for::<u8>(&vec![], b"GET")
            ),
            (Some(2), Some(1), None)
        );
    }
}
