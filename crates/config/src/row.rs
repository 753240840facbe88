//! Rows of the table of directives: one per key, from which reading, checks, the JSON Schema and
//! the reference page derive.
//!
//! A row is typed by the draft that its setter sets ([`Row<T>`]) and stands in
//! `directives/<feature>.rs`. Whatever does not set values sees it untyped, as a [`Directive`] of
//! the [`Catalog`].
//! Caveat: a [`Draft`] must list every group of rows that is in the catalog; the test that sets
//! every row's example finds one that is missing.

use crate::{
    context::{Contexts, FILE},
    kind::Kind,
    suggest,
    value::{Fields, Key, Spanned},
};

/// One key of the configuration, and where its value goes.
#[derive(Debug)]
pub(crate) struct Row<T: 'static> {
    pub name: &'static str,
    pub contexts: Contexts,
    pub kind: Kind,
    /// TOML of the value in force when the key is absent. `None`: nothing, or described by the
    /// summary.
    pub default: Option<&'static str>,
    /// TOML of a typical value, where the default is none.
    pub example: Option<&'static str>,
    /// Unit of a bare number.
    pub unit: Option<&'static str>,
    pub required: bool,
    pub since: &'static str,
    pub summary: &'static str,
    /// The Apache directive that does this.
    pub apache: Option<&'static str>,
    /// Names that operators coming from other servers may use instead.
    pub aliases: &'static [&'static str],
    /// Spellings of earlier versions, which still work and warn.
    pub deprecated: &'static [&'static str],
    /// Unused where the value is a section, whose own rows have the setters.
    pub set: fn(&mut T, Spanned),
}

/// Groups of rows.
pub(crate) type Rows<T> = &'static [&'static [Row<T>]];

impl<T> Row<T> {
    /// Defaults shared by most rows.
    pub const BASE: Row<T> = Row {
        name: "",
        contexts: FILE,
        kind: Kind::Boolean,
        default: None,
        example: None,
        unit: None,
        required: false,
        since: "0.1",
        summary: "",
        apache: None,
        aliases: &[],
        deprecated: &[],
        set: |_, given| debug_assert!(false, "a row without a setter was given {given:?}"),
    };

    fn directive(&'static self) -> Directive {
        Directive {
            name: self.name,
            contexts: self.contexts,
            kind: &self.kind,
            default: self.default,
            example: self.example,
            unit: self.unit,
            required: self.required,
            since: self.since,
            summary: self.summary,
            apache: self.apache,
            aliases: self.aliases,
            deprecated: self.deprecated,
        }
    }
}

/// The rows of a group, untyped.
pub(crate) fn directives<T>(rows: &'static [Row<T>]) -> impl Iterator<Item = Directive> {
    rows.iter().map(Row::directive)
}

/// A row without its setter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Directive {
    pub name: &'static str,
    pub contexts: Contexts,
    pub kind: &'static Kind,
    pub default: Option<&'static str>,
    pub example: Option<&'static str>,
    pub unit: Option<&'static str>,
    pub required: bool,
    pub since: &'static str,
    pub summary: &'static str,
    pub apache: Option<&'static str>,
    pub aliases: &'static [&'static str],
    pub deprecated: &'static [&'static str],
}

impl Directive {
    /// Returns true if another server has this name for it.
    pub fn is_known_elsewhere_as(&self, word: &str) -> bool {
        let apache = self.apache.into_iter().flat_map(|names| names.split(", "));
        apache
            .chain(self.aliases.iter().copied())
            .any(|name| suggest::same_word(name, word))
    }
}

/// All directives, in the order of the reference page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Catalog(pub &'static [Directive]);

impl Catalog {
    pub fn iter(self) -> impl Iterator<Item = &'static Directive> {
        self.0.iter()
    }

    /// The directives of one table.
    pub fn within(self, context: Contexts) -> impl Iterator<Item = &'static Directive> {
        self.0
            .iter()
            .filter(move |directive| directive.contexts.includes(context))
    }

    /// The directive of a key, by its name or a deprecated spelling.
    pub fn find(self, name: &str, context: Contexts) -> Option<&'static Directive> {
        self.within(context)
            .find(|directive| directive.name == name || directive.deprecated.contains(&name))
    }
}

/// A type that tables are read into.
pub(crate) trait Draft: Sized + 'static {
    /// The rows that set this type itself.
    fn rows() -> Rows<Self>;

    /// Sets the value of a key. Returns it where neither this draft nor a part of it has the key.
    fn set(&mut self, key: Key, given: Spanned) -> Option<Spanned> {
        set_own(self, key, given)
    }

    /// Takes note of a key whose value is broken and reported, so that it is not reported as
    /// missing.
    fn note_unread(&mut self, _key: Key) {}

    /// Sets all values of a table.
    fn fill(&mut self, fields: &Fields) {
        fill(self, fields);
    }
}

/// [`Draft::fill`] key by key.
pub(crate) fn fill<T: Draft>(draft: &mut T, fields: &Fields) {
    for (key, given) in &fields.values {
        let unset = draft.set(*key, given.clone());
        debug_assert!(unset.is_none(), "no row of the draft has {key:?}");
    }
    for key in &fields.unread {
        draft.note_unread(*key);
    }
}

/// [`Draft::set`] by the draft's own rows.
pub(crate) fn set_own<T: Draft>(target: &mut T, key: Key, given: Spanned) -> Option<Spanned> {
    let row = T::rows()
        .iter()
        .flat_map(|group| group.iter())
        .find(|row| row.name == key.name && row.contexts.includes(key.context));
    match row {
        Some(row) => {
            (row.set)(target, given);
            None
        }
        None => Some(given),
    }
}
