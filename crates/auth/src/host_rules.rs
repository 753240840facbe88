//! Decides by Order, Allow and Deny.
//!
//! Called by: `decide`, before any `Require` rule.

use crate::{
    client_names::{in_domain, verified_name},
    context::{AuthContext, Decision},
    settings::host_access::{ForMethods, Order, Source, last_for},
};
use saker_ap_expr::Dependency;

/// Decides by the client's address, its name and the environment.
pub fn decide_by_host(context: &mut AuthContext<'_>) -> Decision {
    let Some(rules) = &context.settings.host_access.rules else {
        return Decision::Granted;
    };
    let order = last_for(&rules.order, context.request.method()).unwrap_or_default();
    // The list that decides last is checked first: if it names the client, the other doesn't
    // matter.
    let (first, second) = match order {
        Order::DenyThenAllow => (&rules.allow, &rules.deny),
        Order::AllowThenDeny | Order::MutualFailure => (&rules.deny, &rules.allow),
    };
    let first = match names_client(context, first) {
        Ok(first) => first,
        Err(pending) => return pending,
    };
    if first {
        return Decision::of(order == Order::DenyThenAllow);
    }
    match names_client(context, second) {
        Ok(second) => Decision::of(second != (order == Order::DenyThenAllow)),
        Err(pending) => pending,
    }
}

/// Returns whether a list names the client. The error: its name has to be looked up first.
fn names_client(
    context: &mut AuthContext<'_>,
    list: &ForMethods<Source>,
) -> Result<bool, Decision> {
    for (methods, source) in list {
        if !methods.include(context.request.method()) {
            continue;
        }
        let found = match source {
            Source::All => true,
            Source::Ip(network) => context.is_client_in(network),
            Source::Environment { name, negated } => {
                context.request.depends_on(Dependency::Environment);
                context.request.has_variable(name) != *negated
            }
            Source::Host(domain) => {
                verified_name(context)?.is_some_and(|name| in_domain(domain, name.as_bytes()))
            }
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}
