//! `auth_request`: asks another location whether a request may pass.
//!
//! Called by: the access phase, which waits for the answer.
//! Caveat: the subrequest has the fields of the request, no content, and none of its conditions; it
//! passes limits and access, as in nginx. An answer that is neither permission nor refusal fails the
//! request, and so does one that cannot be had.
//! Out of scope: the decision (`access`).

use crate::{
    request::Request,
    state::{AuthAnswer, State},
};
use saker_http::Status;
use saker_nginx_model::{
    Nginx, Part, Text,
    variables::{Builtin, Variable},
};
use saker_pipeline::{Exchange, Inner, NoBody, Response, Services, phases};
use std::{rc::Rc, sync::Arc};

/// Fields about content, conditions, and parts.
const LEFT_OUT: [&str; 10] = [
    "content-length",
    "transfer-encoding",
    "expect",
    "range",
    "if-range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "trailer",
];

/// Asks a path of the same server.
pub async fn ask(exchange: &Exchange, services: &Services, path: Vec<u8>) -> Response {
    if !exchange.may_nest(Inner::Include) {
        return Response::new(Status::INTERNAL_SERVER_ERROR);
    }
    let Some(mut inner) = subrequest(exchange, path) else {
        return Response::new(Status::INTERNAL_SERVER_ERROR);
    };
    if let Some(response) = phases::run_subrequest(&mut inner, services).await {
        return response;
    }
    phases::subrequest_content(&mut inner, services).await
}

fn subrequest(exchange: &Exchange, path: Vec<u8>) -> Option<Exchange> {
    let outer = exchange.extensions.get::<Box<State>>()?;
    let view = exchange.head.view();
    let target = String::from_utf8_lossy(view.target()).into_owned();
    let bare = saker_http::RequestHead::build("GET", &target, view.version(), &[]);
    let is_left = |name: &[u8]| {
        !LEFT_OUT
            .iter()
            .any(|out| out.as_bytes().eq_ignore_ascii_case(name))
    };
    let head = bare.with_fields(view.fields().filter(|(name, _)| is_left(name)));
    let mut inner = Exchange::new(
        Rc::clone(&exchange.client),
        head,
        Box::new(NoBody),
        Arc::clone(&exchange.routing.site),
        exchange.now,
    );
    inner.host.clone_from(&exchange.host);
    inner.path = path;
    inner.routing.site_index = exchange.routing.site_index;
    inner.routing.scripts_by_name = false;
    inner.log.id = Rc::clone(&exchange.log.id);
    inner.share_budget(exchange);
    inner.routing.nesting = exchange.routing.nesting.saturating_add(1);
    inner.routing.redirects_max = u8::MAX;
    let mut state = State::new(Arc::clone(&outer.server));
    state.values.clone_from(&outer.values);
    state.is_internal = true;
    state.requests_limited = true;
    state.connections_limited = true;
    state.is_subrequest = true;
    inner.extensions.insert(Box::new(state));
    Some(inner)
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
