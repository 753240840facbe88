//! The directives about access, and the settings that they fill.
//!
//! Called by: `local`, which merges them with those of other modules.
//! Out of scope: what the settings do (`saker_auth`).

use super::{authn, authz, compat};
use crate::{
    local::Set,
    modules::{core::texts, dir::set_flag},
};
use saker_apache_syntax::Node;
use saker_auth::{
    AuthSettings,
    settings::{Group, Logic},
};
use std::sync::Arc;

/// Settings of authentication and authorization.
#[derive(Clone, Debug, Default)]
pub struct Auth {
    pub settings: AuthSettings,
    /// Containers around the directive that is being read.
    pub(super) open: Vec<Group>,
}

impl Auth {
    pub const DIRECTIVES: &'static [(&'static str, Set)] = &[
        ("AuthType", |node, local, reading| {
            authn::set_text(
                node,
                &mut local.auth.settings.authentication.scheme,
                reading,
            )
        }),
        ("AuthName", |node, local, reading| {
            authn::set_text(node, &mut local.auth.settings.authentication.name, reading)
        }),
        ("AuthBasicProvider", authn::set_basic_providers),
        ("AuthBasicAuthoritative", |node, local, _| {
            set_flag(node, &mut local.auth.settings.authentication.authoritative)
        }),
        ("AuthBasicUseDigestAlgorithm", authn::set_as_digest),
        ("AuthBasicFake", authn::set_fake),
        ("AuthUserFile", |node, local, reading| {
            authn::set_file(
                node,
                &mut local.auth.settings.authentication.user_file,
                reading,
            )
        }),
        ("AuthGroupFile", |node, local, reading| {
            authn::set_file(
                node,
                &mut local.auth.settings.authentication.group_file,
                reading,
            )
        }),
        ("AuthDBMUserFile", |node, local, reading| {
            authn::set_dbm_file(
                node,
                &mut local.auth.settings.authentication.user_dbm,
                reading,
            )
        }),
        ("AuthDBMType", |node, local, _| {
            authn::set_dbm_kind(node, &mut local.auth.settings.authentication.user_dbm)
        }),
        ("AuthDBMGroupFile", |node, local, reading| {
            authn::set_dbm_file(
                node,
                &mut local.auth.settings.authentication.group_dbm,
                reading,
            )
        }),
        ("AuthzDBMType", |node, local, _| {
            authn::set_dbm_kind(node, &mut local.auth.settings.authentication.group_dbm)
        }),
        ("Anonymous", authn::set_anonymous),
        ("Anonymous_MustGiveEmail", |node, local, _| {
            authn::set_anonymous_flag(node, local, |anonymous| &mut anonymous.must_give_email)
        }),
        ("Anonymous_NoUserId", |node, local, _| {
            authn::set_anonymous_flag(node, local, |anonymous| &mut anonymous.without_user)
        }),
        ("Anonymous_VerifyEmail", |node, local, _| {
            authn::set_anonymous_flag(node, local, |anonymous| &mut anonymous.verify_email)
        }),
        ("Anonymous_LogEmail", |node, local, _| {
            authn::set_anonymous_flag(node, local, |anonymous| &mut anonymous.log_email)
        }),
        ("AuthDigestProvider", authn::set_digest_providers),
        ("AuthDigestQop", authn::check_qop),
        ("AuthDigestAlgorithm", authn::check_algorithm),
        ("AuthDigestNonceLifetime", authn::set_nonce_lifetime),
        ("AuthDigestDomain", authn::set_domain),
        ("<AuthnProviderAlias", authn::add_alias),
        ("Require", authz::add_require),
        ("<RequireAll", |node, local, reading| {
            authz::add_group(node, local, reading, Group::new(Logic::All))
        }),
        ("<RequireAny", |node, local, reading| {
            authz::add_group(node, local, reading, Group::new(Logic::Any))
        }),
        ("<RequireNone", |node, local, reading| {
            authz::add_group(node, local, reading, Group::none())
        }),
        ("<AuthzProviderAlias", authz::add_alias),
        ("AuthMerging", authz::set_merging),
        ("AuthzSendForbiddenOnFailure", |node, local, _| {
            set_flag(
                node,
                &mut local.auth.settings.authorization.forbidden_on_failure,
            )
        }),
        ("order", compat::set_order),
        ("allow", |node, local, reading| {
            compat::add(node, local, reading, |rules| &mut rules.allow)
        }),
        ("deny", |node, local, reading| {
            compat::add(node, local, reading, |rules| &mut rules.deny)
        }),
        ("Satisfy", compat::set_satisfy),
        ("AuthDBDUserPWQuery", |node, local, _| {
            set_query(node, &mut local.auth.settings.sql_mut().user)
        }),
        ("AuthDBDUserRealmQuery", |node, local, _| {
            set_query(node, &mut local.auth.settings.sql_mut().realm)
        }),
        ("AuthzDBDQuery", |node, local, _| {
            set_query(node, &mut local.auth.settings.sql_mut().groups)
        }),
        ("AuthzDBDRedirectQuery", |node, local, _| {
            set_query(node, &mut local.auth.settings.sql_mut().redirect)
        }),
        ("AuthzDBDLoginToReferer", |node, local, _| {
            set_flag(node, &mut local.auth.settings.sql_mut().to_referer)
        }),
    ];

    pub fn under(&self, over: &Auth) -> Auth {
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

fn set_query(node: &Node, slot: &mut Option<Arc<str>>) -> Result<(), String> {
    *slot = texts(node).into_iter().next().map(Into::into);
    Ok(())
}
