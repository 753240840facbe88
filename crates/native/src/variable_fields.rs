//! Edits of response fields whose values have variables.
//!
//! Called by: route selection. The request gets settings of its own, in which the values are texts,
//! so that files, cached routes, and filters apply them like all others.
//! Caveat: values are of the time of route selection; nothing of the response is known.
//! Out of scope: edits without variables.

use saker_config::model::Settings;
use saker_files::Watcher;
use saker_matchers::{Evaluation, FieldSink, MatchError};
use saker_pipeline::{Exchange, ExchangeFacts, Noted};
use std::sync::Arc;

/// Replaces variables in the edits of the settings in force.
pub fn replace(exchange: &mut Exchange, watcher: &Watcher) -> Result<(), MatchError> {
    let edits = &exchange.routing.settings.fields;
    if !edits.iter().any(|edit| edit.template.is_some()) {
        return Ok(());
    }
    let captures = exchange.captures();
    let facts = ExchangeFacts::new(exchange, Some(watcher));
    let mut evaluation = Evaluation::new(&facts).with_captures(&captures);
    let mut settings = Settings::clone(&exchange.routing.settings);
    let mut outcome = Ok(());
    for edit in &mut settings.fields {
        let Some(template) = edit.template.take() else {
            continue;
        };
        let mut sink = FieldSink::default();
        outcome = outcome.and(template.expand(&mut evaluation, &mut sink));
        if let Some(value) = edit.action.value_mut() {
            *value = String::from_utf8_lossy(&sink.finish()).into_owned();
        }
    }
    Noted::of(&facts, evaluation).note(exchange);
    exchange.routing.settings = Arc::new(settings);
    outcome
}
