//! Facts about an exchange for logs: collected once if a log needs them, and cached with the route.
//!
//! Called by: access logs, through [`LogFacts::of`]; the route cache, which stores the facts.
//! Caveat: internal redirects and error documents change the request. Some log items refer to the
//! original request, others to the final one (httpd 2.4, mod_log_config, "Modifiers").
//! Out of scope: the error log (`log_context`).

use crate::{AttemptValue, Environment, ErrorDocument, Exchange, LogRules, UpstreamAttempts};
use saker_telemetry::{error_log::LogId, trace::RequestTrace};
use std::{borrow::Cow, rc::Rc};

#[derive(Clone, Debug, Default)]
pub struct LogFacts {
    /// Path of the original request.
    pub path: Box<[u8]>,
    pub final_path: Box<[u8]>,
    /// Query of the original request, if it differs from the one received.
    pub first_query: Option<Option<Box<[u8]>>>,
    /// Query of the final request, if it differs from the one received; without its question mark.
    pub query: Option<Option<Box<[u8]>>>,
    pub file: Option<Box<[u8]>>,
    pub handler: Box<str>,
    /// Environment of the original request, if it differs from `environment`. Log conditions use
    /// it.
    pub first_environment: Option<Environment>,
    pub environment: Environment,
    pub notes: Environment,
    /// Notes whose values are known when the response is over.
    pub late_notes: Vec<(Box<str>, AttemptValue)>,
    /// The members that were asked, for those notes.
    pub attempts: UpstreamAttempts,
    /// The request was redirected internally.
    pub is_redirected: bool,
    /// The error that a document stands for; 0 for none.
    pub error_status: u16,
    pub rules: LogRules,
    /// The trace of the request; never that of another one with the same cached route.
    pub trace: Option<Rc<RequestTrace>>,
    /// The route that answered.
    pub route: Option<usize>,
    /// The id of error log lines about the request.
    pub log_id: Rc<LogId>,
}

impl ErrorDocument {
    pub fn of(page: &Exchange) -> ErrorDocument {
        ErrorDocument {
            status: 0,
            path: page.path.as_slice().into(),
            query: page.query.as_deref().map(Into::into),
            file: file(page),
            environment: page.environment.clone(),
        }
    }
}

impl LogFacts {
    pub fn of(exchange: &Exchange) -> LogFacts {
        let own = || ErrorDocument::of(exchange);
        let last = exchange
            .log
            .error_document
            .as_deref()
            .cloned()
            .unwrap_or_else(own);
        let first = exchange.log.original.as_deref();
        let differs = first.is_some() || exchange.log.error_document.is_some();
        LogFacts {
            path: first.map_or_else(
                || exchange.path.as_slice().into(),
                |first| first.path.clone(),
            ),
            final_path: last.path,
            first_query: first.map(|first| first.query.clone()),
            query: (last.query.as_deref() != asked_query(exchange)).then_some(last.query),
            file: last.file,
            // The name that Apache gives to internal redirects.
            handler: if first.is_some() {
                "redirect-handler".into()
            } else {
                exchange.routing.handler.clone().unwrap_or_default()
            },
            first_environment: differs.then(|| {
                first
                    .map_or(&exchange.environment, |first| &first.environment)
                    .clone()
            }),
            environment: last.environment,
            notes: exchange.log.notes.clone(),
            late_notes: exchange.log.late_notes.clone(),
            attempts: exchange.upstream.attempts.clone(),
            is_redirected: first.is_some(),
            error_status: last.status,
            rules: exchange.log.rules.clone(),
            trace: exchange.log.request_trace.clone(),
            route: exchange.routing.route,
            log_id: Rc::clone(&exchange.log.id),
        }
    }

    /// Returns the facts for another request with the same cached route, which has its own log id.
    pub fn of_another(&self) -> LogFacts {
        LogFacts {
            log_id: Rc::default(),
            trace: None,
            late_notes: Vec::new(),
            attempts: UpstreamAttempts::default(),
            ..self.clone()
        }
    }

    /// The notes as they are when the response is over.
    pub fn notes_at_end(&self) -> Cow<'_, Environment> {
        if self.late_notes.is_empty() {
            return Cow::Borrowed(&self.notes);
        }
        let mut notes = self.notes.clone();
        for (name, value) in &self.late_notes {
            if let Some(text) = self.attempts.text(*value) {
                notes.set(name.as_bytes(), text.as_bytes());
            }
        }
        Cow::Owned(notes)
    }

    /// Returns true if the original request had the variable.
    pub fn has_variable(&self, name: &str) -> bool {
        self.first_environment
            .as_ref()
            .unwrap_or(&self.environment)
            .first(name.as_bytes())
            .is_some()
    }
}

fn asked_query(exchange: &Exchange) -> Option<&[u8]> {
    let target = exchange.head.view().target();
    target
        .iter()
        .position(|byte| *byte == b'?')
        .and_then(|at| target.get(at + 1..))
}

fn file(exchange: &Exchange) -> Option<Box<[u8]>> {
    exchange
        .routing
        .mapped
        .as_ref()
        .map(|mapped| mapped.filename().into())
}
