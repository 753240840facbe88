//! The handlers of mod_auth_form: `form-login-handler`, `form-logout-handler`.
//!
//! Called by: the content phase; the fixups, for a handler that has waited.
//! Caveat: handlers that have to wait go on where they were, so that the fixups are not made twice.
//! Out of scope: checking the form (`saker_auth::form`), reading it (`form_content`).

use crate::{
    form_state::FormHandler,
    modules::access::request::AccessRequest,
    state::{peek, snapshot, state},
    verdict::Verdict,
    worker::ApacheRules,
};
use saker_apache_model::{dir_config::DirConfig, host::Host};
use saker_auth::{
    AuthContext,
    form::{self, FormAnswer},
};
use saker_http::Status;
use saker_pipeline::{Exchange, Response, respond::built_in_page};
use std::sync::Arc;

/// Answers in the place of a file.
pub fn answer(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    local: &Arc<DirConfig>,
    handler: FormHandler,
) -> Verdict {
    exchange.depends_on_request();
    let own = snapshot(exchange);
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
