//! The access phase: Apache's checks of method and TLS, then the rules of `saker_auth`.
//!
//! Called by: `rules`, once the settings in force are known.
//! Caveat: whatever the decision depended on besides the path is recorded in the exchange. A
//! decision that has to wait ends the phase, which runs again from its beginning.

use crate::{
    facts::note_dependencies,
    modules::{
        access::{
            client_name::look_up, credentials::join_authorization, form_content,
            request::AccessRequest,
        },
        session,
    },
    state::{may_ask, peek, snapshot, state, vary_by},
    verdict::Verdict,
};
use saker_apache_model::host::Host;
use saker_auth::{Access, AuthContext, AuthRequest, Directories, RecordFiles};
use saker_files::Watcher;
use saker_http::Status;
use saker_pipeline::{Exchange, OutcomeLine, Response};
use saker_telemetry::{
    httpd_message::{self, HttpdMessage},
    message,
};
use std::sync::Arc;

/// Decides whether the request may be answered.
pub fn access(
    exchange: &mut Exchange,
    host: &Host,
    watcher: &Watcher,
    (records, directories): (&mut RecordFiles, &Directories),
) -> Verdict {
    if peek(exchange).is_none() {
        return Verdict::Pass;
    }
    may_ask(exchange, host);
    let Some(local) = state(exchange).local.clone() else {
        return Verdict::Pass;
    };
    join_authorization(exchange);
    if let Some(pause) = session::load(exchange, host, &local) {
        return Verdict::Wait(pause);
    }
    let own = snapshot(exchange);
    if let Some(pause) = look_up(exchange, local.core.lookups) {
        return Verdict::Wait(pause);
    }
    let folder = folder(&own.filename);
    // As in Apache, the same settings are those at the same place in memory.
    let is_another = own.is_error_page && local.is_made_anew;
    if own
        .decided_by
        .as_ref()
        .filter(|_| !is_another)
        .is_some_and(|(before, there)| Arc::ptr_eq(before, &local) && **there == *folder)
    {
        return Verdict::Pass;
    }
    exchange.access.user = None;
    let mut request = AccessRequest::new(exchange, &own, host, &local, watcher);
    request.directories = Some(directories);
    let outcome = decide(&mut request, records);
    let replay = request.replay.take();
    let (dependencies, stamps) = request.into_dependencies();
    let folder: Box<[u8]> = folder.into();
    drop(own);
    vary_by(exchange, &dependencies);
    note_dependencies(exchange, &dependencies, stamps);
    if let Access::Wait(Some(pause)) = outcome {
        return Verdict::Wait(pause);
    }
    if let (Access::Granted { .. }, Some(replay)) = (&outcome, replay) {
        match form_content::replay(exchange, replay) {
            Ok(true) => return Verdict::Restart,
            Ok(false) => {}
            Err(status) => return Verdict::Answer(Response::new(status)),
        }
    }
    state(exchange).decided_by = Some((Arc::clone(&local), folder));
    verdict(exchange, outcome, host.trace_enabled)
}

fn decide(request: &mut AccessRequest<'_>, records: &mut RecordFiles) -> Access {
    let (local, watcher) = (request.local, request.watcher);
    if let Some(origin) = &local.denied {
        let text = origin.to_string().into();
        request
            .exchange
            .log_outcome(OutcomeLine::Saker(&message::ACCESS_RULE_NOT_HONOURED, text));
        return Access::refused(Status::FORBIDDEN);
    }
    if !local.allowmethods.allow(request.method()) {
        let method = String::from_utf8_lossy(request.method());
        let text = format_args!(
            "client method denied by server configuration: '{method}' to {}",
            String::from_utf8_lossy(request.filename())
        );
        request.log_httpd(&httpd_message::METHOD_DENIED, text);
        return Access::refused(Status::METHOD_NOT_ALLOWED);
    }
    let settings = &local.auth.settings;
    let satisfy_any = settings.host_access.satisfy_any(request.method());
    let is_tls_accepted = crate::modules::access::tls::lets_in(&local.ssl, request);
    if !is_tls_accepted && (!satisfy_any || local.ssl.is_strict()) {
        return denied(request, &httpd_message::CLIENT_DENIED);
    }
    let mut context = AuthContext::new(request, settings, records, watcher);
    saker_auth::decide(&mut context, is_tls_accepted)
}

fn denied(request: &AccessRequest<'_>, message: &'static HttpdMessage) -> Access {
    let filename = String::from_utf8_lossy(request.filename());
    request.log_httpd(
        message,
        format_args!("client denied by server configuration: {filename}"),
    );
    Access::refused(Status::FORBIDDEN)
}

fn verdict(exchange: &mut Exchange, outcome: Access, trace_enabled: bool) -> Verdict {
    let (status, challenge) = match outcome {
        Access::Granted { redirect: None } => return Verdict::Pass,
        Access::Granted {
            redirect: Some(location),
        }
        | Access::Redirected(location) => {
            let mut response = Response::new(Status::FOUND);
            response.fields_mut().set("Location", location);
            return Verdict::Answer(response);
        }
        Access::Refused { status, challenge } => (status, challenge),
        Access::Wait(_) => (Status::SERVICE_UNAVAILABLE, None),
    };
    exchange.trace("access", None, || {
        format!("rules about access answer {}", status.0)
    });
    let forbids_storing = peek(exchange).is_some_and(|state| state.forbids_storing);
    if challenge.is_none() && !forbids_storing {
        exchange.keep_answer();
    }
    let mut response = Response::new(status);
    if status == Status::METHOD_NOT_ALLOWED {
        // Apache lists no other method here.
        let allow: &[u8] = if trace_enabled { b"TRACE" } else { b"" };
        response.fields_mut().set("Allow", allow);
    }
    if forbids_storing {
        response
            .fields_mut()
            .append("Cache-Control", &b"no-store"[..]);
    }
    if let Some(challenge) = challenge {
        response
            .fields_mut()
            .set("WWW-Authenticate", challenge.into_bytes());
    }
    Verdict::Answer(response)
}

/// The folder of a file name, or a folder itself.
fn folder(filename: &[u8]) -> &[u8] {
    filename
        .iter()
        .rposition(|byte| *byte == b'/')
        .and_then(|at| filename.get(..at))
        .unwrap_or_default()
}
