//! Asks FastCGI authorizers about users and requirements.
//!
//! Called by: `providers`, `fcgi_scheme`, and `requirements`.
//! Caveat: 200 lets in; every other status, and no answer at all, does not. Variables of an authorizer
//! are the request's once it has let a request in.
//! Out of scope: connections and what is told (the front ends).

use crate::{
    context::{AuthContext, Decision, LookupError},
    fcgi_question::{FcgiQuestion, FcgiWord},
    settings::{FcgiAuthorizer, FcgiDuty, Requirement},
};
use saker_http::Status;
use saker_net::blocking::Answer;
use std::{rc::Rc, sync::Arc};

/// Asks, and takes the variables of a word that lets in.
pub fn ask(
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

/// Returns whether an authorizer lets a user in with this password.
///
/// # Errors
/// It can't be asked, or is in trouble itself, which says nothing about the user.
pub fn lets_in(
    context: &mut AuthContext<'_>,
    authorizer: &Arc<FcgiAuthorizer>,
    user: &str,
    password: &[u8],
) -> Result<bool, LookupError> {
    let question = FcgiQuestion {
        authorizer: Arc::clone(authorizer),
        about: authorizer.duty,
        user: Some(user.to_owned()),
        password: Some(password.to_vec()),
    };
    let word = ask(context, &question)?;
    if word.status >= 500 {
        return Err(LookupError::Failed);
    }
    let is_let_in = word.status == Status::OK.0;
    if is_let_in && authorizer.duty == FcgiDuty::Both {
        context.let_in_by = Some(Arc::clone(authorizer));
    }
    Ok(is_let_in)
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

/// The requirement of an authorizer.
pub fn requirement(authorizer: &Arc<FcgiAuthorizer>) -> Requirement {
    Requirement::Fcgi(Arc::clone(authorizer))
}
