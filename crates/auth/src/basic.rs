//! The Basic scheme (RFC 7617).
//!
//! Called by: `authenticate`.
//! Caveat: the user name that was sent is the request's user from then on, for logs too, whether or
//! not the password is right. So decisions never rely on the name but on the result.

use crate::{
    context::AuthContext,
    credentials::{Authenticated, quoted},
    providers::{self, PasswordCheck},
};
use saker_ap_expr::base64_decode;
use saker_http::Status;
use saker_telemetry::httpd_message;

/// The value of WWW-Authenticate.
pub fn challenge(context: &mut AuthContext<'_>) -> String {
    format!("Basic realm=\"{}\"", quoted(&context.realm()))
}

/// Authenticates by the credentials of the Authorization field.
pub fn authenticate(context: &mut AuthContext<'_>) -> Authenticated {
    let settings = &context.settings.authentication;
    if settings.name.is_none() {
        context.log_httpd(
            &httpd_message::BASIC_WITHOUT_NAME,
            format_args!("need AuthName: {}", context.path()),
        );
        return Authenticated::Refused(Status::INTERNAL_SERVER_ERROR, None);
    }
    let sent = context.request.field("authorization");
    let Some((user, password)) = sent.and_then(credentials) else {
        if sent.is_some() {
            context.log_httpd(
                &httpd_message::BASIC_OTHER_SCHEME,
                format_args!(
                    "client used wrong authentication scheme: {}",
                    context.path()
                ),
            );
        }
        return challenged(context);
    };
    let user = String::from_utf8_lossy(&user).into_owned();
    context.request.set_user(&user);
    let providers = settings.providers.as_deref().unwrap_or_default();
    let found = providers::check_with_all(context, providers, &user, &password);
    judge(context, &user, found)
}

/// User name and password that the client has sent.
pub fn sent(context: &AuthContext<'_>) -> Option<(String, Vec<u8>)> {
    let (user, password) = credentials(context.request.field("authorization")?)?;
    Some((String::from_utf8_lossy(&user).into_owned(), password))
}

fn challenged(context: &mut AuthContext<'_>) -> Authenticated {
    Authenticated::Refused(Status::UNAUTHORIZED, Some(challenge(context)))
}

fn judge(context: &mut AuthContext<'_>, user: &str, found: PasswordCheck) -> Authenticated {
    let authoritative = context
        .settings
        .authentication
        .authoritative
        .unwrap_or(true);
    match found {
        PasswordCheck::Granted => Authenticated::Yes,
        PasswordCheck::Wait(pause) => Authenticated::Wait(pause),
        PasswordCheck::Busy => Authenticated::Refused(Status::SERVICE_UNAVAILABLE, None),
        PasswordCheck::UnknownUser | PasswordCheck::Failed if !authoritative => {
            Authenticated::Declined
        }
        PasswordCheck::Denied => {
            let text = format_args!(
                "user {user}: authentication failure for \"{}\": Password Mismatch",
                context.path()
            );
            context.log_httpd(&httpd_message::BASIC_PASSWORD_MISMATCH, text);
            challenged(context)
        }
        PasswordCheck::UnknownUser => {
            context.log_httpd(
                &httpd_message::BASIC_USER_NOT_FOUND,
                format_args!("user {user} not found: {}", context.path()),
            );
            challenged(context)
        }
        PasswordCheck::Failed => Authenticated::Refused(Status::INTERNAL_SERVER_ERROR, None),
    }
}

/// User name and password of `Authorization: Basic …`.
fn credentials(value: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let at = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, rest) = value.split_at(at);
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let decoded = base64_decode(rest.trim_ascii_start());
    // A zero byte ends the text, as in C.
    let text = decoded.split(|byte| *byte == 0).next().unwrap_or_default();
    match text.iter().position(|byte| *byte == b':') {
        Some(at) => Some((text.get(..at)?.to_vec(), text.get(at + 1..)?.to_vec())),
        None => Some((text.to_vec(), Vec::new())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_as_sent() {
        let pair = |text: &str| {
            let (user, password) = credentials(text.as_bytes())?;
            Some(format!(
                "{}|{}",
                String::from_utf8_lossy(&user),
                String::from_utf8_lossy(&password)
            ))
        };
        for (text, expected) in [
            ("Basic dTpwOjE=", Some("u|p:1")),
            ("bAsIc   dQ==", Some("u|")),
            ("Basic ", Some("|")),
            ("Basic", None),
            ("Digest dTpw", None),
            ("Basic OnA=", Some("|p")),
            ("Basic dTpwAHg=", Some("u|p")),
        ] {
            assert_eq!(pair(text).as_deref(), expected, "{text}");
        }
    }
}
