//! `rewrite` and `try_files`: changes of the path inside of the server.
//!
//! Called by: the phase `fixups`, so that the access rules of the route that changes the path have
//! been checked before. The phases begin again with the new path: a file that `try_files` has found
//! is served under the rules of its own path, too.
//! Caveat: paths are put together of decoded values, and are refused if a value adds `.` or `..`.
//! Out of scope: redirects of the client.

use crate::routes;
use saker_config::model::{Action, Candidate, Fallback, Rewrite, RewriteTarget, Route};
use saker_files::Watcher;
use saker_http::Status;
use saker_matchers::{Evaluation, FileKind, MatchError, PathSink, QuerySink, RequestFacts};
use saker_pipeline::{Exchange, ExchangeFacts, Noted, Response, Verdict};
use std::sync::Arc;

/// Changes the path as the route says.
pub fn rewrite(exchange: &mut Exchange, watcher: &Watcher) -> Verdict {
    let site = Arc::clone(&exchange.routing.site);
    let route = exchange.routing.route.and_then(|at| site.routes.get(at));
    let Some((route, rewrite)) = route.and_then(|route| Some((route, route.rewrite.as_deref()?)))
    else {
        return Verdict::Pass;
    };
    let outcome = match rewrite {
        Rewrite::To(target) => to(exchange, route, target, watcher),
        Rewrite::TryFiles {
            candidates,
            fallback,
        } => try_files(exchange, route, (candidates, fallback), watcher),
    };
    outcome.unwrap_or_else(|error| Verdict::Answer(routes::failed(exchange, &error)))
}

/// Path and query. The path is `None` if a value makes it invalid.
type Expanded = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Returns path and query of a target.
fn expand(
    exchange: &mut Exchange,
    target: &RewriteTarget,
    watcher: &Watcher,
) -> Result<Expanded, MatchError> {
    let captures = exchange.captures();
    let facts = ExchangeFacts::new(exchange, Some(watcher));
    let mut evaluation = Evaluation::new(&facts).with_captures(&captures);
    let (mut path, mut query) = (PathSink::default(), QuerySink::default());
    let mut outcome = target.path.expand(&mut evaluation, &mut path);
    if let Some(template) = &target.query {
        outcome = outcome.and(template.expand(&mut evaluation, &mut query));
    }
    let noted = Noted::of(&facts, evaluation);
    let query = match &target.query {
        // `?$query`, whose value has a question mark of its own.
        Some(_) if query.0.starts_with(b"?") => query.0.get(1..).map(<[u8]>::to_vec),
        Some(_) => Some(query.0),
        None => exchange.query.clone(),
    };
    noted.note(exchange);
    outcome?;
    let query = query.filter(|query| !query.is_empty() || target.query.is_none());
    Ok((path.finish(), query))
}

fn to(
    exchange: &mut Exchange,
    route: &Route,
    target: &RewriteTarget,
    watcher: &Watcher,
) -> Result<Verdict, MatchError> {
    let (Some(path), query) = expand(exchange, target, watcher)? else {
        return Ok(invalid(exchange));
    };
    trace(exchange, route, &path);
    (exchange.path, exchange.query) = (path, query);
    exchange.routing.has_written_query |= target.query.is_some();
    exchange.routing.tried_files = None;
    if route.action == Action::Files {
        return Ok(Verdict::Restart);
    }
    // The action of this route gets the new path.
    exchange.routing.redirects = exchange.routing.redirects.saturating_add(1);
    Ok(Verdict::Pass)
}

fn try_files(
    exchange: &mut Exchange,
    route: &Route,
    (candidates, fallback): (&[Candidate], &Fallback),
    watcher: &Watcher,
) -> Result<Verdict, MatchError> {
    if exchange.routing.tried_files.take() == exchange.routing.route {
        return Ok(Verdict::Pass);
    }
    match find(exchange, candidates, watcher)? {
        Some(path) if path == exchange.path => return Ok(Verdict::Pass),
        Some(path) => {
            trace(exchange, route, &path);
            exchange.path = path;
            exchange.routing.tried_files = exchange.routing.route;
            return Ok(Verdict::Restart);
        }
        None => {}
    }
    match fallback {
        Fallback::Status(status) => Ok(Verdict::Answer(Response::new(*status))),
        Fallback::Route(name) => {
            exchange.trace("fixups", Some(&route.origin), || {
                format!("no file exists: route @{name}")
            });
            exchange.routing.named_route = exchange.routing.site.routes.named(name);
            let in_place = &mut exchange.routing.redirects_in_place;
            *in_place = in_place.saturating_add(1);
            Ok(match exchange.routing.named_route {
                Some(_) => Verdict::Restart,
                None => Verdict::Answer(Response::new(Status::NOT_FOUND)),
            })
        }
        Fallback::Target(target) => {
            let (Some(path), query) = expand(exchange, target, watcher)? else {
                return Ok(invalid(exchange));
            };
            if path == exchange.path {
                exchange.trace("fixups", Some(&route.origin), || {
                    "the fallback does not exist either".into()
                });
                return Ok(Verdict::Answer(Response::new(Status::NOT_FOUND)));
            }
            trace(exchange, route, &path);
            (exchange.path, exchange.query) = (path, query);
            exchange.routing.has_written_query |= target.query.is_some();
            Ok(Verdict::Restart)
        }
    }
}

/// Returns the path of the first candidate that exists.
fn find(
    exchange: &mut Exchange,
    candidates: &[Candidate],
    watcher: &Watcher,
) -> Result<Option<Vec<u8>>, MatchError> {
    let captures = exchange.captures();
    let facts = ExchangeFacts::new(exchange, Some(watcher));
    let mut evaluation = Evaluation::new(&facts).with_captures(&captures);
    let mut found = Ok(None);
    for candidate in candidates {
        let mut sink = PathSink::default();
        if let Err(error) = candidate.path.expand(&mut evaluation, &mut sink) {
            found = Err(error);
            break;
        }
        let Some(path) = sink.finish() else { continue };
        let kind = facts.file_kind(&path);
        match (candidate.is_directory, kind) {
            // The directory's own URL decides about the slash at its end.
            (true, Some(FileKind::Directory)) if is_same(&path, &exchange.path) => {
                found = Ok(Some(exchange.path.clone()));
                break;
            }
            (true, Some(FileKind::Directory)) => {
                found = Ok(Some(path));
                break;
            }
            (false, Some(FileKind::Regular)) if !path.ends_with(b"/") => {
                found = Ok(Some(path));
                break;
            }
            _ => {}
        }
    }
    Noted::of(&facts, evaluation).note(exchange);
    found
}

/// Returns whether two paths differ at most in a slash at their ends.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let bare = |path: &'_ [u8]| path.len() - usize::from(path.ends_with(b"/"));
    one.get(..bare(one)) == other.get(..bare(other))
}

fn invalid(exchange: &mut Exchange) -> Verdict {
    exchange.trace("fixups", None, || {
        "a value of the request makes the new path invalid".into()
    });
    Verdict::Answer(Response::new(Status::BAD_REQUEST))
}

fn trace(exchange: &mut Exchange, route: &Route, path: &[u8]) {
    let text = String::from_utf8_lossy(path).into_owned();
    exchange.trace("fixups", Some(&route.origin), || {
        format!("the path becomes {text}")
    });
}
