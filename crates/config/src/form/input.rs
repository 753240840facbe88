//! Inputs of a form, by the kind of the value; and values as text, in both directions.
//!
//! Called by: forms and changes.
//! Caveat: strings are shown without quotes where the kind takes nothing but strings; everything
//! else is TOML.

use crate::{
    context::Contexts,
    kind::{Kind, Shape},
};
use toml_edit::{Item, Value};

/// The control that a form shows for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// `true` or `false`.
    Boolean,
    Choice(&'static [&'static str]),
    /// A string, without quotes.
    Text,
    /// A value in TOML; a string may do without quotes.
    Toml,
}

impl Input {
    pub(crate) fn of(kind: &Kind) -> Input {
        match kind {
            Kind::Boolean => Input::Boolean,
            Kind::Choice(words) => Input::Choice(words),
            Kind::Text | Kind::Path | Kind::PathOrProgram | Kind::Word(_) => Input::Text,
            Kind::Duration { .. } => Input::Text,
            _ => Input::Toml,
        }
    }
}

impl Kind {
    /// Returns whether it has values other than tables with rows of their own.
    pub(crate) fn has_plain_form(&self) -> bool {
        match self {
            Kind::Section(_) | Kind::Sections(_) | Kind::Table(_) => false,
            Kind::OneOf(kinds) => kinds.iter().any(Kind::has_plain_form),
            _ => true,
        }
    }
}

/// The context of a key's tables.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Children {
    pub one: Option<Contexts>,
    pub listed: Option<Contexts>,
}

/// The tables with rows of their own that a value of this kind may be, or may list.
pub(crate) fn children(kind: &Kind) -> Children {
    let mut found = Children::default();
    match kind {
        Kind::Section(context) => found.one = Some(*context),
        Kind::Sections(context) => found.listed = Some(*context),
        Kind::Table(table) => found.one = Some(table.context),
        Kind::ListOf(element) => found.listed = children(element).one,
        Kind::OneOf(kinds) => {
            for kind in kinds.iter().map(children) {
                found.one = found.one.or(kind.one);
                found.listed = found.listed.or(kind.listed);
            }
        }
        _ => {}
    }
    found
}

/// A value as the input shows it.
pub(crate) fn shown(input: Input, item: &Item) -> String {
    if let (Input::Text | Input::Choice(_), Some(text)) = (input, item.as_str()) {
        return text.to_owned();
    }
    match item.clone().into_value() {
        Ok(value) => value.to_string().trim().to_owned(),
        Err(item) => item.to_string().trim().to_owned(),
    }
}

/// The value that an operator has typed.
pub(crate) fn typed(kind: &Kind, text: &str) -> Result<Value, String> {
    let wrong = || format!("must be {}", kind.expects());
    match Input::of(kind) {
        Input::Boolean => text.parse::<bool>().map(Value::from).map_err(|_| wrong()),
        Input::Text | Input::Choice(_) => Ok(Value::from(text)),
        Input::Toml => match text.parse::<Value>() {
            Ok(value) if kind.accepts(shape(&value)) => Ok(value),
            _ if kind.accepts(Shape::String) => Ok(Value::from(text)),
            _ => Err(wrong()),
        },
    }
}

fn shape(value: &Value) -> Shape {
    match value {
        Value::String(_) => Shape::String,
        Value::Integer(_) => Shape::Integer,
        Value::Float(_) => Shape::Float,
        Value::Boolean(_) => Shape::Boolean,
        Value::Array(_) => Shape::List,
        Value::InlineTable(_) => Shape::Table,
        Value::Datetime(_) => Shape::Other,
    }
}
