//! Authenticates a request by the scheme in force, and challenges clients.
//!
//! Called by: `decide`, if a rule needs a user.

use crate::{basic, context::AuthContext, credentials::Authenticated, digest, fcgi_scheme, form};
use saker_ap_expr::Dependency;
use saker_http::Status;

/// Authenticates the request by the scheme in force.
pub fn authenticate(context: &mut AuthContext<'_>) -> Authenticated {
    if context.settings.authentication.fcgi.is_some() {
        context.request.depends_on(Dependency::RequestFields);
        if let Some(outcome) = fcgi_scheme::authenticate(context) {
            return outcome;
        }
    }
    let Some(scheme) = context.scheme() else {
        return Authenticated::Declined;
    };
    context.request.depends_on(Dependency::RequestFields);
    if let Err(status) = context.request.take_certificate_credentials() {
        context.log(format_args!(
            "Encountered FakeBasicAuth spoof: {}",
            context.path()
        ));
        return Authenticated::Refused(status, None);
    }
    if scheme.eq_ignore_ascii_case("basic") {
        return basic::authenticate(context);
    }
    if scheme.eq_ignore_ascii_case("digest") {
        return digest::authenticate(context);
    }
    if scheme.eq_ignore_ascii_case("form") {
        return form::authenticate(context);
    }
    context.log(format_args!(
        "AuthType {scheme} configured without corresponding module"
    ));
    Authenticated::Refused(Status::INTERNAL_SERVER_ERROR, None)
}

/// The value of WWW-Authenticate for a refused client.
pub fn challenge(context: &mut AuthContext<'_>) -> Option<String> {
    match context.scheme()?.to_ascii_lowercase().as_str() {
        "basic" => Some(basic::challenge(context)),
        "digest" => Some(digest::challenge(context)),
        _ => None,
    }
}
