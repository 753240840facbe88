//! Kinds of values.
//!
//! Called by: rows; the reader, which checks values against kinds; the JSON Schema and the
//! reference page, which describe them.
//! Out of scope: grammars of single features ([`Word`], [`TableKind`]), which stand beside the
//! feature's rows.

use crate::{
    context::Contexts,
    diagnostic::quoted,
    report::Report,
    units,
    value::{Fields, Value, ValueError},
};
use toml::de::DeValue;

/// The kind of a key's value.
#[derive(Debug)]
pub enum Kind {
    Boolean,
    Integer {
        min: u64,
        max: u64,
    },
    /// A number from 0 to 1, kept in millionths.
    Fraction,
    /// `"64KiB"`, `"1MB"` or a number of bytes.
    Bytes {
        min: u64,
        max: u64,
    },
    /// `"30s"`, `"500ms"`, `"2m"`.
    Duration {
        min_ms: u64,
        max_ms: u64,
    },
    /// Any non-empty string.
    Text,
    /// Relative to the file it appears in.
    Path,
    /// A path, or a command after `|`.
    PathOrProgram,
    Choice(&'static [&'static str]),
    /// A string with its own grammar.
    Word(&'static Word),
    OneOf(&'static [Kind]),
    ListOf(&'static Kind),
    MapOf(&'static KeyKind, &'static Kind),
    /// A table whose keys are set on the same draft.
    Section(Contexts),
    /// `[[name]]`, any number of times.
    Sections(Contexts),
    /// A table that makes one value.
    Table(&'static TableKind),
}

#[derive(Debug)]
pub struct Word {
    /// With article, as in "must be …".
    pub expects: &'static str,
    /// Regular expression for the JSON Schema; empty for none.
    pub pattern: &'static str,
    pub(crate) read: fn(&str) -> Result<Value, ValueError>,
}

#[derive(Debug)]
pub struct KeyKind {
    pub expects: &'static str,
    pub pattern: &'static str,
    /// Keys that differ only in case are different keys.
    pub is_case_sensitive: bool,
    /// Returns the normalized key.
    pub(crate) read: fn(&str) -> Result<String, ValueError>,
}

#[derive(Debug)]
pub struct TableKind {
    pub context: Contexts,
    /// Makes a value of the table's fields, and reports those that do not fit together.
    pub(crate) read: fn(&mut Report<'_>, &Fields) -> Option<Value>,
}

/// The type of a TOML value, for choosing between alternatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Boolean,
    Integer,
    Float,
    String,
    List,
    Table,
    Other,
}

/// The type of a value.
pub(crate) fn shape(value: &DeValue<'_>) -> Shape {
    match value {
        DeValue::Boolean(_) => Shape::Boolean,
        DeValue::Integer(_) => Shape::Integer,
        DeValue::String(_) => Shape::String,
        DeValue::Array(_) => Shape::List,
        DeValue::Table(_) => Shape::Table,
        DeValue::Float(_) => Shape::Float,
        DeValue::Datetime(_) => Shape::Other,
    }
}

impl Kind {
    pub(crate) fn accepts(&self, shape: Shape) -> bool {
        match self {
            Kind::Boolean => shape == Shape::Boolean,
            Kind::Integer { .. } => shape == Shape::Integer,
            Kind::Fraction => matches!(shape, Shape::Integer | Shape::Float),
            Kind::Bytes { .. } => matches!(shape, Shape::Integer | Shape::String),
            Kind::Duration { .. }
            | Kind::Text
            | Kind::Path
            | Kind::PathOrProgram
            | Kind::Choice(_)
            | Kind::Word(_) => shape == Shape::String,
            Kind::OneOf(kinds) => kinds.iter().any(|kind| kind.accepts(shape)),
            Kind::ListOf(_) | Kind::Sections(_) => shape == Shape::List,
            Kind::MapOf(..) | Kind::Section(_) | Kind::Table(_) => shape == Shape::Table,
        }
    }

    /// The noun phrase of "must be …".
    pub fn expects(&self) -> String {
        match self {
            Kind::Boolean => "true or false".into(),
            Kind::Fraction => "a number from 0 to 1".into(),
            Kind::Integer { min, max } => format!("an integer from {min} to {max}"),
            Kind::Bytes { min, max } => {
                format!(
                    "a size from {} to {}, such as \"64KiB\" or \"1MB\"",
                    units::show_size(*min),
                    units::show_size(*max)
                )
            }
            Kind::Duration { min_ms, max_ms } => {
                let (min, max) = (units::show_duration(*min_ms), units::show_duration(*max_ms));
                format!("a duration from {min} to {max}, such as \"30s\" or \"500ms\"")
            }
            Kind::Text => "a string".into(),
            Kind::Path => "a path".into(),
            Kind::PathOrProgram => "a path or \"|command\"".into(),
            Kind::Choice(words) => alternatives(words.iter().map(|word| quoted(word)).collect()),
            Kind::Word(word) => word.expects.into(),
            Kind::OneOf(kinds) => one_of(kinds),
            Kind::ListOf(kind) => format!("a list [...], each element {}", kind.expects()),
            Kind::MapOf(key, kind) => format!("a table {{ {} = {} }}", key.expects, kind.expects()),
            Kind::Section(context) | Kind::Table(TableKind { context, .. }) => {
                format!("a table {}", context.described().header)
            }
            Kind::Sections(context) => format!("tables {}", context.described().header),
        }
    }
}

/// One value, or a list of such values, is described once.
fn one_of(kinds: &[Kind]) -> String {
    let is_repetition = |kind: &&Kind| match kind {
        Kind::ListOf(element) => kinds
            .iter()
            .any(|other| other.expects() == element.expects()),
        _ => false,
    };
    let words = alternatives(
        kinds
            .iter()
            .filter(|kind| !is_repetition(kind))
            .map(Kind::expects)
            .collect(),
    );
    match kinds.iter().any(|kind| is_repetition(&kind)) {
        true => format!("{words}, or a list of these"),
        false => words,
    }
}

fn alternatives(mut words: Vec<String>) -> String {
    match words.pop() {
        Some(last) if !words.is_empty() => format!("{} or {last}", words.join(", ")),
        Some(last) => last,
        None => String::new(),
    }
}
