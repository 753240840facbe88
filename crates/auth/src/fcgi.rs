//! Asks FastCGI authorizers about users and requirements.
//!
//! Called by: `providers`, `authenticate`, and `requirements`.
//! Caveat: an authorizer's word is its status: 200 lets in, everything else, and no answer at all,
//! does not. Its variables are the request's once it has let a request in.
//! Out of scope: connections and what is told (the front ends).

use crate::{
    basic,
    context::{AuthContext, Decision, LookupError},
    credentials::Authenticated,
    providers::PasswordCheck,
    settings::{FcgiAuthorizer, FcgiCheck, FcgiDuty, Provider, Requirement},
};
use saker_http::Status;
use saker_net::blocking::Answer;
use std::{rc::Rc, sync::Arc};

/// A question to an authorizer.
#[derive(Clone, PartialEq, Eq)]
pub struct FcgiQuestion {
    pub authorizer: Arc<FcgiAuthorizer>,
    /// It is asked about users, about requirements, or about both.
    pub about: FcgiDuty,
    pub user: Option<String>,
    pub password: Option<Vec<u8>>,
}

/// What an authorizer says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FcgiWord {
    pub status: u16,
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
    pub location: Option<Vec<u8>>,
    pub challenge: Option<String>,
}

/// The error says why there is none.
pub type FcgiAnswer = Result<Rc<FcgiWord>, Rc<str>>;

/// Asks, and takes the variables of a word that lets in.
fn ask(
    context: &mut AuthContext<'_>,
    question: &FcgiQuestion,
) -> Result<Rc<FcgiWord>, LookupError> {
    match context.request.authorizer(question) {
        Some(Answer::Known(Ok(word))) => {
            if word.status == Status::OK.0 {
                for (name, value) in &word.variables {
                    context.request.set_variable(name, value);
                }
            }
            Ok(word)
        }
        Some(Answer::Known(Err(why))) => {
            let name = &question.authorizer.name;
            context.log(format_args!("the authorizer {name} can't be asked: {why}"));
            Err(LookupError::Failed)
        }
        Some(Answer::Wait(pause)) => Err(LookupError::Wait(pause)),
        Some(Answer::Busy) => Err(LookupError::Busy),
        None => {
            context.log(format_args!("authorizers can't be asked here"));
            Err(LookupError::Failed)
        }
    }
}

/// Checks a password.
pub fn check_password(
    context: &mut AuthContext<'_>,
    authorizer: &Arc<FcgiAuthorizer>,
    user: &str,
    password: &[u8],
) -> PasswordCheck {
    let question = FcgiQuestion {
        authorizer: Arc::clone(authorizer),
        about: authorizer.duty,
        user: Some(user.to_owned()),
        password: Some(password.to_vec()),
    };
    match ask(context, &question) {
        Err(error) => error.into(),
        Ok(word) if word.status == Status::OK.0 => {
            if authorizer.duty == FcgiDuty::Both {
                context.let_in_by = Some(Arc::clone(authorizer));
            }
            PasswordCheck::Granted
        }
        // Its trouble says nothing about the user.
        Ok(word) if word.status >= 500 => PasswordCheck::Failed,
        Ok(_) => PasswordCheck::Denied,
    }
}

/// Checks a requirement about a user who has logged in.
pub fn holds(
    context: &mut AuthContext<'_>,
    authorizer: &Arc<FcgiAuthorizer>,
    user: &str,
) -> Decision {
    if authorizer.duty == FcgiDuty::Both {
        // It has said so with the log-in, or not at all.
        return Decision::of(context.let_in_by.as_ref() == Some(authorizer));
    }
    let question = FcgiQuestion {
        authorizer: Arc::clone(authorizer),
        about: FcgiDuty::Requirements,
        user: Some(user.to_owned()),
        password: None,
    };
    match ask(context, &question) {
        Ok(word) => Decision::of(word.status == Status::OK.0),
        Err(error) => context.undecided(error, Decision::Error),
    }
}

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
        context.log(format_args!(
            "the authorizer {name} lets in nobody in particular"
        ));
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

/// The requirement of an authorizer.
pub fn requirement(authorizer: &Arc<FcgiAuthorizer>) -> Requirement {
    Requirement::Fcgi(Arc::clone(authorizer))
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
