//! Routes that answer by themselves: redirects, fixed texts and denials (handler `redirect`).
//!
//! Called by: the content phase.
//! Caveat: a redirect target is built from the configuration and from parts of the request. `$1`,
//! `$2`… and `$host` come from the decoded, lower-cased request and are encoded again; `$path` and
//! `$query` are as sent. If the target names no host, nothing that a client sends may make it name
//! one.
//! Out of scope: rewrite rules.

use saker_config::model::{Action, Redirect, RedirectPiece, Route};
use saker_content::coded_fields;
use saker_http::{Fields, Status, escape};
use saker_pipeline::{Body, Chunk, Exchange, Handled, Handler, LocalFuture, Response};
use saker_static_files::{
    fixed::{self, Queries},
    location,
};
use std::sync::Arc;

/// The handler of routes with a fixed response.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedAnswers;

impl Handler for FixedAnswers {
    fn name(&self) -> &'static str {
        "redirect"
    }

    fn handle<'a>(&'a self, exchange: &'a mut Exchange) -> LocalFuture<'a, Handled> {
        answer(exchange).ready()
    }
}

fn answer(exchange: &mut Exchange) -> Handled {
    let site = Arc::clone(&exchange.routing.site);
    let Some(route) = exchange.routing.route.and_then(|at| site.routes.get(at)) else {
        return Handled::Declined;
    };
    Handled::Answered(match &route.action {
        Action::Files | Action::Proxy(_) => return Handled::Declined,
        Action::Redirect(redirect) => redirect_to(exchange, route, redirect),
        Action::Respond {
            status,
            content_type,
            body,
        } => text(exchange, *status, content_type, body),
        Action::Deny => {
            exchange.trace("content", Some(&route.origin), || {
                "denied by this route".into()
            });
            exchange.keep_answer();
            Response::new(Status::FORBIDDEN)
        }
    })
}

fn redirect_to(exchange: &mut Exchange, route: &Route, redirect: &Redirect) -> Response {
    let target = target(exchange, route, &redirect.to);
    exchange.trace("content", Some(&route.origin), || {
        format!(
            "redirected to {}",
            String::from_utf8_lossy(&target.location)
        )
    });
    if target.depends_on_request {
        exchange.depends_on_request();
    }
    let queries = if target.uses_query {
        Queries::Decline
    } else {
        Queries::Same
    };
    fixed::redirect(exchange, redirect.status, target.location, queries)
}

/// A fixed text. One that may be compressed is left to the filter, because its response differs
/// from client to client.
fn text(exchange: &mut Exchange, status: Status, content_type: &str, body: &str) -> Response {
    let mut fields = Fields::new();
    if !content_type.is_empty() && !body.is_empty() {
        fields.append("Content-Type", content_type.as_bytes().to_vec());
    }
    let compression = &exchange.routing.settings.compression;
    let large = !compression.codings.is_empty() && body.len() as u64 >= compression.min_bytes;
    // An error without a text gets an error document later.
    let unfinished = status.is_error() && body.is_empty();
    if unfinished || (large && coded_fields::is_compressible(compression, content_type.as_bytes()))
    {
        return unfiltered(status, fields, body);
    }
    fixed::respond(
        exchange,
        status,
        fields,
        body.as_bytes().to_vec(),
        Queries::Same,
    )
}

fn unfiltered(status: Status, fields: Fields, body: &str) -> Response {
    let mut response = Response::new(status);
    *response.fields_mut() = fields;
    if !body.is_empty() && !status.forbids_content() {
        response.body = Body::Memory(Chunk::from(body.as_bytes().to_vec()));
    }
    response
}

/// A target with all pieces substituted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Target {
    location: Vec<u8>,
    uses_query: bool,
    /// Depends on more than listener, host and path.
    depends_on_request: bool,
}

fn target(exchange: &Exchange, route: &Route, template: &str) -> Target {
    let captures = route.pattern.captures(&exchange.path).unwrap_or_default();
    let mut target = Target::default();
    // A loaded configuration has only valid templates.
    for piece in Redirect::pieces(template).unwrap_or_default() {
        substitute(exchange, &captures, piece, &mut target);
    }
    if !names_a_host(template) {
        target.location = location::rooted(std::mem::take(&mut target.location));
    }
    target
}

/// Substitutes one piece.
fn substitute(
    exchange: &Exchange,
    captures: &[&[u8]],
    piece: RedirectPiece<'_>,
    target: &mut Target,
) {
    let out = &mut target.location;
    match piece {
        RedirectPiece::Text(text) => push_literal(text, out),
        RedirectPiece::Star(number) => {
            escape::uri_path(captures.get(number - 1).copied().unwrap_or_default(), out)
        }
        RedirectPiece::Host => location::push_as_sent(&exchange.host, out),
        RedirectPiece::Path => location::push_as_sent(path_as_sent(exchange), out),
        RedirectPiece::Query => {
            target.uses_query = true;
            if let Some(query) = &exchange.query {
                out.push(b'?');
                location::push_query(query, out);
                target.depends_on_request = true;
            }
        }
    }
}

/// Configured text, which may contain everything that a URI may, including a fragment.
fn push_literal(text: &str, out: &mut Vec<u8>) {
    for (at, piece) in text.split('#').enumerate() {
        if at > 0 {
            out.push(b'#');
        }
        location::push_as_sent(piece.as_bytes(), out);
    }
}

/// True if the configured template names a host: `https://…` or `//…`.
fn names_a_host(template: &str) -> bool {
    let literal = template.split('$').next().unwrap_or_default();
    literal.contains("://") || literal.starts_with("//")
}

/// The request target without scheme, authority and query.
fn path_as_sent(exchange: &Exchange) -> &[u8] {
    let target = exchange.head.view().target();
    let target = target
        .split(|byte| *byte == b'?')
        .next()
        .unwrap_or_default();
    let after_scheme = (!target.starts_with(b"/"))
        .then(|| target.windows(3).position(|window| window == b"://"))
        .flatten();
    let Some(at) = after_scheme else {
        return target;
    };
    let authority_and_path = &target[at + 3..];
    authority_and_path
        .iter()
        .position(|byte| *byte == b'/')
        .map_or(b"/", |slash| &authority_and_path[slash..])
}

#[cfg(test)]
#[path = "redirect_tests.rs"]
mod tests;
