//! The handlers of mod_auth_form (`form-login-handler`, `form-logout-handler`), and the content of
//! forms.
//!
//! Called by: the content phase and the access phase.
//! Caveat: a form is read once; what answers the request gets no content. Handlers that have to wait
//! go on where they were, so that the fixups are not made twice.
//! Out of scope: checking the form (`saker_auth::form`).

use crate::{
    form_state::{FormHandler, ReadForm},
    modules::access::request::AccessRequest,
    state::{peek, state},
    verdict::Verdict,
    worker::ApacheRules,
};
use saker_apache_model::{dir_config::DirConfig, host::Host};
use saker_auth::{
    AuthContext, ContentOutcome, Replay,
    form::{self, FormAnswer},
};
use saker_http::{Method, Status};
use saker_net::blocking::Answer;
use saker_pipeline::{
    BodyError, Chunk, Exchange, NoBody, RequestBody, Response, respond::built_in_page,
};
use std::{
    cell::RefCell,
    future::poll_fn,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

const FORM: &[u8] = b"application/x-www-form-urlencoded";

/// Answers in the place of a file.
pub fn answer(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    local: &Arc<DirConfig>,
    handler: FormHandler,
) -> Verdict {
    exchange.depends_on_request();
    let own = state(exchange).clone();
    let mut request = AccessRequest::new(exchange, &own, host, local, &rules.watcher);
    request.directories = Some(&rules.directories);
    let mut records = rules.records.borrow_mut();
    let settings = &local.auth.settings;
    let mut context = AuthContext::new(&mut request, settings, &mut records, &rules.watcher);
    let answer = match handler {
        FormHandler::LogIn => form::log_in(&mut context),
        FormHandler::LogOut => form::log_out(&mut context),
    };
    let mut response = match answer {
        FormAnswer::Wait(Some(pause)) => {
            state(exchange).form_handler = Some(handler);
            return Verdict::Wait(pause);
        }
        FormAnswer::Wait(None) => Response::new(Status::SERVICE_UNAVAILABLE),
        FormAnswer::Redirected(status, location) => {
            let mut response = Response::new(status);
            response.fields_mut().set("Location", location);
            response
        }
        FormAnswer::Status(Status::OK) => built_in_page(Response::new(Status::OK)),
        FormAnswer::Status(status) => Response::new(status),
    };
    if response.status == Status::METHOD_NOT_ALLOWED {
        let allow: &[u8] = if host.trace_enabled { b"TRACE" } else { b"" };
        response.fields_mut().set("Allow", allow);
    }
    if peek(exchange).is_some_and(|state| state.forbids_storing) {
        response
            .fields_mut()
            .append("Cache-Control", &b"no-store"[..]);
    }
    Verdict::Answer(response)
}

/// Begins or continues to read the form of a request. `None`: there is none to be read.
pub fn read(exchange: &mut Exchange, bytes_max: u64) -> Option<Answer<ContentOutcome>> {
    let is_own = exchange.head.view().method() == Method::Post
        && !peek(exchange).is_some_and(|state| state.is_subrequest || state.is_error_page);
    if !is_own {
        return None;
    }
    let known = peek(exchange).and_then(|state| state.form.clone());
    let form = match known {
        Some(form) => form,
        None => {
            // Requests that rules have led here have no form of their own.
            if exchange.routing.redirects > 0 || !is_form(exchange) {
                return None;
            }
            let body = std::mem::replace(&mut exchange.body, Box::new(NoBody));
            let form = Rc::new(RefCell::new(ReadForm::begin(body)));
            state(exchange).form = Some(Rc::clone(&form));
            form
        }
    };
    if let Some(outcome) = form.borrow().outcome() {
        return Some(Answer::Known(outcome.clone()));
    }
    Some(Answer::Wait(Box::pin(poll_fn(move |cx| {
        form.borrow_mut().poll(bytes_max, cx)
    }))))
}

fn is_form(exchange: &Exchange) -> bool {
    let view = exchange.head.view();
    let media_type = view.first("content-type").unwrap_or_default();
    media_type
        .get(..FORM.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(FORM))
}

/// Puts the request of a form in the form's place. Returns true if its method is another one, so that
/// everything has to be decided anew.
///
/// # Errors
/// 500 for methods that nothing can be asked with.
pub fn replay(exchange: &mut Exchange, replay: Replay) -> Result<bool, Status> {
    let view = exchange.head.view();
    let own = view.method_token().to_vec();
    let method = replay.method.unwrap_or_else(|| own.clone());
    match Method::from_token(&method) {
        Method::Connect | Method::Trace => return Err(Status::INTERNAL_SERVER_ERROR),
        Method::Extension if !is_token(&method) => return Err(Status::INTERNAL_SERVER_ERROR),
        _ => {}
    }
    let length = replay.content.len().to_string().into_bytes();
    let is_framing = |name: &[u8]| {
        name.eq_ignore_ascii_case(b"content-length")
            || name.eq_ignore_ascii_case(b"transfer-encoding")
            || name.eq_ignore_ascii_case(b"content-type") && replay.media_type.is_some()
    };
    let more = [
        replay
            .media_type
            .as_deref()
            .map(|value| (&b"Content-Type"[..], value)),
        Some((&b"Content-Length"[..], length.as_slice())),
    ];
    let fields = view.fields().filter(|(name, _)| !is_framing(name));
    let head = exchange
        .head
        .with_method_and_fields(&method, fields.chain(more.into_iter().flatten()));
    exchange.head = head;
    exchange.body = Box::new(ReplayedContent(Some(replay.content)));
    Ok(own != method)
}

fn is_token(method: &[u8]) -> bool {
    !method.is_empty() && method.len() <= 32 && method.iter().all(u8::is_ascii_uppercase)
}

/// Content of a replayed request.
struct ReplayedContent(Option<Vec<u8>>);

impl RequestBody for ReplayedContent {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Chunk, BodyError>>> {
        let content = self.0.take().filter(|content| !content.is_empty());
        Poll::Ready(content.map(|content| Ok(content.into())))
    }

    fn length(&self) -> Option<u64> {
        Some(self.0.as_ref().map_or(0, |content| content.len() as u64))
    }

    fn is_end(&self) -> bool {
        self.0.as_ref().is_none_or(Vec::is_empty)
    }
}
