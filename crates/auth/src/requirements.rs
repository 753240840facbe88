//! Checks one requirement against a request.
//!
//! Called by: `decide`, for each `Require` line. Caveat: a requirement that needs a user returns
//! [`Decision::DeniedWithoutUser`] before the client was asked to authenticate, so "no" and "not
//! without a user" are different results.

use crate::{
    client_names::{addresses_of, in_domain, verified_name},
    context::{AuthContext, Decision},
    fcgi, groups, ldap,
    settings::{Requirement, as_numbered, requirement::Words},
    sql,
};
use saker_ap_expr::{Dependency, Expression};

/// Decides whether the requirement holds.
pub fn check(context: &mut AuthContext<'_>, requirement: &Requirement) -> Decision {
    let holds = match requirement {
        Requirement::All(granted) => *granted,
        Requirement::Environment(names) => {
            context.request.depends_on(Dependency::Environment);
            names.iter().any(|name| context.request.has_variable(name))
        }
        Requirement::Method(names) => {
            // Not a dependency: only GET and HEAD are answered from a cache, and they are one here.
            let method = as_numbered(context.request.method());
            names.iter().any(|name| **name == *method)
        }
        Requirement::Expression {
            expression,
            wants_user,
        } => return check_expression(context, expression, *wants_user),
        Requirement::Ip(networks) => networks.iter().any(|network| context.is_client_in(network)),
        Requirement::Local => {
            context.request.depends_on(Dependency::Client);
            let client = context.request.client_address();
            client.is_loopback() || client == context.request.local_address()
        }
        // The listener's, like the scheme.
        Requirement::Tls => context.request.is_tls(),
        Requirement::VerifiedCertificate => {
            context.request.depends_on(Dependency::Transport);
            context.request.has_verified_certificate()
        }
        Requirement::Unsupported => false,
        Requirement::Host(domains) => return client_is_in(context, domains),
        Requirement::ForwardDns(names) => return client_is_one_of(context, names),
        Requirement::Alias(name) => return check_alias(context, name),
        by_user => return check_user(context, by_user),
    };
    Decision::of(holds)
}

fn check_expression(
    context: &mut AuthContext<'_>,
    expression: &Expression,
    wants_user: bool,
) -> Decision {
    match context.request.evaluate(expression) {
        Ok(true) => Decision::Granted,
        Ok(false) if wants_user => Decision::DeniedWithoutUser,
        Ok(false) => Decision::Denied,
        Err(error) => {
            context.log(format_args!(
                "error evaluating expression in 'Require expr': {}",
                error.message
            ));
            Decision::Error
        }
    }
}

fn client_is_in(context: &mut AuthContext<'_>, domains: &Words) -> Decision {
    let domains = context.words(domains);
    match verified_name(context) {
        Err(pending) => pending,
        Ok(name) => Decision::of(name.is_some_and(|name| {
            domains
                .iter()
                .any(|domain| in_domain(domain, name.as_bytes()))
        })),
    }
}

fn client_is_one_of(context: &mut AuthContext<'_>, names: &Words) -> Decision {
    context.request.depends_on(Dependency::Client);
    let client = context.request.client_address();
    for name in context.words(names) {
        match addresses_of(context, &String::from_utf8_lossy(&name)) {
            Err(pending) => return pending,
            Ok(addresses) if addresses.contains(&client) => return Decision::Granted,
            Ok(_) => {}
        }
    }
    Decision::Denied
}

fn check_alias(context: &mut AuthContext<'_>, name: &[u8]) -> Decision {
    let aliases = context.settings.requirement_aliases.as_ref();
    let Some(alias) = aliases.and_then(|all| all.get(name)) else {
        return Decision::Denied;
    };
    context.with_settings(&alias.settings, |inner| check(inner, &alias.requirement))
}

/// Checks a requirement that depends on the user.
fn check_user(context: &mut AuthContext<'_>, requirement: &Requirement) -> Decision {
    context.request.depends_on(Dependency::User);
    let Some(user) = context.request.user().map(str::to_owned) else {
        return Decision::DeniedWithoutUser;
    };
    let holds = match requirement {
        Requirement::ValidUser => true,
        Requirement::User(names) => context
            .words(names)
            .iter()
            .any(|name| *name == user.as_bytes()),
        Requirement::Group(names) => {
            let wanted = context.words(names);
            groups::is_member(context, &user, &wanted)
        }
        Requirement::FileOwner => {
            groups::owner_of_file(context).as_deref() == Some(user.as_bytes())
        }
        Requirement::FileGroup => match groups::group_of_file(context) {
            Some(group) => groups::is_member(context, &user, &[group]),
            None => false,
        },
        Requirement::DbmGroup(names) => {
            // Quotes mean nothing here, as in mod_authz_dbm.
            let line = context.bytes(names);
            let wanted: Vec<Vec<u8>> = line
                .split(u8::is_ascii_whitespace)
                .map(<[u8]>::to_vec)
                .collect();
            return groups::is_dbm_member(context, &user, &wanted).unwrap_or(Decision::Error);
        }
        Requirement::DbmFileGroup => {
            let group = groups::group_of_file(context);
            return groups::is_dbm_member(context, &user, group.as_slice())
                .unwrap_or(Decision::Denied);
        }
        Requirement::SqlGroup(names) => {
            let wanted = context.bytes(names);
            return sql::is_member(context, &user, &wanted);
        }
        Requirement::Fcgi(authorizer) => return fcgi::holds(context, authorizer, &user),
        Requirement::LdapMember(groups) => context
            .entry
            .as_ref()
            .is_some_and(|entry| groups.iter().any(|group| entry.is_member_of(group))),
        Requirement::Ldap(test, line) => return ldap::holds(context, *test, line, &user),
        Requirement::SqlSession(action) => return sql::note_session(context, &user, action),
        _ => false,
    };
    Decision::of(holds)
}
