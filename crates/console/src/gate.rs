//! The gate: every request passes it before its route is looked at.
//!
//! Called by: `serve`, for each request.
//! Caveat: order matters. The host comes first, because a foreign name that resolves to this
//! address (DNS rebinding) makes a foreign page same-origin; then foreign sites, credentials, and
//! the role. Without credentials, existing and missing paths are alike.
//! Out of scope: reading content; that comes after.

use crate::{
    cookie,
    exchange::{Request, Response},
    route_table::{self, Found},
    routes::{Access, Kind, Route},
    sessions::{By, Identity},
    state::ConsoleState,
    users::Role,
};
use saker_config::model::Console;
use saker_http::host::parse_authority;
use std::net::IpAddr;

/// A request that was let in.
pub struct Admitted {
    pub route: &'static Route,
    /// `None` on public routes only.
    pub identity: Option<Identity>,
}

/// Admits a request, or answers it.
pub fn admit(
    request: &Request,
    console: &Console,
    state: &ConsoleState,
    now_s: i64,
) -> Result<Admitted, Response> {
    let is_api = request.path.starts_with("/api/");
    let refused = |status, text: &str| match is_api {
        true => Response::error(status, text),
        false => Response::new(status, "text/plain; charset=utf-8", format!("{text}\n")),
    };
    let Some(host) = allowed_host(request, console) else {
        return Err(refused(421, "this host name is not one of the console's"));
    };
    let found = route_table::find(request.head.view().method_token(), &request.path);
    let kind = match found {
        Found::Route(route) => route.kind,
        _ if is_api => Kind::Api,
        _ => Kind::Page,
    };
    let bearer = bearer(request).filter(|_| is_api);
    // A foreign page cannot send the field without asking first, and is refused then.
    if bearer.is_none() && !is_from_console(request, kind, host) {
        return Err(refused(403, "requests from other sites are refused"));
    }
    if let Found::Route(route) = found
        && route.access == Access::Public
    {
        return Ok(Admitted {
            route,
            identity: None,
        });
    }
    let identity = match bearer {
        Some(token) => state.token_identity(token),
        None => cookie::token(request).and_then(|token| state.session_identity(token, now_s)),
    };
    let Some(identity) = identity else {
        return Err(match is_api {
            true => Response::error(401, "log in, or send a token")
                .with("WWW-Authenticate", "Bearer realm=\"console\"".into()),
            false => Response::see_other("/login"),
        });
    };
    match found {
        Found::Nothing => Err(refused(404, "there is no such page")),
        Found::WrongMethod => Err(refused(405, "the method is not allowed here")),
        Found::Route(route) => match route.access {
            access if !is_allowed(access, &identity) => Err(refused(
                403,
                "the role of this user or token does not suffice",
            )),
            _ => Ok(Admitted {
                route,
                identity: Some(identity),
            }),
        },
    }
}

fn is_allowed(access: Access, identity: &Identity) -> bool {
    let is_owner = identity.role == Role::Owner;
    match access {
        Access::Public => true,
        Access::Role(role) => identity.role >= role,
        // An owner without a site owns nothing.
        Access::Site(_) if is_owner => identity.site.is_some(),
        Access::Site(role) => identity.role >= role,
    }
}

/// The authority of the request, if its host may be this console's: an address, `localhost`, or a
/// configured name.
fn allowed_host<'r>(request: &'r Request, console: &Console) -> Option<&'r str> {
    let authority = request.only_field("host").ok()??;
    let parsed = parse_authority(authority.as_bytes())?;
    let host = std::str::from_utf8(parsed.host).ok()?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_own = bare.parse::<IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || console
            .names
            .iter()
            .any(|name| name.eq_ignore_ascii_case(host));
    is_own.then_some(authority)
}

/// Returns whether no other site has a part in the request (Fetch Metadata, and RFC 6454 for
/// clients without it).
fn is_from_console(request: &Request, kind: Kind, host: &str) -> bool {
    let fields = [
        "sec-fetch-site",
        "sec-fetch-mode",
        "sec-fetch-dest",
        "origin",
    ];
    let [Ok(site), Ok(mode), Ok(dest), Ok(origin)] = fields.map(|name| request.only_field(name))
    else {
        return false;
    };
    let is_own = |origin: &str| {
        let own = origin.strip_prefix("https://");
        let own = own.or_else(|| {
            origin
                .strip_prefix("http://")
                .filter(|_| !request.is_secure)
        });
        own.is_some_and(|own| own.eq_ignore_ascii_case(host))
    };
    let method = request.head.view().method_token();
    let is_read = method == b"GET" || method == b"HEAD";
    match (is_read, site) {
        (false, Some(site)) => site == "same-origin" && origin.is_none_or(is_own),
        (false, None) => origin.is_some_and(is_own),
        (true, None) => origin.is_none_or(is_own),
        (true, Some("same-origin" | "none")) => origin.is_none_or(is_own),
        // A link may lead here; an image, a frame, or a script may not.
        (true, Some(_)) => {
            kind == Kind::Page && mode == Some("navigate") && dest == Some("document")
        }
    }
}

fn bearer(request: &Request) -> Option<&str> {
    let value = request.only_field("authorization").ok()??;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns whether the credentials of an event stream still hold.
pub fn is_still_admitted(
    request: &Request,
    identity: &Identity,
    state: &ConsoleState,
    now_s: i64,
) -> bool {
    let now = match identity.by {
        By::Token => bearer(request).and_then(|token| state.token_identity(token)),
        By::Session => {
            let mut sessions = state.sessions.borrow_mut();
            let token = cookie::token(request);
            token.and_then(|token| sessions.still(token, &state.users.borrow(), now_s))
        }
    };
    now.is_some_and(|now| now == *identity)
}

#[cfg(test)]
mod tests;
