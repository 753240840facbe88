//! Edits of response fields whose values have variables.
//!
//! Called by: route selection. The request gets settings of its own, in which the values are texts,
//! so that files, cached routes, and filters apply them like all others.
//! Caveat: values are of the time of route selection; nothing of the response is known.
//! Out of scope: edits without variables.

use saker_ap_expr::Dependency;
use saker_config::model::Settings;
use saker_files::Watcher;
use saker_matchers::{Evaluation, FieldSink, MatchError, Template};
use saker_pipeline::{Exchange, ExchangeFacts, Noted};
use std::sync::Arc;

/// Facts that a stored page may depend on.
const OF_PATH: &[Dependency] = &[
    Dependency::Configuration,
    Dependency::Path,
    Dependency::Host,
];

/// The time at which variables are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The route has been selected.
    Selected,
    /// Access has been decided, so the user is known.
    Decided,
}

/// Replaces variables in the edits of the settings in force. Edits with the user's name wait until
/// it is known: before, they are not applied.
pub fn replace(exchange: &mut Exchange, watcher: &Watcher, stage: Stage) -> Result<(), MatchError> {
    let is_due = |template: &Template| stage == Stage::Decided || !template.uses_user();
    let mut edits = exchange.routing.settings.fields.iter();
    if !edits.any(|edit| edit.template.as_deref().is_some_and(is_due)) {
        return Ok(());
    }
    let captures = exchange.captures();
    let mut settings = Settings::clone(&exchange.routing.settings);
    let mut outcome = Ok(());
    for edit in &mut settings.fields {
        let Some(template) = edit.template.take_if(|template| is_due(template)) else {
            continue;
        };
        let facts = ExchangeFacts::new(exchange, Some(watcher));
        let mut evaluation = Evaluation::new(&facts).with_captures(&captures);
        let mut sink = FieldSink::default();
        outcome = outcome.and(template.expand(&mut evaluation, &mut sink));
        let dependencies = &evaluation.dependencies;
        edit.is_per_request |= !dependencies.is_within(OF_PATH) || !dependencies.tests().is_empty();
        if let Some(value) = edit.action.value_mut() {
            *value = String::from_utf8_lossy(&sink.finish()).into_owned();
        }
        Noted::of(&facts, evaluation).note(exchange);
    }
    exchange.routing.settings = Arc::new(settings);
    outcome
}
