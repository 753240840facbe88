//! Fields of a request that programs and servers are told, chosen by their names.
//!
//! Called by: all code that begins an exchange, whatever the protocol.
//! Caveat: programs turn fields into variables, in which every character that is neither letter nor
//! digit is `_`; so a client that sends `Remote_User` could impersonate the proxy that sets
//! `Remote-User`.
//! Out of scope: fields that this server sets (`forward`), and those of a connection.

use crate::upstream_fields;
use saker_config::model::{Protocol, Underscores};
use saker_http::{
    HeadView, RequestHead,
    field_name::{is_alike, is_alike_any, is_plain},
};
use saker_pipeline::{Exchange, UpstreamRequest};

/// The head as it is told to `protocol` (`None`: a program that is started), with the edits of the
/// settings; `None`: as it came, which costs nothing.
pub fn told(
    exchange: &Exchange,
    call: &UpstreamRequest,
    protocol: Option<Protocol>,
) -> Option<RequestHead> {
    upstream_fields::edited(exchange, allowed(exchange, call, protocol))
}

/// The head without the fields that may not be told; `None`: all may.
fn allowed(
    exchange: &Exchange,
    call: &UpstreamRequest,
    protocol: Option<Protocol>,
) -> Option<RequestHead> {
    let head = exchange.upstream_head();
    let view = head.view();
    let underscores = match exchange.routing.settings.underscores {
        // What Apache's servers get is told to programs by none of its modules.
        Underscores::Servers if matches!(protocol, Some(Protocol::Http1 | Protocol::Http2)) => None,
        Underscores::Servers => Some(Underscores::Drop),
        said => Some(said),
    };
    // It passes fields on as they are, credentials included; what makes variables has a word for
    // them.
    let hides_credentials = protocol == Some(Protocol::Lsapi)
        && call
            .script
            .as_ref()
            .is_some_and(|script| !script.passes_authorization);
    let authorized = exchange
        .routing
        .settings
        .authorize
        .as_deref()
        .map(|authorize| &*authorize.fields)
        .unwrap_or_default();
    let identity = exchange
        .routing
        .settings
        .auth
        .as_deref()
        .map(|rules| &*rules.fields)
        .unwrap_or_default();
    let goes = |name: &[u8]| {
        if !exchange.access.has_identity_fields
            && identity
                .iter()
                .any(|(field, _)| is_alike(field.as_bytes(), name))
        {
            return true;
        }
        if authorized
            .iter()
            .any(|field| is_alike(field.as_bytes(), name))
        {
            return !exchange.access.has_authorized_fields;
        }
        underscores.is_some_and(|said| is_dropped(view, name, said))
            || hides_credentials && is_credential(name)
    };
    if authorized.is_empty() && identity.is_empty() && !hides_credentials && view.names_are_plain()
    {
        return None;
    }
    view.fields()
        .any(|(name, _)| goes(name))
        .then(|| head.with_fields(view.fields().filter(|(name, _)| !goes(name))))
}

/// True if the field is dropped: of names that become the same variable, at most one is passed, the
/// plain one if present, else the first.
fn is_dropped(head: HeadView<'_>, name: &[u8], underscores: Underscores) -> bool {
    let alike = || {
        head.fields()
            .map(|(other, _)| other)
            .filter(|other| is_alike(other, name))
    };
    let is_passed = || {
        alike()
            .find(|other| is_plain(other))
            .or_else(|| alike().next())
            .is_some_and(|one| one.eq_ignore_ascii_case(name))
    };
    !is_plain(name) && (underscores != Underscores::Pass || !is_passed())
}

fn is_credential(name: &[u8]) -> bool {
    is_alike_any(name, &["authorization", "proxy-authorization"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_http::Version;

    fn passed(names: &[&str], underscores: Underscores) -> String {
        let fields: Vec<(&str, &str)> = names.iter().map(|name| (*name, "1")).collect();
        let head = RequestHead::build("GET", "/", Version::Http11, &fields);
        let view = head.view();
        let kept = view
            .fields()
            .filter(|(name, _)| !is_dropped(view, name, underscores));
        kept.map(|(name, _)| String::from_utf8_lossy(name).into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn no_two_names_of_one_variable_pass() {
        let names = [
            "X_User", "X-User", "x.user", "X_Other", "X.Other", "x_other", "Plain-1", "A!",
        ];
        assert_eq!(passed(&names, Underscores::Drop), "X-User Plain-1");
        assert_eq!(
            passed(&names, Underscores::Pass),
            "X-User X_Other x_other Plain-1 A!"
        );
    }
}
