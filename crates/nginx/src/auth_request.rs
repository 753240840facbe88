//! `auth_request`: asks another location whether a request may pass.
//!
//! Called by: the access phase, which waits for the answer.
//! Caveat: the subrequest has the fields of the request, no content, and none of its conditions; it
//! passes limits and access, as in nginx. An answer that is neither permission nor refusal fails the
//! request, and so does one that cannot be had.
//! Out of scope: the decision (`access`).

use crate::{request::Request, state::AuthAnswer, subrequest::subrequest};
use saker_http::Status;
use saker_nginx_model::{
    Nginx, Part, Text,
    variables::{Builtin, Variable},
};
use saker_pipeline::{Exchange, Response, Services, phases};
use std::sync::Arc;

/// Asks a path of the same server.
pub async fn ask(exchange: &Exchange, services: &Services, path: Vec<u8>) -> Response {
    let Some(mut inner) = subrequest(exchange, path, None) else {
        return Response::new(Status::INTERNAL_SERVER_ERROR);
    };
    if let Some(response) = phases::run_subrequest(&mut inner, services).await {
        return response;
    }
    phases::subrequest_content(&mut inner, services).await
}

/// Keeps an answer, and the variables that it sets.
pub fn take(request: &mut Request<'_>, response: &Response) {
    let challenge = response.fields().first("WWW-Authenticate");
    request.state.auth_answer = Some(AuthAnswer {
        status: response.status.0,
        challenge: challenge.map(<[u8]>::to_vec),
    });
    let location = Arc::clone(&request.state.location);
    let sets = location.conf.access.auth_request_set.as_deref();
    for (number, text) in sets.unwrap_or_default() {
        let value = value(request, text, response);
        request.set_value(*number, &value);
    }
}

fn value(request: &mut Request<'_>, text: &Text, response: &Response) -> Vec<u8> {
    let mut out = Vec::new();
    for part in &text.parts {
        match part {
            Part::Literal(literal) => out.extend_from_slice(literal),
            Part::Capture(group) => out.extend(request.capture(*group).unwrap_or_default()),
            Part::Variable(Variable::UpstreamField(name) | Variable::SentField(name)) => {
                out.extend_from_slice(response.fields().first(name).unwrap_or_default());
            }
            Part::Variable(Variable::Builtin(Builtin::Status | Builtin::UpstreamStatus)) => {
                out.extend(response.status.0.to_string().bytes());
            }
            Part::Variable(other) => out.extend(request.variable(other).unwrap_or_default()),
        }
    }
    out
}

/// Takes the answer of a subrequest into a request.
pub fn answered(
    exchange: &mut Exchange,
    nginx: &Nginx,
    watcher: &saker_files::Watcher,
    response: &Response,
) {
    Request::run(exchange, nginx, watcher, |request| take(request, response));
}
