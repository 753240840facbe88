//! mod_env: variables that are the same for every request, set among the fixups.
//!
//! Difficulty: `UnsetEnv` takes back what stands before it in its own section and what is said
//! outside, not what other modules have set.

use super::core::texts;
use crate::{
    local::{Local, Set},
    reading::Reading,
};
use saker_apache_syntax::Node;
use saker_pipeline::{Environment, Exchange};
use std::sync::Arc;

type Bytes = Box<[u8]>;

/// Variables of a section: a list that is looked through for each of its names.
const VARIABLES_MAX: usize = 4_000;
/// Bytes of a text that take as long to look at as the name of one variable.
const LOOK_BYTES: usize = 2;

#[derive(Clone, Debug, Default)]
struct Said {
    variables: Vec<(Bytes, Bytes)>,
    /// Of outside.
    unset: Vec<Bytes>,
}

#[derive(Clone, Debug, Default)]
pub struct Env(Option<Arc<Said>>);

impl Env {
    pub const DIRECTIVES: &'static [(&'static str, Set)] =
        &[("SetEnv", set), ("PassEnv", pass), ("UnsetEnv", unset)];

    pub fn under(&self, over: &Env) -> Env {
        let (Some(outer), Some(inner)) = (&self.0, &over.0) else {
            return Env(over.0.as_ref().or(self.0.as_ref()).cloned());
        };
        let mut merged = Said {
            variables: outer.variables.clone(),
            unset: Vec::new(),
        };
        inner.unset.iter().for_each(|name| merged.remove(name));
        inner
            .variables
            .iter()
            .for_each(|(name, value)| merged.put(name, value));
        Env(Some(Arc::new(merged)))
    }

    /// Later than what SetEnvIf and rewrite rules have set, and over it. Where there are many, the
    /// request's budget is charged.
    pub fn apply_to(&self, exchange: &mut Exchange) {
        const FEW: usize = 64;
        let Some(said) = &self.0 else { return };
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
        self.apply(&mut exchange.environment);
    }

    fn apply(&self, environment: &mut Environment) {
        self.0
            .iter()
            .flat_map(|said| &said.variables)
            .for_each(|(name, value)| environment.set(name, value));
    }

    fn said(&mut self) -> &mut Said {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

impl Said {
    fn remove(&mut self, name: &[u8]) {
        self.variables
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    }

    fn put_one(&mut self, name: &[u8], value: &[u8]) -> Result<(), String> {
        if self.variables.len() >= VARIABLES_MAX {
            return Err(format!(
                "SetEnv: more than {VARIABLES_MAX} variables in one section"
            ));
        }
        self.put(name, value);
        Ok(())
    }

    fn put(&mut self, name: &[u8], value: &[u8]) {
        self.remove(name);
        self.variables.push((name.into(), value.into()));
    }
}

fn set(node: &Node, local: &mut Local, _: &mut Reading<'_>) -> Result<(), String> {
    let words = node.arguments();
    let value = words.get(1).map(Vec::as_slice).unwrap_or_default();
    if let Some(name) = words.first() {
        local.env.said().put_one(name, value)?;
    }
    Ok(())
}

fn pass(node: &Node, local: &mut Local, reading: &mut Reading<'_>) -> Result<(), String> {
    use std::os::unix::ffi::OsStrExt;
    for name in texts(node) {
        match std::env::var_os(&name) {
            Some(value) => local.env.said().put(name.as_bytes(), value.as_bytes()),
            None => reading.warn(node, format!("PassEnv variable {name} was undefined")),
        }
    }
    Ok(())
}

fn unset(node: &Node, local: &mut Local, _: &mut Reading<'_>) -> Result<(), String> {
    for name in node.arguments() {
        let said = local.env.said();
        said.remove(&name);
        said.unset.push(name.into());
    }
    Ok(())
}

/// What an internal redirect makes of the variables so far: each with `REDIRECT_` before it. Where
/// it came from is told to programs only.
pub fn redirected(before: &Environment, status: u16) -> Environment {
    let mut environment = Environment::default();
    for (name, value) in before.iter() {
        environment.set(&[b"REDIRECT_", name].concat(), value);
    }
    environment.set(b"REDIRECT_STATUS", status.to_string().as_bytes());
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(variables: &[(&str, &str)], unset: &[&str]) -> Env {
        let mut env = Env::default();
        let said = env.said();
        variables
            .iter()
            .for_each(|(name, value)| said.put(name.as_bytes(), value.as_bytes()));
        said.unset = unset.iter().map(|name| name.as_bytes().into()).collect();
        env
    }

    fn applied(env: &Env) -> String {
        let mut environment = Environment::default();
        environment.set(b"A", b"before");
        env.apply(&mut environment);
        let show = |(name, value): (&[u8], &[u8])| {
            format!(
                "{}={}",
                String::from_utf8_lossy(name),
                String::from_utf8_lossy(value)
            )
        };
        environment.iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn inner_sections_add_change_and_take_back() {
        let outer = env(&[("B", "1"), ("C", "2")], &[]);
        for (inner, expected) in [
            (Env::default(), "A=before B=1 C=2"),
            (env(&[("b", "3")], &[]), "A=before C=2 b=3"),
            (env(&[], &["C", "A"]), "A=before B=1"),
            (env(&[("C", "new")], &["C"]), "A=before B=1 C=new"),
            (env(&[("A", "x")], &[]), "A=x B=1 C=2"),
        ] {
            assert_eq!(applied(&outer.under(&inner)), expected);
        }
    }
}
