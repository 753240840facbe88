//! Values that passed their row's checks, on the way into the model.
//!
//! Called by: the reader, which makes them; the rows' setters, which take them. A value has the
//! shape of its TOML, or the type that its row's grammar parsed it into ([`Value::Parsed`]), so
//! that neither this file nor the reader knows any feature's types.
//! Caveat: an accessor returns an empty value if the type differs. A row whose kind and setter
//! disagree is a defect, found by an assertion and by the test that runs every row's example
//! through its setter.

use crate::{context::Contexts, origin::Origin, source::Location};
use std::{any::Any, path::PathBuf, sync::Arc};

/// A checked value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Boolean(bool),
    /// Integers, bytes, milliseconds, statuses.
    Number(u64),
    Text(String),
    Path(PathBuf),
    List(Vec<Spanned>),
    Map(Vec<(String, Spanned)>),
    /// The result of a [`Word`](crate::kind::Word) or a [`TableKind`](crate::kind::TableKind).
    Parsed(Arc<dyn Any + Send + Sync>),
}

impl Value {
    /// A value of a feature's own type.
    pub fn parsed<T: Send + Sync + 'static>(value: T) -> Value {
        Value::Parsed(Arc::new(value))
    }

    /// The value, if it is a `T` made by [`Value::parsed`].
    pub fn parsed_as<T: Clone + 'static>(&self) -> Option<T> {
        match self {
            Value::Parsed(value) => value.downcast_ref().cloned(),
            _ => None,
        }
    }
}

/// A value and its location.
#[derive(Clone, Debug)]
pub(crate) struct Spanned {
    pub value: Value,
    pub at: Location,
}

macro_rules! accessors {
    ($($name:ident $variant:ident $type:ty;)*) => {
        $(pub fn $name(self) -> $type {
            match self.value {
                Value::$variant(inner) => inner,
                other => mismatch(&other),
            }
        })*
    };
}

impl Spanned {
    accessors! {
        boolean Boolean bool;
        number Number u64;
        text Text String;
        path Path PathBuf;
        list List Vec<Spanned>;
        map Map Vec<(String, Spanned)>;
    }

    /// Returns the value as a feature's own type, which must be the type that the row's grammar
    /// makes.
    pub fn parsed<T: Clone + Default + 'static>(self) -> T {
        self.value
            .parsed_as()
            .unwrap_or_else(|| mismatch(&self.value))
    }

    /// The value as a `T`, if it is one; the row allows others.
    pub fn parsed_as<T: Clone + 'static>(&self) -> Option<T> {
        self.value.parsed_as()
    }

    /// The elements of a list that are a `T`.
    pub fn parsed_list<T: Clone + 'static>(self) -> Vec<T> {
        self.list().iter().filter_map(Spanned::parsed_as).collect()
    }

    pub fn texts(self) -> Vec<String> {
        self.list().into_iter().map(Spanned::text).collect()
    }

    /// The paths of a list, or the one path.
    pub fn paths(self) -> Vec<PathBuf> {
        self.one_or_many().into_iter().map(Spanned::path).collect()
    }

    /// The elements of a list, or the one value.
    pub fn one_or_many(self) -> Vec<Spanned> {
        match self.value {
            Value::List(list) => list,
            _ => vec![self],
        }
    }

    pub fn located_text(self) -> (String, Location) {
        let at = self.at.clone();
        (self.text(), at)
    }

    pub fn located_boolean(self) -> (bool, Location) {
        let at = self.at.clone();
        (self.boolean(), at)
    }

    pub fn located_path(self) -> (PathBuf, Location) {
        let at = self.at.clone();
        (self.path(), at)
    }

    pub fn origin(&self) -> Origin {
        self.at.origin()
    }
}

fn mismatch<T: Default>(found: &Value) -> T {
    debug_assert!(false, "a row's setter expects another kind than {found:?}");
    T::default()
}

/// Why a value was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ValueError {
    /// Completes a sentence: "invalid value "x" for `key`: …".
    pub message: Option<String>,
    pub help: Option<String>,
}

impl ValueError {
    pub fn new(message: impl Into<String>) -> ValueError {
        ValueError {
            message: Some(message.into()),
            help: None,
        }
    }

    pub fn with_help(message: impl Into<String>, help: impl Into<String>) -> ValueError {
        ValueError {
            message: Some(message.into()),
            help: Some(help.into()),
        }
    }

    /// The row's "must be …" is the reason.
    pub fn plain(help: Option<String>) -> ValueError {
        ValueError {
            message: None,
            help,
        }
    }
}

/// A key in the table that it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub context: Contexts,
    pub name: &'static str,
}

/// The values of one table, in the order of the text.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    pub values: Vec<(Key, Spanned)>,
    /// Keys of the table as written, including unknown ones and those with broken values.
    pub written: Vec<String>,
    /// Keys without a value because theirs is broken, in sections too; an unknown key has no name.
    pub unread: Vec<Key>,
    /// Set if a key of the table is unknown.
    pub has_unknown: bool,
    pub at: Location,
}

impl Fields {
    /// Returns whether the table has the key, even if its value is broken.
    pub fn has(&self, name: &str) -> bool {
        self.written.iter().any(|written| written == name)
    }

    /// Returns the location of a key's value; the table's, if there is none.
    pub fn location(&self, name: &str) -> &Location {
        let found = self.values.iter().find(|(key, _)| key.name == name);
        found.map_or(&self.at, |(_, given)| &given.at)
    }

    /// Returns the value of a key, if it passed its row's checks.
    pub fn value(&self, name: &str) -> Option<&Value> {
        let (_, found) = self.values.iter().find(|(key, _)| key.name == name)?;
        Some(&found.value)
    }
}
