//! ProxyFCGISetEnvIf: the last word on what a program is told, by expressions over everything that
//! it would be.
//!
//! Difficulty: `reqenv()` means the variables as they stand at that moment, those among them that
//! only the gateway makes, and what earlier lines have changed.

use crate::{
    facts::RequestFacts,
    state::{State, snapshot, vary_by},
};
use saker_ap_expr::{Evaluation, Facts};
use saker_apache_model::{host::Host, modules::proxy::SetEnvIf};
use saker_files::Watcher;
use saker_pipeline::{Exchange, VariableAdjustment};
use std::{borrow::Cow, rc::Rc, sync::Arc};

type Told = Vec<(Vec<u8>, Vec<u8>)>;

/// `None`: there is nothing to be said.
pub fn adjust(
    edits: &[SetEnvIf],
    host: &Arc<Host>,
    watcher: &Watcher,
    state: Rc<State>,
) -> Option<VariableAdjustment> {
    if edits.is_empty() {
        return None;
    }
    let (edits, host, watcher) = (edits.to_vec(), Arc::clone(host), watcher.clone());
    Some(VariableAdjustment::new(move |exchange, mut told| {
        for edit in &edits {
            let seen = RequestFacts::new(exchange, &state, &host, &watcher);
            apply(edit, &seen, &mut told);
        }
        told
    }))
}

/// Notes the fields of the request that conditions ask for, as far as they are known before the
/// program's variables are made.
pub fn vary(edits: &[SetEnvIf], exchange: &mut Exchange, host: &Arc<Host>, watcher: &Watcher) {
    for edit in edits {
        let own = snapshot(exchange);
        let seen = RequestFacts::new(exchange, &own, host, watcher);
        let mut evaluation = Evaluation::new(&seen);
        // A condition that can't be evaluated has looked at fields all the same.
        let _ = edit.condition.evaluate(&mut evaluation);
        let dependencies = evaluation.dependencies;
        vary_by(exchange, &dependencies);
    }
}

/// One line. What can't be evaluated does not hold.
fn apply(edit: &SetEnvIf, request: &dyn Facts, told: &mut Told) {
    let facts = WithVariables { request, told };
    let mut evaluation = Evaluation::new(&facts);
    if !edit.condition.evaluate(&mut evaluation).unwrap_or(false) {
        return;
    }
    if let Some(name) = edit.name.strip_prefix('!') {
        return told.retain(|(known, _)| !known.eq_ignore_ascii_case(name.as_bytes()));
    }
    let value = edit
        .value
        .as_ref()
        .map_or(Ok(Vec::new()), |value| value.evaluate(&mut evaluation))
        .unwrap_or_default();
    match told
        .iter_mut()
        .find(|(known, _)| known.eq_ignore_ascii_case(edit.name.as_bytes()))
    {
        Some((_, old)) => *old = value,
        None => told.push((edit.name.as_bytes().to_vec(), value)),
    }
}

struct WithVariables<'f> {
    request: &'f dyn Facts,
    told: &'f Told,
}

impl Facts for WithVariables<'_> {
    fn beneath(&self) -> Option<&dyn Facts> {
        Some(self.request)
    }

    fn environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.told
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| Cow::Borrowed(value.as_slice()))
    }
}
