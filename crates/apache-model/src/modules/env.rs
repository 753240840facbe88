//! Settings of mod_env: variables that are the same for every request.
//!
//! Called by: `dir_config`, whose table names the setters.
//! Caveat: `UnsetEnv` takes back what stands before it in its own section and what is said outside,
//! not what other modules have set.

use crate::{
    arguments::texts,
    reading::{Reading, Set},
};
use saker_apache_syntax::Node;
use saker_pipeline::Environment;
use std::sync::Arc;

pub type Bytes = Box<[u8]>;

/// Variables of a section: a list that is looked through for each of its names.
const VARIABLES_MAX: usize = 4_000;

#[derive(Clone, Debug, Default)]
pub struct EnvSettings {
    pub variables: Vec<(Bytes, Bytes)>,
    /// Variables of outer sections that are removed.
    unset: Vec<Bytes>,
}

#[derive(Clone, Debug, Default)]
pub struct Env(pub Option<Arc<EnvSettings>>);

impl Env {
    pub const DIRECTIVES: &'static [(&'static str, Set<Env>)] =
        &[("SetEnv", set), ("PassEnv", pass), ("UnsetEnv", unset)];

    pub fn merge(&self, over: &Env) -> Env {
        let (Some(outer), Some(inner)) = (&self.0, &over.0) else {
            return Env(over.0.as_ref().or(self.0.as_ref()).cloned());
        };
        let mut merged = EnvSettings {
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

    pub fn apply(&self, environment: &mut Environment) {
        self.0
            .iter()
            .flat_map(|said| &said.variables)
            .for_each(|(name, value)| environment.set_behind(name, value));
    }

    fn said(&mut self) -> &mut EnvSettings {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

impl EnvSettings {
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

fn set(node: &Node, env: &mut Env, _: &mut Reading<'_>) -> Result<(), String> {
    let words = node.arguments();
    let value = words.get(1).map(Vec::as_slice).unwrap_or_default();
    if let Some(name) = words.first() {
        env.said().put_one(name, value)?;
    }
    Ok(())
}

fn pass(node: &Node, env: &mut Env, reading: &mut Reading<'_>) -> Result<(), String> {
    use std::os::unix::ffi::OsStrExt;
    for name in texts(node) {
        match std::env::var_os(&name) {
            Some(value) => env.said().put(name.as_bytes(), value.as_bytes()),
            None => reading.warn(node, format!("PassEnv variable {name} was undefined")),
        }
    }
    Ok(())
}

fn unset(node: &Node, env: &mut Env, _: &mut Reading<'_>) -> Result<(), String> {
    for name in node.arguments() {
        let said = env.said();
        said.remove(&name);
        said.unset.push(name.into());
    }
    Ok(())
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

    /// Variables as programs get them.
    fn applied(env: &Env) -> String {
        let mut environment = Environment::default();
        environment.set(b"A", b"before");
        env.apply(&mut environment);
        environment.settle();
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
            assert_eq!(applied(&outer.merge(&inner)), expected);
        }
    }
}
