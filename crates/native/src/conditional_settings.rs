//! Settings for requests that meet conditions (`[[site.when]]`).
//!
//! Called by: route selection, after the route is known and before anything reads its settings.
//! Caveat: each condition is recorded with its result, so that a cached route answers only requests
//! that give the same results. Changed settings are made once per combination of results: features
//! recognize settings by their address.
//! Out of scope: conditions of routes (`routes`).

use saker_config::model::{CONDITIONALS_MAX, Settings};
use saker_files::Watcher;
use saker_matchers::{Evaluation, MatchError};
use saker_pipeline::{Exchange, ExchangeFacts, Noted};
use std::{cell::RefCell, collections::HashMap, sync::Arc};

/// Changed settings that a worker keeps; beyond this number, all are dropped.
const KEPT_MAX: usize = 256;

/// Changed settings by the address of the unchanged ones and the results of their conditions. The
/// unchanged ones are kept, too, so that no others get their address.
#[derive(Default)]
pub struct Variants(RefCell<HashMap<(usize, u64), Variant>>);

struct Variant {
    _base: Arc<Settings>,
    changed: Arc<Settings>,
}

/// Changes the settings in force by all conditions that hold.
pub fn apply(
    exchange: &mut Exchange,
    watcher: &Watcher,
    variants: &Variants,
) -> Result<(), MatchError> {
    if exchange.routing.settings.conditionals.is_empty() {
        return Ok(());
    }
    let base = Arc::clone(&exchange.routing.settings);
    let facts = ExchangeFacts::new(exchange, Some(watcher));
    let mut evaluation = Evaluation::new(&facts);
    let mut results: Result<u64, MatchError> = Ok(0);
    for (at, conditional) in base.conditionals.iter().take(CONDITIONALS_MAX).enumerate() {
        match conditional.matcher.matches(&mut evaluation) {
            Ok(held) => results = results.map(|results| results | u64::from(held) << at),
            Err(error) => {
                results = Err(error);
                break;
            }
        }
    }
    Noted::of(&facts, evaluation).note(exchange);
    let results = results?;
    for (at, conditional) in base.conditionals.iter().enumerate() {
        if results >> at & 1 == 1 {
            exchange.trace("server_rewrite", Some(&conditional.origin), || {
                format!("settings for requests with {} apply", conditional.matcher)
            });
        }
    }
    if results != 0 {
        exchange.routing.settings = variants.changed(base, results);
    }
    Ok(())
}

impl Variants {
    fn changed(&self, base: Arc<Settings>, results: u64) -> Arc<Settings> {
        let mut known = self.0.borrow_mut();
        let key = (Arc::as_ptr(&base) as usize, results);
        if known.len() >= KEPT_MAX && !known.contains_key(&key) {
            known.clear();
        }
        let variant = known.entry(key).or_insert_with(|| {
            let mut changed = Settings::clone(&base);
            for (at, conditional) in base.conditionals.iter().enumerate() {
                if results >> at & 1 == 1 {
                    conditional.change.apply(&mut changed);
                }
            }
            Variant {
                _base: base,
                changed: Arc::new(changed),
            }
        });
        Arc::clone(&variant.changed)
    }
}
