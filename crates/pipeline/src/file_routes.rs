//! Routes of files that a path stands for without naming them: a directory's index file, and the
//! file in front of a part of it or of path info (`/film.mp4/index.m3u8`, `/a.php/x`).
//!
//! Called by: route selection (`saker-native`), which shares the search, and handlers that have
//! found such a file, before they use it.
//! Caveat: the first route for the file's own path decides as well, after that of the path. Not one
//! that matches the path, too, and comes behind the path's route, which is an exception from it; nor a
//! redirect back to the path that the client sent, which is for clients that name the file.
//! Out of scope: actions and settings of routes.

use crate::{Exchange, ExchangeFacts, Noted, Response};
use saker_config::model::{Action, Redirect, Route};
use saker_files::Watcher;
use saker_http::{Status, path};
use saker_matchers::{Captures, Evaluation, MatchError, UrlSink};
use saker_telemetry::{error_log, message};
use std::sync::Arc;

/// Returns the position of the first route, from a position on, whose path and conditions match.
/// # Errors
/// A condition could not be evaluated; the request must be refused.
pub fn first_route(
    exchange: &mut Exchange,
    watcher: &Watcher,
    from: usize,
) -> Result<Option<usize>, MatchError> {
    let site = Arc::clone(&exchange.routing.site);
    let facts = ExchangeFacts::new(exchange, Some(watcher));
    let mut evaluation = Evaluation::new(&facts);
    let mut found = Ok(None);
    for at in site.routes.candidates(&exchange.path) {
        let Some(route) = site.routes.get(at).filter(|_| at >= from) else {
            continue;
        };
        match matches(route, &mut evaluation) {
            Ok(false) => {}
            Ok(true) => {
                found = Ok(Some(at));
                break;
            }
            Err(error) => {
                found = Err(error);
                break;
            }
        }
    }
    Noted::of(&facts, evaluation).note(exchange);
    found
}

fn matches(route: &Route, evaluation: &mut Evaluation<'_>) -> Result<bool, MatchError> {
    if !evaluation.path_matches(&route.pattern)? {
        return Ok(false);
    }
    match &route.matcher {
        Some(matcher) => matcher.matches(evaluation),
        None => Ok(true),
    }
}

/// Refuses a request whose route could not be determined.
pub fn refuse_unmatched(
    exchange: &mut Exchange,
    phase: &'static str,
    error: &MatchError,
) -> Response {
    exchange.depends_on_request();
    let path = String::from_utf8_lossy(&exchange.path).into_owned();
    error_log::log_about(
        &message::REQUEST_GIVEN_UP,
        &*exchange,
        format_args!("{path}: {error}"),
    );
    exchange.trace(phase, None, || error.to_string());
    Response::new(Status::INTERNAL_SERVER_ERROR)
}

/// Leads the request to the index file of its directory, by its name there, if another route is
/// that file's. Returns true if so; the phases must restart.
/// # Errors
/// The answer to a request whose route could not be determined.
pub fn follow_index(
    exchange: &mut Exchange,
    watcher: &Watcher,
    name: &[u8],
) -> Result<bool, Response> {
    if exchange.routing.site.routes.is_empty() && !has_rules_of_links(exchange) {
        return Ok(false);
    }
    let slash: &[u8] = match exchange.path.ends_with(b"/") {
        true => b"",
        false => b"/",
    };
    let file = [&exchange.path, slash, name].concat();
    Ok(follow_path(exchange, watcher, &file)? || ask_links(exchange, &file))
}

/// Leads the request to a file that its path stands for, by the file's own path, if another route is
/// that file's. Returns true if so; the phases must restart.
/// # Errors
/// The answer to a request whose route could not be determined.
pub fn follow_path(
    exchange: &mut Exchange,
    watcher: &Watcher,
    file: &[u8],
) -> Result<bool, Response> {
    if exchange.routing.site.routes.is_empty() {
        return Ok(false);
    }
    let Some(route) = route_of_file(exchange, watcher, file)? else {
        return Ok(false);
    };
    trace(exchange, file, route);
    exchange.path = file.to_vec();
    begin_with(exchange, route);
    Ok(true)
}

/// The relation of a file's own route to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnRoute {
    /// It has none, or the request is under it.
    None,
    Other,
    /// Another one, which is not for clients.
    Internal,
}

/// Returns whether the file with a path is under another route than the request.
/// # Errors
/// The answer to a request whose route could not be determined.
pub fn own_route(
    exchange: &mut Exchange,
    watcher: &Watcher,
    file: &[u8],
) -> Result<OwnRoute, Response> {
    if exchange.routing.site.routes.is_empty() {
        return Ok(OwnRoute::None);
    }
    Ok(match route_of_file(exchange, watcher, file)? {
        None => OwnRoute::None,
        Some(route) if is_closed(exchange, route) => OwnRoute::Internal,
        Some(_) => OwnRoute::Other,
    })
}

/// Returns true if a route is for internal redirects alone, and the request has had none.
fn is_closed(exchange: &Exchange, route: usize) -> bool {
    let routing = &exchange.routing;
    let route = routing.site.routes.get(route);
    route.is_some_and(|route| route.is_internal) && routing.redirects == routing.redirects_in_place
}

/// A file that a path stands for without naming it: rules about links are asked for both.
struct FileOfPath {
    path: Vec<u8>,
    file: Vec<u8>,
}

/// Returns the path of the file that the request's path stands for, where that has been found out.
pub fn file_of_path(exchange: &Exchange) -> Option<&[u8]> {
    let known = exchange.extensions.get::<FileOfPath>()?;
    (known.path == exchange.path).then_some(&known.file)
}

/// Has the rules about links asked for a file that the request's path stands for, too; they have
/// seen the path alone. Returns true if they have not been asked for it yet; the phases must restart.
pub fn ask_links(exchange: &mut Exchange, file: &[u8]) -> bool {
    if !has_rules_of_links(exchange)
        || exchange.upstream.internal_redirect.is_some()
        || exchange.path == file
        || file_of_path(exchange) == Some(file)
    {
        return false;
    }
    let (path, file) = (exchange.path.clone(), file.to_vec());
    exchange.extensions.insert(FileOfPath { path, file });
    exchange.cache.kept_decision = None;
    let routing = &mut exchange.routing;
    routing.named_route = routing.route;
    routing.mapped = None;
    routing.path_info.clear();
    routing.redirects_in_place = routing.redirects_in_place.saturating_add(1);
    true
}

fn has_rules_of_links(exchange: &Exchange) -> bool {
    let links = &exchange.routing.settings.links;
    links.trigger.is_some() || links.referrers.is_some()
}

/// Leads the request to the route of the file in front of the last bytes of its path, if that is
/// another one. The path stays. Returns true if so; the phases must restart.
/// # Errors
/// The answer to a request whose route is not for clients, or could not be determined.
pub fn follow_file(
    exchange: &mut Exchange,
    watcher: &Watcher,
    bytes_behind: usize,
) -> Result<bool, Response> {
    let has_routes = !exchange.routing.site.routes.is_empty();
    if bytes_behind == 0 || !has_routes && !has_rules_of_links(exchange) {
        return Ok(false);
    }
    let end = exchange.path.len().saturating_sub(bytes_behind);
    let file = exchange.path.get(..end).unwrap_or_default().to_vec();
    let own = match has_routes {
        true => route_of_file(exchange, watcher, &file)?,
        false => None,
    };
    let Some(route) = own else {
        return Ok(ask_links(exchange, &file));
    };
    trace(exchange, &file, route);
    if is_closed(exchange, route) {
        return Err(Response::new(Status::NOT_FOUND));
    }
    begin_with(exchange, route);
    // The file is there; what is behind it is none.
    exchange.routing.tried_files = Some(route);
    let in_place = &mut exchange.routing.redirects_in_place;
    *in_place = in_place.saturating_add(1);
    Ok(true)
}

fn trace(exchange: &mut Exchange, file: &[u8], route: usize) {
    let site = Arc::clone(&exchange.routing.site);
    let origin = site.routes.get(route).map(|route| &route.origin);
    exchange.trace("content", origin, || {
        let file = String::from_utf8_lossy(file);
        format!("{file} has a route of its own, which decides as well")
    });
}

fn begin_with(exchange: &mut Exchange, route: usize) {
    let own = &exchange.routing.settings;
    let other = exchange.routing.site.routes.get(route);
    if other.is_some_and(|other| other.settings.throttle != own.throttle) {
        // A kept outcome is counted by the limits of the file's route alone.
        exchange.depends_on_request();
    }
    let routing = &mut exchange.routing;
    routing.named_route = Some(route);
    routing.file_route = Some(route);
    routing.tried_files = None;
    routing.mapped = None;
    routing.path_info.clear();
}

/// Returns the route of a file, if it is not in force for the request.
fn route_of_file(
    exchange: &mut Exchange,
    watcher: &Watcher,
    file: &[u8],
) -> Result<Option<usize>, Response> {
    let is_file_of_program = exchange.upstream.internal_redirect.is_some()
        && exchange.routing.route.is_none()
        && exchange.routing.mapped.is_some();
    if is_file_of_program {
        return Ok(None);
    }
    let found = match other_route(exchange, watcher, file) {
        Ok(found) => found,
        Err(error) => return Err(refuse_unmatched(exchange, "content", &error)),
    };
    Ok(found)
}

fn other_route(
    exchange: &mut Exchange,
    watcher: &Watcher,
    file: &[u8],
) -> Result<Option<usize>, MatchError> {
    let own = std::mem::replace(&mut exchange.path, file.to_vec());
    let found = first_that_decides(exchange, watcher, &own);
    exchange.path = own;
    let routing = &exchange.routing;
    let Some(other) =
        found?.filter(|at| Some(*at) != routing.route && Some(*at) != routing.file_route)
    else {
        return Ok(None);
    };
    // One that matches the path itself, too, has been passed over for it.
    match first_route(exchange, watcher, other)? == Some(other) {
        true => Ok(None),
        false => Ok(Some(other)),
    }
}

/// Returns the first route for the path that does not lead back to where the request comes from.
fn first_that_decides(
    exchange: &mut Exchange,
    watcher: &Watcher,
    own: &[u8],
) -> Result<Option<usize>, MatchError> {
    let site = Arc::clone(&exchange.routing.site);
    let mut from = 0;
    loop {
        let Some(at) = first_route(exchange, watcher, from)? else {
            return Ok(None);
        };
        match site.routes.get(at).map(|route| (route, &route.action)) {
            Some((route, Action::Redirect(redirect)))
                if leads_back(exchange, watcher, (route, redirect), own)? =>
            {
                from = at + 1;
            }
            _ => return Ok(Some(at)),
        }
    }
}

/// Returns true if a redirect leads to the path of the request, or to the one that was received.
fn leads_back(
    exchange: &mut Exchange,
    watcher: &Watcher,
    (route, redirect): (&Route, &Redirect),
    own: &[u8],
) -> Result<bool, MatchError> {
    let texts = route.pattern.captures(&exchange.path).unwrap_or_default();
    let captures = Captures(texts.into_iter().map(<[u8]>::to_vec).collect());
    let facts = ExchangeFacts::new(exchange, Some(watcher));
    let mut evaluation = Evaluation::new(&facts).with_captures(&captures);
    let mut location = UrlSink::default();
    let outcome = redirect.to.expand(&mut evaluation, &mut location);
    Noted::of(&facts, evaluation).note(exchange);
    outcome?;
    let location = location.finish();
    let Some(to) = path_here(&location, &exchange.host) else {
        return Ok(false);
    };
    let mut received = Vec::new();
    let target = exchange.head.view().target();
    let is_received = normalized(target, &mut received) && received == to;
    Ok(to == own || is_received)
}

/// Returns the path of a location on a host; `None`: it is on another one.
fn path_here(location: &[u8], host: &[u8]) -> Option<Vec<u8>> {
    let rest = match location.windows(3).position(|window| window == b"://") {
        Some(at) if !location.starts_with(b"/") => location.get(at + 3..)?,
        _ => location.strip_prefix(b"//").unwrap_or(location),
    };
    let has_host = rest.len() != location.len();
    let (authority, rest) = match has_host {
        true => {
            let end = rest
                .iter()
                .position(|byte| matches!(byte, b'/' | b'?' | b'#'));
            rest.split_at(end.unwrap_or(rest.len()))
        }
        false => (host, rest),
    };
    let is_port = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    let name = match authority.iter().rposition(|byte| *byte == b':') {
        Some(at) if is_port(authority.get(at + 1..)?) => authority.get(..at)?,
        _ => authority,
    };
    let mut path = Vec::new();
    let rest = if rest.is_empty() { b"/" } else { rest };
    (name.eq_ignore_ascii_case(host) && normalized(rest, &mut path)).then_some(path)
}

/// Writes the decoded path of a target; false if it is none.
fn normalized(target: &[u8], out: &mut Vec<u8>) -> bool {
    let mut parts = target.split(|byte| matches!(byte, b'?' | b'#'));
    let raw = parts.next().unwrap_or_default();
    raw.starts_with(b"/") && path::normalize(raw, out).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_locations() {
        for (location, path) in [
            ("/", Some("/")),
            ("/d/?a=b", Some("/d/")),
            ("/%64/", Some("/d/")),
            ("https://a.test", Some("/")),
            ("https://A.test:8443/d/#x", Some("/d/")),
            ("https://b.test/d/", None),
            ("//b.test/d/", None),
            ("mailto:a@a.test", None),
        ] {
            let found = path_here(location.as_bytes(), b"a.test");
            assert_eq!(found.as_deref(), path.map(str::as_bytes), "{location}");
        }
    }
}
