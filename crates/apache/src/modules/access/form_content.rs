//! The content of forms, and the request that a form brings.
//!
//! Called by: `request`, for the scheme `Form`; the access phase.
//! Caveat: a form is read once; what answers the request gets no content, or that of the form's
//! request.
//! Out of scope: checking the form (`saker_auth::form`).

use crate::{
    form_state::ReadForm,
    kept_content::KeptContent,
    state::{peek, state},
};
use saker_auth::{ContentOutcome, Replay};
use saker_http::{Method, Status};
use saker_net::blocking::Answer;
use saker_pipeline::{Exchange, NoBody};
use std::{cell::RefCell, future::poll_fn, rc::Rc};

const FORM: &[u8] = b"application/x-www-form-urlencoded";

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
    exchange.body = Box::new(KeptContent::new(&replay.content.into()));
    Ok(own != method)
}

fn is_token(method: &[u8]) -> bool {
    !method.is_empty() && method.len() <= 32 && method.iter().all(u8::is_ascii_uppercase)
}
