//! Directives as a tree.
//!
//! Called by: `read`, which builds it, and the setters of `saker-nginx-model`.

use crate::{lexer::Word, row::Row};
use saker_config::model::Origin;
use std::sync::Arc;

/// A directive with its arguments and its block.
#[derive(Clone, Debug)]
pub struct Directive {
    pub name: Word,
    pub arguments: Vec<Word>,
    pub block: Option<Vec<Directive>>,
    pub file: Arc<str>,
    /// Line of the `;` or `{`, which nginx's messages name.
    pub end_line: u32,
    /// `None` in blocks whose entries are no directives (`map`, `geo`, `types`, `split_clients`).
    pub row: Option<&'static Row>,
}

impl Directive {
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name.text
    }

    /// Returns an argument by its index; empty if there are fewer.
    pub fn argument(&self, index: usize) -> &str {
        self.arguments
            .get(index)
            .map_or("", |word| word.text.as_str())
    }

    /// Iterates over the texts of the arguments.
    pub fn texts(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.arguments.iter().map(|word| word.text.as_str())
    }

    /// Returns the directives of the block.
    pub fn inside(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Returns where the directive begins.
    pub fn origin(&self) -> Origin {
        Origin {
            file: Arc::clone(&self.file),
            line: self.name.line,
            column: self.name.column,
        }
    }
}
