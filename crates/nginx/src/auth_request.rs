//! `auth_request`: asks another location whether a request may pass.
//!
//! Called by: the access phase, which waits for the answer.
//! Caveat: the subrequest has the fields of the request, no content, and none of its conditions; it
//! passes limits and access, as in nginx. An answer that is neither permission nor refusal fails the
//! request, and so does one that cannot be had. Variables are shared, as in nginx: what the asked location
//! sets is set for the request.
//! Out of scope: the decision (`access`).

use crate::{
    request::Request,
    state::{AuthAnswer, State},
    subrequest::{answer_without_page, subrequest},
};
use saker_files::Watcher;
use saker_http::Status;
use saker_nginx_model::{
    Nginx, Part, Text,
    variables::{Builtin, Variable},
};
use saker_pipeline::{Exchange, Response, Services};
use std::sync::Arc;

/// An answer, with the request that it is for.
pub struct Asked {
    /// `None`: there are too many inside of each other.
    inner: Option<Exchange>,
    response: Response,
}

/// Asks a path of the same server.
pub async fn ask(exchange: &Exchange, services: &Services, path: Vec<u8>) -> Asked {
    let Some(mut inner) = subrequest(exchange, path, None) else {
        return Asked {
            inner: None,
            response: Response::new(Status::INTERNAL_SERVER_ERROR),
        };
    };
    let mut response = answer_without_page(&mut inner, services).await;
    stay_as_it_was(&inner, &mut response);
    Asked {
        inner: Some(inner),
        response,
    }
}

/// Gives the answer of an error's path the status and the challenge of the error: a refusal that has a page
/// is none the less a refusal.
fn stay_as_it_was(inner: &Exchange, response: &mut Response) {
    let Some(state) = inner.extensions.get::<State>() else {
        return;
    };
    if let Some(status) = state.error_status
        && response.status.is_success()
    {
        response.status = Status(status);
    }
    for (name, value) in &state.error_fields {
        response.fields_mut().set(name.to_string(), value.to_vec());
    }
}

/// Takes the answer of a subrequest into a request, and the variables that it sets.
pub fn answered(exchange: &mut Exchange, nginx: &Nginx, watcher: &Watcher, asked: Asked) {
    let Asked { inner, response } = asked;
    let location = exchange.extensions.get::<State>();
    let Some(location) = location.map(|state| Arc::clone(&state.location)) else {
        return;
    };
    let sets = location.conf.access.auth_request_set.as_deref();
    let sets = sets.unwrap_or_default();
    let mut values = Vec::new();
    let inner = inner.and_then(|mut inner| {
        values = Request::run(&mut inner, nginx, watcher, |request| {
            request.take_response(response.status.0, response.fields());
            let value = |(number, text): &(usize, Text)| (*number, value(request, text, &response));
            sets.iter().map(value).collect()
        })?;
        inner.extensions.remove_boxed::<State>()
    });
    Request::run(exchange, nginx, watcher, |request| {
        if let Some(inner) = inner {
            share(request, *inner);
        }
        let challenge = response.fields().first("WWW-Authenticate");
        request.state.auth_answer = Some(AuthAnswer {
            status: response.status.0,
            challenge: challenge.map(<[u8]>::to_vec),
        });
        for (number, value) in values {
            request.set_value(number, &value);
        }
    });
}

/// Takes over the variables of the subrequest. What is computed and known already stays.
fn share(request: &mut Request<'_>, inner: State) {
    request.state.has_failed |= inner.has_failed;
    let own = &mut request.state.values;
    if own.len() < inner.values.len() {
        own.resize(inner.values.len(), None);
    }
    let variables = &request.nginx.variables;
    for ((own, value), variable) in own.iter_mut().zip(inner.values).zip(variables) {
        if value.is_some() && (variable.is_stored() || own.is_none()) {
            *own = value;
        }
    }
}

fn value(request: &mut Request<'_>, text: &Text, response: &Response) -> Vec<u8> {
    let mut out = Vec::new();
    for part in &text.parts {
        match part {
            Part::Literal(literal) => out.extend_from_slice(literal),
            Part::Capture(group) => out.extend(request.capture(*group).unwrap_or_default()),
            // The first line: several cookies in one would be none.
            Part::Variable(Variable::UpstreamField(name)) => {
                let left = request.exchange.upstream.left_fields.as_deref();
                let fields = left.unwrap_or(response.fields());
                out.extend_from_slice(fields.first(name).unwrap_or_default());
            }
            Part::Variable(Variable::SentField(name)) => {
                out.extend_from_slice(response.fields().first(name).unwrap_or_default());
            }
            Part::Variable(Variable::Builtin(Builtin::Status)) => {
                out.extend(response.status.0.to_string().bytes());
            }
            Part::Variable(Variable::Builtin(Builtin::UpstreamStatus)) => {
                let asked = request.upstream_value(Builtin::UpstreamStatus);
                out.extend(asked.unwrap_or_else(|| response.status.0.to_string().into_bytes()));
            }
            Part::Variable(other) => out.extend(request.variable(other).unwrap_or_default()),
        }
    }
    out
}
