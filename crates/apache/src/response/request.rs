//! `RequestHeader`: edits of the request's own fields, before the rules or after them.

use crate::{
    facts::RequestFacts,
    response::edits::{EditContext, Received, apply_all, holds},
    state::{snapshot, state},
    worker::ApacheRules,
};
use saker_apache_model::{
    host::Host,
    modules::headers::{Action, Edit},
};
use saker_http::{Fields, field_name::is_alike};
use saker_net::blocking::Pause;
use saker_pipeline::Exchange;
use std::sync::Arc;

/// Fields that decide what a file is answered with: an outcome that kept them would look at those
/// of the next request.
const DECIDING: [&str; 7] = [
    "Range",
    "If-Range",
    "If-Match",
    "If-None-Match",
    "If-Modified-Since",
    "If-Unmodified-Since",
    "Accept-Encoding",
];

/// Takes away what the client says in other spellings of a name that rules set or unset: to a
/// program `X_User` and `X-User` are one. (Apache lets them pass to servers.)
fn drop_spoofs(own: &str, fields: &mut Fields) {
    fields.retain(|name| {
        name.eq_ignore_ascii_case(own) || !is_alike(name.as_bytes(), own.as_bytes())
    });
}

/// Applies those of the time to the request's head.
///
/// # Errors
/// The head is as it was, and one has to be waited for that looks ahead.
pub fn edit(
    rules: &ApacheRules,
    exchange: &mut Exchange,
    host: &Arc<Host>,
    edits: &[Arc<Edit>],
    early: bool,
) -> Result<(), Pause> {
    let mut wanted = edits
        .iter()
        .filter(|edit| edit.is_early() == early)
        .peekable();
    if wanted.peek().is_none() {
        return Ok(());
    }
    if wanted.any(|edit| {
        edit.asks_request
            || DECIDING
                .iter()
                .any(|name| name.eq_ignore_ascii_case(&edit.name))
    }) {
        exchange.depends_on_request();
    }
    for edit in edits.iter().filter(|edit| edit.is_early() == early) {
        exchange.notes_edit_of(&edit.name);
    }
    let own = snapshot(exchange);
    let received = *state(exchange).received.get_or_insert_with(Received::now);
    let mut fields = Fields::new();
    for (name, value) in exchange.head.view().fields() {
        fields.append(String::from_utf8_lossy(name).into_owned(), value.to_vec());
    }
    let mut vary = Vec::new();
    {
        let seen = RequestFacts {
            rules: Some((rules, host)),
            ..RequestFacts::new(exchange, &own, host, rules.watcher())
        };
        let sets = |edit: &&Arc<Edit>| {
            edit.is_early() == early && matches!(edit.action, Action::Set(_) | Action::Unset)
        };
        edits
            .iter()
            .filter(sets)
            .filter(|edit| holds(edit, &seen, &mut vary))
            .for_each(|edit| drop_spoofs(&edit.name, &mut fields));
        apply_all(
            edits,
            early,
            &mut fields,
            &EditContext {
                facts: &seen,
                received,
                request: &[],
                work: exchange.budget().work(),
            },
        );
        if let Some(pause) = seen.pause.take() {
            return Err(pause);
        }
    }
    if exchange.budget().work().is_exhausted() {
        // The phase that asked for it ends with 500.
        return Ok(());
    }
    state(exchange).vary.append(&mut vary);
    exchange.head = exchange
        .head
        .with_fields(fields.iter().map(|(name, value)| (name.as_bytes(), value)));
    Ok(())
}
