//! `sticky` at request time: the member that a session belongs to.
//!
//! Called by: `proxy`, before an upstream is asked, and `response`, when it has answered.
//! Caveat: a response from a cache has no member, so it binds no session.
//! Out of scope: the choice (the gateway), tables of sessions (`saker-nginx-model`).

use crate::{pages, request::Request};
use saker_http::date::format_date;
use saker_nginx_model::{
    Text,
    modules::{
        sticky::{Sticky, StickyCookie},
        upstream::Group,
    },
    variables::Variable,
};
use saker_pipeline::Response;

/// Notes the member that the request's session belongs to.
pub fn ask(request: &mut Request<'_>, group: &Group) {
    request.exchange.upstream.route = None;
    let Some(sticky) = &group.sticky else {
        return;
    };
    let route = match sticky {
        Sticky::Cookie(cookie) => request.cookie(&cookie.name),
        Sticky::Route(variables) => first(request, variables),
        Sticky::Learn(learn) => first(request, &learn.lookup).and_then(|session| {
            let now_ms = saker_net::clock::monotonic_ms();
            learn
                .find(&session, now_ms)
                .map(|route| route.as_bytes().to_vec())
        }),
    };
    request.exchange.upstream.route = route.map(Into::into);
}

/// The value of the first variable that has one.
fn first(request: &mut Request<'_>, variables: &[Variable]) -> Option<Vec<u8>> {
    variables.iter().find_map(|variable| {
        let value = request.variable(variable)?;
        (!value.is_empty()).then_some(value)
    })
}

/// Binds the session to the member that answered.
pub fn answered(request: &mut Request<'_>, response: &mut Response) {
    let Some(name) = request.state.upstream.clone() else {
        return;
    };
    let nginx = request.nginx;
    let group = nginx.groups.iter().find(|group| *group.name == *name);
    let Some(sticky) = group.and_then(|group| group.sticky.as_ref()) else {
        return;
    };
    let Some(route) = request.exchange.upstream.attempts.last_route() else {
        return;
    };
    match sticky {
        Sticky::Cookie(cookie) => {
            let asked = request.exchange.upstream.route.as_deref();
            if asked != Some(route.as_bytes()) {
                let value = set_cookie(request, cookie, &route);
                response.fields_mut().append("Set-Cookie", value);
            }
        }
        Sticky::Route(_) => {}
        Sticky::Learn(learn) => {
            if let Some(session) = first(request, &learn.create) {
                learn.bind(&session, &route, saker_net::clock::monotonic_ms());
            }
        }
    }
}

fn set_cookie(request: &mut Request<'_>, cookie: &StickyCookie, route: &str) -> Vec<u8> {
    let mut value = format!("{}={route}", cookie.name).into_bytes();
    match cookie.expires_s {
        None => {}
        Some(u64::MAX) => {
            value.extend_from_slice(b"; expires=Thu, 31-Dec-37 23:55:55 GMT; max-age=315360000");
        }
        Some(seconds) => {
            let until = i64::try_from(seconds).unwrap_or(i64::MAX);
            let until = request.exchange.now.saturating_add(until);
            value.extend_from_slice(b"; expires=");
            value.extend_from_slice(&format_date(until));
            value.extend_from_slice(format!("; max-age={seconds}").as_bytes());
        }
    }
    let mut attribute = |name: &str, text: &Option<Text>| {
        let Some(text) = text else { return };
        // A value must not add attributes.
        let text = pages::field_value(&request.text(text));
        if !text.is_empty() && !text.contains(&b';') {
            value.extend_from_slice(name.as_bytes());
            value.extend_from_slice(&text);
        }
    };
    attribute("; domain=", &cookie.domain);
    attribute("; path=", &cookie.path);
    attribute("; samesite=", &cookie.same_site);
    if cookie.is_secure {
        value.extend_from_slice(b"; secure");
    }
    if cookie.is_http_only {
        value.extend_from_slice(b"; httponly");
    }
    value
}
