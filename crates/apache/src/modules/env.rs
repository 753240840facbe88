//! mod_env: variables that are the same for every request, set among the fixups.
//!
//! Difficulty: `UnsetEnv` takes back what stands before it in its own section and what is said
//! outside, not what other modules have set.

use saker_apache_model::modules::env::Env;
use saker_pipeline::{Environment, Exchange};

/// Bytes of a text that take as long to look at as the name of one variable.
const LOOK_BYTES: usize = 2;

/// Later than what SetEnvIf and rewrite rules have set, and behind it: programs get these values, edits
/// and logs those. Where there are many, the request's budget is charged.
pub fn apply(env: &Env, exchange: &mut Exchange) {
    const FEW: usize = 64;
    let Some(said) = &env.0 else { return };
    if said.variables.len() > FEW {
        let looks = said
            .variables
            .len()
            .saturating_mul(exchange.environment.len() + said.variables.len());
        exchange
            .budget()
            .work()
            .look_at(looks.saturating_mul(LOOK_BYTES));
    }
    env.apply(&mut exchange.environment);
}

/// The variables after an internal redirect: each with `REDIRECT_` before it. The path that led
/// here is told to programs only.
pub fn redirected(before: &Environment, status: u16) -> Environment {
    let mut environment = Environment::default();
    for (name, value) in before.iter() {
        environment.set_behind(&[b"REDIRECT_", name].concat(), value);
    }
    environment.set_known(b"REDIRECT_STATUS", status.to_string().as_bytes());
    if before.varies() {
        environment.mark_varying();
    }
    environment
}
