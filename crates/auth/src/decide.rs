//! The sequence of decisions: by host, by rules without a user, authentication, by rules with the
//! user.
//!
//! Called by: the access phase of a front end, after its own checks of transport and method.
//! Caveat: a decision that has to wait (a password hash, a name server, a database) is made again
//! from the beginning when the look-up is done.

use crate::{
    authenticate::{authenticate, challenge},
    context::{AuthContext, Decision},
    credentials::Authenticated,
    host_rules::decide_by_host,
    requirements,
    settings::{Group, Logic, Rule},
};
use saker_http::Status;
use saker_net::blocking::Pause;
use saker_telemetry::httpd_message::{self, HttpdMessage};

/// The outcome of all rules.
pub enum Access {
    Granted {
        /// A Location to redirect the client to (`dbd-login`).
        redirect: Option<Vec<u8>>,
    },
    Refused {
        status: Status,
        /// The value of WWW-Authenticate for 401.
        challenge: Option<String>,
    },
    /// Decide again when the future is ready; `None`: too many wait already.
    Wait(Option<Pause>),
    /// A form has been sent, or has to be: the client is redirected to this location.
    Redirected(Vec<u8>),
}

/// The outcome of the `Require` rules.
enum Authorized {
    Final(Access),
    /// Authentication could grant access.
    NeedsUser,
}

impl Access {
    pub fn refused(status: Status) -> Access {
        Access::Refused {
            status,
            challenge: None,
        }
    }
}

/// Decides about a request. `is_transport_accepted`: the front end's rules about TLS hold;
/// otherwise the user has to make up for it (`Satisfy any`).
pub fn decide(context: &mut AuthContext<'_>, is_transport_accepted: bool) -> Access {
    let satisfy_any = context
        .settings
        .host_access
        .satisfy_any(context.request.method());
    match decide_by_host(context) {
        Decision::Granted if satisfy_any && is_transport_accepted => return granted(context),
        Decision::Granted => {}
        Decision::Pending => return Access::Wait(context.pending.take()),
        _ if satisfy_any => {}
        _ => {
            context
                .request
                .trace(None, &|| "Order, Allow and Deny refuse it".into());
            return denied_by_configuration(context, &httpd_message::CLIENT_DENIED_COMPAT);
        }
    }
    match authorize(context, false) {
        Authorized::Final(access) => access,
        Authorized::NeedsUser => decide_with_user(context),
    }
}

fn granted(context: &mut AuthContext<'_>) -> Access {
    Access::Granted {
        redirect: context.redirect.take(),
    }
}

fn decide_with_user(context: &mut AuthContext<'_>) -> Access {
    match authenticate(context) {
        Authenticated::Yes => {
            let user = context.request.user().unwrap_or_default().to_owned();
            context
                .request
                .trace(None, &|| format!("the user is `{user}`"));
            match authorize(context, true) {
                Authorized::Final(access) => access,
                Authorized::NeedsUser => Access::refused(Status::FORBIDDEN),
            }
        }
        Authenticated::Refused(status, challenge) => Access::Refused { status, challenge },
        Authenticated::Wait(pause) => Access::Wait(Some(pause)),
        Authenticated::Redirected(location) => Access::Redirected(location),
        Authenticated::Declined => {
            let text = "No authentication done but request not allowed without authentication for";
            context.log_httpd(
                &httpd_message::NO_AUTHENTICATION,
                format_args!("{text} {}. Authentication not configured?", context.path()),
            );
            Access::refused(Status::INTERNAL_SERVER_ERROR)
        }
    }
}

fn denied_by_configuration(context: &AuthContext<'_>, message: &'static HttpdMessage) -> Access {
    let filename = String::from_utf8_lossy(context.request.filename());
    context.log_httpd(
        message,
        format_args!("client denied by server configuration: {filename}"),
    );
    Access::refused(Status::FORBIDDEN)
}

/// Decides by the `Require` rules.
fn authorize(context: &mut AuthContext<'_>, has_user: bool) -> Authorized {
    let settings = context.settings;
    let Some(group) = &settings.authorization.group else {
        return Authorized::Final(without_rules(context));
    };
    Authorized::Final(match decide_group(context, group, Logic::All) {
        Decision::Granted => granted(context),
        Decision::DeniedWithoutUser if !has_user => return Authorized::NeedsUser,
        Decision::DeniedWithoutUser => {
            context.log_httpd(
                &httpd_message::NO_USER,
                format_args!(
                    "authorization failure (no authenticated user): {}",
                    context.path()
                ),
            );
            challenged(context)
        }
        Decision::Denied | Decision::Neutral if has_user && context.scheme().is_some() => {
            user_denied(context)
        }
        Decision::Denied | Decision::Neutral => {
            denied_by_configuration(context, &httpd_message::CLIENT_DENIED)
        }
        Decision::Error => Access::refused(Status::INTERNAL_SERVER_ERROR),
        Decision::Pending => Access::Wait(context.pending.take()),
    })
}

fn challenged(context: &mut AuthContext<'_>) -> Access {
    Access::Refused {
        status: Status::UNAUTHORIZED,
        challenge: challenge(context),
    }
}

fn without_rules(context: &mut AuthContext<'_>) -> Access {
    if context.scheme().is_none() || context.settings.authorization.is_open {
        return granted(context);
    }
    context.log_httpd(
        &httpd_message::NO_DIRECTIVES,
        format_args!("AuthType configured with no corresponding authorization directives"),
    );
    Access::refused(Status::INTERNAL_SERVER_ERROR)
}

/// Refuses an authenticated user whom the rules deny.
fn user_denied(context: &mut AuthContext<'_>) -> Access {
    let user = context.request.user().unwrap_or_default();
    context.log_httpd(
        &httpd_message::USER_DENIED,
        format_args!(
            "user {user}: authorization failure for \"{}\": ",
            context.path()
        ),
    );
    match context.settings.authorization.forbidden_on_failure {
        Some(true) => Access::refused(Status::FORBIDDEN),
        _ => challenged(context),
    }
}

/// Checks the rules of a container in order until one is final.
fn decide_group(context: &mut AuthContext<'_>, group: &Group, outer: Logic) -> Decision {
    if !group.is_for(context.request.method()) {
        return for_other_methods(outer);
    }
    let mut result = Decision::Neutral;
    for rule in &group.members {
        let decision = decide_rule(context, rule, group.logic);
        let (is_final, next) = step(group.logic, result, decision);
        result = next;
        if is_final {
            break;
        }
    }
    negated(group.negated, result)
}

fn decide_rule(context: &mut AuthContext<'_>, rule: &Rule, outer: Logic) -> Decision {
    match rule {
        Rule::Group(group) => decide_group(context, group, outer),
        Rule::Require(require) if !require.methods.include(context.request.method()) => {
            for_other_methods(outer)
        }
        Rule::Require(require) => {
            let decision = requirements::check(context, &require.requirement);
            let decision = negated(require.negated, decision);
            context.request.trace(Some(&require.origin), &|| {
                format!("`Require {}`: {decision}", require.text)
            });
            decision
        }
    }
}

/// The decision of a rule that is not for the request's method.
fn for_other_methods(outer: Logic) -> Decision {
    match outer {
        Logic::All => Decision::Granted,
        Logic::Any => Decision::Neutral,
    }
}

/// Combines the result so far with the next one. Returns whether it is final, and the result.
fn step(logic: Logic, so_far: Decision, next: Decision) -> (bool, Decision) {
    use Decision::*;
    match (logic, so_far, next) {
        (_, _, Error | Pending) => (true, next),
        (_, so_far, Neutral) => (false, so_far),
        (Logic::All, _, Denied) => (true, Denied),
        (Logic::Any, _, Granted) => (true, Granted),
        (_, Neutral, next) => (false, next),
        (Logic::All, _, DeniedWithoutUser) | (Logic::Any, Denied, DeniedWithoutUser) => {
            (false, DeniedWithoutUser)
        }
        (_, so_far, _) => (false, so_far),
    }
}

/// Negates a decision. "Not denied" is neutral: it grants nothing.
fn negated(is_negated: bool, decision: Decision) -> Decision {
    match (is_negated, decision) {
        (true, Decision::Granted) => Decision::Denied,
        (true, Decision::Denied | Decision::DeniedWithoutUser) => Decision::Neutral,
        (_, decision) => decision,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Decision::*;

    fn all_of(logic: Logic, members: &[Decision]) -> Decision {
        let mut result = Neutral;
        for member in members {
            let (is_final, next) = step(logic, result, *member);
            result = next;
            if is_final {
                break;
            }
        }
        result
    }

    #[test]
    fn containers() {
        for (members, all, any) in [
            (&[][..], Neutral, Neutral),
            (&[Granted, Granted], Granted, Granted),
            (&[Granted, Denied], Denied, Granted),
            (&[Denied, Granted], Denied, Granted),
            (&[Neutral, Neutral], Neutral, Neutral),
            (&[Neutral, Granted], Granted, Granted),
            (&[Granted, DeniedWithoutUser], DeniedWithoutUser, Granted),
            (&[DeniedWithoutUser, Granted], DeniedWithoutUser, Granted),
            (&[DeniedWithoutUser, Denied], Denied, DeniedWithoutUser),
            (&[Denied, DeniedWithoutUser], Denied, DeniedWithoutUser),
            (&[Granted, Error, Denied], Error, Granted),
            (&[Denied, Pending, Granted], Denied, Pending),
        ] {
            assert_eq!(
                (all_of(Logic::All, members), all_of(Logic::Any, members)),
                (all, any),
                "{members:?}"
            );
        }
    }

    #[test]
    fn negation_grants_nothing() {
        for (plain, not) in [
            (Granted, Denied),
            (Denied, Neutral),
            (DeniedWithoutUser, Neutral),
            (Neutral, Neutral),
            (Error, Error),
        ] {
            assert_eq!((negated(true, plain), negated(false, plain)), (not, plain));
        }
    }
}
