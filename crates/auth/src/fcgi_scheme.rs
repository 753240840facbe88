//! A FastCGI authorizer in the place of a scheme (AuthnzFcgiCheckAuthnProvider).
//!
//! Called by: `authenticate`.
//! Caveat: the client gets the authorizer's redirect, status, and challenge, and never its page.
//! Out of scope: passwords of Basic and requirements (`fcgi`).

use crate::{
    basic,
    context::{AuthContext, LookupError},
    credentials::Authenticated,
    fcgi::ask,
    fcgi_question::{FcgiQuestion, FcgiWord},
    settings::{FcgiAuthorizer, FcgiCheck, FcgiDuty, Provider},
};
use saker_http::Status;
use std::sync::Arc;

/// Authenticates by an authorizer in the place of a scheme. `None`: none is configured here.
pub fn authenticate(context: &mut AuthContext<'_>) -> Option<Authenticated> {
    let settings = context.settings;
    let check = settings.authentication.fcgi.as_ref()?.as_ref()?;
    let Some(authorizer) = named(context, &check.authorizer) else {
        return Some(Authenticated::Refused(Status::INTERNAL_SERVER_ERROR, None));
    };
    let credentials = basic::sent(context);
    if check.requires_credentials && credentials.is_none() {
        let challenge = basic::challenge(context);
        return Some(Authenticated::Refused(
            Status::UNAUTHORIZED,
            Some(challenge),
        ));
    }
    let (user, password) = match credentials.filter(|_| check.requires_credentials) {
        Some((user, password)) => (Some(user), Some(password)),
        None => (None, None),
    };
    let question = FcgiQuestion {
        authorizer: Arc::clone(&authorizer),
        about: authorizer.duty,
        user: user.clone(),
        password,
    };
    if let Some(user) = &user {
        context.request.set_user(user);
    }
    let word = match ask(context, &question) {
        Ok(word) => word,
        Err(LookupError::Wait(pause)) => return Some(Authenticated::Wait(pause)),
        Err(LookupError::Busy) => {
            return Some(Authenticated::Refused(Status::SERVICE_UNAVAILABLE, None));
        }
        Err(LookupError::Failed) => {
            return Some(Authenticated::Refused(Status::INTERNAL_SERVER_ERROR, None));
        }
    };
    if word.status != Status::OK.0 {
        return match check.is_authoritative {
            true => Some(refused(&word)),
            false => Some(Authenticated::Declined),
        };
    }
    Some(let_in(context, check, &authorizer, user))
}

/// The name of the user: of the expression, the log-in, or the configuration.
fn let_in(
    context: &mut AuthContext<'_>,
    check: &FcgiCheck,
    authorizer: &Arc<FcgiAuthorizer>,
    user: Option<String>,
) -> Authenticated {
    let expressed = check.user.as_ref().map(|user| context.text(user));
    let known = expressed
        .filter(|user| !user.is_empty())
        .or(user)
        .or_else(|| check.default_user.as_deref().map(str::to_owned));
    let Some(user) = known else {
        let name = &authorizer.name;
        context.log(format_args!("the authorizer {name} authenticates no user"));
        return Authenticated::Refused(Status::INTERNAL_SERVER_ERROR, None);
    };
    context.request.set_user(&user);
    if authorizer.duty == FcgiDuty::Both {
        context.let_in_by = Some(Arc::clone(authorizer));
    }
    Authenticated::Yes
}

fn refused(word: &FcgiWord) -> Authenticated {
    match (word.status, &word.location) {
        (300..400, Some(location)) => Authenticated::Redirected(location.clone()),
        (400..600, _) => Authenticated::Refused(Status(word.status), word.challenge.clone()),
        _ => Authenticated::Refused(Status::FORBIDDEN, None),
    }
}

fn named(context: &AuthContext<'_>, name: &str) -> Option<Arc<FcgiAuthorizer>> {
    let all = context.settings.provider_aliases.as_ref()?;
    match &all.get(name.as_bytes())?.provider {
        Provider::Fcgi(authorizer) => Some(Arc::clone(authorizer)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_refuse() {
        let word = |status, location: Option<&[u8]>| FcgiWord {
            status,
            location: location.map(<[u8]>::to_vec),
            challenge: Some("Basic realm=\"x\"".into()),
            ..FcgiWord::default()
        };
        let shown = |word: FcgiWord| match refused(&word) {
            Authenticated::Redirected(to) => String::from_utf8(to).unwrap(),
            Authenticated::Refused(status, challenge) => format!("{} {challenge:?}", status.0),
            _ => "let in".to_owned(),
        };
        assert_eq!(shown(word(302, Some(b"/login"))), "/login");
        assert_eq!(shown(word(302, None)), "403 None");
        assert_eq!(shown(word(204, None)), "403 None");
        assert_eq!(
            shown(word(401, None)),
            "401 Some(\"Basic realm=\\\"x\\\"\")"
        );
        assert_eq!(shown(word(999, Some(b"/x"))), "403 None");
    }
}
