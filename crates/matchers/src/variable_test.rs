//! Tests of the value of a map or of a variable.
//!
//! Called by: matchers.
//! Caveat: the name is linked when all files of the configuration have been read; a test that was
//! not linked refuses the request.
//! Out of scope: variables of routes, which exist only after a route has been selected.

use crate::{
    Template, TextSink, ValueTest,
    evaluation::{Evaluation, MatchError},
};
use std::sync::OnceLock;

/// Tests of which one must hold. An empty value counts as absent.
#[derive(Debug)]
pub struct VariableTest {
    pub name: Box<str>,
    pub tests: Box<[ValueTest]>,
    value: OnceLock<Template>,
}

impl VariableTest {
    /// A test that is not linked yet.
    pub fn new(name: &str, tests: Vec<ValueTest>) -> VariableTest {
        VariableTest {
            name: name.into(),
            tests: tests.into(),
            value: OnceLock::new(),
        }
    }

    /// Sets the linked text of the name. The first one counts.
    pub fn attach(&self, value: Template) {
        let _ = self.value.set(value);
    }

    pub(crate) fn matches(&self, evaluation: &mut Evaluation<'_>) -> Result<bool, MatchError> {
        let Some(value) = self.value.get() else {
            return Err(MatchError {
                message: format!("`{}` is not linked", self.name),
            });
        };
        let mut text = TextSink(Vec::new());
        value.expand(evaluation, &mut text)?;
        let text = Some(text.0.as_slice()).filter(|text| !text.is_empty());
        for test in &self.tests {
            if test.holds(text)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
