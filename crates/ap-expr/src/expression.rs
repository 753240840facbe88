//! Compiled expressions: parsed once, evaluated for each request.
//!
//! Called by: front ends and features, through the crate's root.
//! Out of scope: caching results; [`Evaluation::dependencies`] tells whether that is allowed.

use crate::{
    Dependencies, Evaluation, EvaluationError, ExpressionError, ExpressionOptions, parse, reach,
    tree::{Condition, Word},
};

/// Boolean expression: `<If>`, `Require expr`, `expr=`, `RewriteCond expr`.
#[derive(Debug)]
pub struct Expression {
    text: Box<[u8]>,
    root: Condition,
    options: ExpressionOptions,
}

/// String expression: `%{…}` in templates, `Header set X "expr=…"`, `ErrorDocument`, `Redirect`.
#[derive(Debug)]
pub struct StringExpression {
    text: Box<[u8]>,
    root: Word,
    options: ExpressionOptions,
}

impl Expression {
    pub fn compile(
        text: impl AsRef<[u8]>,
        options: ExpressionOptions,
    ) -> Result<Expression, ExpressionError> {
        let text = text.as_ref();
        Ok(Expression {
            text: text.into(),
            root: parse::condition(text, options)?,
            options,
        })
    }

    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns everything an evaluation could depend on, whichever branch it takes.
    pub fn may_depend(&self) -> Dependencies {
        let mut all = Dependencies::new();
        reach::condition(&self.root, &mut all);
        all
    }

    pub fn evaluate(&self, evaluation: &mut Evaluation<'_>) -> Result<bool, EvaluationError> {
        evaluation.condition(&self.root, self.options)
    }
}

impl StringExpression {
    pub fn compile(
        text: impl AsRef<[u8]>,
        options: ExpressionOptions,
    ) -> Result<StringExpression, ExpressionError> {
        let text = text.as_ref();
        Ok(StringExpression {
            text: text.into(),
            root: parse::string(text, options)?,
            options,
        })
    }

    /// A text that contains no variables, whatever it looks like.
    pub fn literal(text: impl AsRef<[u8]>) -> StringExpression {
        let text: Box<[u8]> = text.as_ref().into();
        StringExpression {
            root: Word::Literal(text.clone()),
            text,
            options: ExpressionOptions::default(),
        }
    }

    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The text, if it is the same for every request.
    pub fn constant(&self) -> Option<&[u8]> {
        match &self.root {
            Word::Literal(text) => Some(text),
            _ => None,
        }
    }

    /// Returns everything an evaluation could depend on, whichever branch it takes.
    pub fn may_depend(&self) -> Dependencies {
        let mut all = Dependencies::new();
        reach::word(&self.root, &mut all);
        all
    }

    /// Evaluates with all parts that are not literally in the text escaped by `escape`.
    pub fn evaluate_escaped(
        &self,
        evaluation: &mut Evaluation<'_>,
        escape: fn(&[u8], &mut Vec<u8>),
    ) -> Result<Vec<u8>, EvaluationError> {
        let parts = match &self.root {
            Word::Concat(parts) => parts.as_slice(),
            root => std::slice::from_ref(root),
        };
        let mut out = Vec::new();
        for part in parts {
            let text = evaluation.string(part, self.options)?;
            match part {
                Word::Literal(_) => out.extend_from_slice(&text),
                _ => escape(&text, &mut out),
            }
        }
        Ok(out)
    }

    pub fn evaluate(&self, evaluation: &mut Evaluation<'_>) -> Result<Vec<u8>, EvaluationError> {
        evaluation.string(&self.root, self.options)
    }
}
