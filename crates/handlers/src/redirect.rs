//! Routes that answer by themselves: redirects, fixed texts and denials (handler `redirect`).
//!
//! Called by: the content phase.
//! Caveat: a redirect target is built from the configuration and from parts of the request, which
//! are encoded again (`saker_matchers::UrlSink`). If the target names no host, nothing that a client
//! sends may make it name one.
//! Out of scope: changes of the path inside of the server (`saker-native`).

use saker_config::model::{Action, FieldEditAction, Redirect, Route, Template};
use saker_content::coded_fields;
use saker_http::{Fields, Status};
use saker_matchers::{BodySink, BodySyntax, Captures, Evaluation, MatchError, Sink, UrlSink};
use saker_pipeline::{
    Body, Chunk, Exchange, ExchangeFacts, Handled, Handler, LocalFuture, Noted, Response,
};
use saker_static_files::fixed::{self, Queries};
use saker_telemetry::{error_log, message};
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
    let mut location = UrlSink::default();
    if let Err(error) = expand(exchange, &redirect.to, &mut location) {
        return failed(exchange, &error);
    }
    let location = location.finish();
    exchange.trace("content", Some(&route.origin), || {
        format!("redirected to {}", String::from_utf8_lossy(&location))
    });
    let queries = match redirect.to.uses_query() {
        true => Queries::Decline,
        false => Queries::Same,
    };
    fixed::redirect(exchange, redirect.status, location, queries)
}

/// Writes a text with the values of this request to `sink`.
fn expand(
    exchange: &mut Exchange,
    template: &Template,
    sink: &mut dyn Sink,
) -> Result<(), MatchError> {
    let captures = match template.uses_captures() {
        true => exchange.captures(),
        false => Captures::default(),
    };
    let facts = ExchangeFacts::new(exchange, None);
    let mut evaluation = Evaluation::new(&facts).with_captures(&captures);
    let outcome = template.expand(&mut evaluation, sink);
    Noted::of(&facts, evaluation).note(exchange);
    outcome
}

fn failed(exchange: &mut Exchange, error: &MatchError) -> Response {
    exchange.depends_on_request();
    let path = String::from_utf8_lossy(&exchange.path).into_owned();
    error_log::log_about(
        &message::REQUEST_GIVEN_UP,
        &*exchange,
        format_args!("{path}: {error}"),
    );
    Response::new(Status::INTERNAL_SERVER_ERROR)
}

/// A configured text. One that may be compressed is left to the filter, because its response differs
/// from client to client.
fn text(
    exchange: &mut Exchange,
    status: Status,
    content_type: &str,
    template: &Template,
) -> Response {
    let mut body = BodySink {
        out: Vec::new(),
        syntax: syntax(exchange, content_type),
    };
    if let Err(error) = expand(exchange, template, &mut body) {
        return failed(exchange, &error);
    }
    let body = body.out;
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
    let queries = match template.uses_query() {
        true => Queries::Decline,
        false => Queries::Same,
    };
    fixed::respond(exchange, status, fields, body, queries)
}

/// The syntax that clients may read a text in: edits of fields may change its type later.
fn syntax(exchange: &Exchange, content_type: &str) -> BodySyntax {
    let of_field = |value: &str| match value.is_empty() {
        // Browsers guess.
        true => BodySyntax::Markup,
        false => BodySyntax::of(value),
    };
    let edits = exchange.routing.settings.fields.iter();
    edits
        .filter(|edit| edit.name.eq_ignore_ascii_case("content-type"))
        .map(|edit| match &edit.action {
            FieldEditAction::Set(value)
            | FieldEditAction::Append(value)
            | FieldEditAction::SetIfAbsent(value) => of_field(value),
            FieldEditAction::Remove => BodySyntax::Markup,
        })
        .fold(of_field(content_type), BodySyntax::max)
}

fn unfiltered(status: Status, fields: Fields, body: Vec<u8>) -> Response {
    let mut response = Response::new(status);
    *response.fields_mut() = fields;
    if !body.is_empty() && !status.forbids_content() {
        response.body = Body::Memory(Chunk::from(body));
    }
    response
}

#[cfg(test)]
#[path = "redirect_tests.rs"]
mod tests;
