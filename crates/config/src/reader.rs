//! Tables and values of a file, checked against the rows.
//!
//! [`Reader::fill`] reads a table in the order of the text: it finds each key's row, reads the
//! value as the row's kind, and hands all values to the draft. Nothing is skipped silently, and
//! reading goes on after a mistake.
//! Caveat: a mistake is reported once. What the TOML parser recovered on a line that it has
//! complained about is not judged again.
//! Out of scope: what values mean together; the directives and `check` judge that.

use crate::{
    context::{Contexts, FILE},
    diagnostic::quoted,
    kind::{KeyKind, Kind, Shape, Word, shape},
    report::Report,
    row::{Catalog, Directive, Draft},
    source::{Location, Source},
    suggest, units, unknown_key,
    value::{Fields, Key, Spanned, Value, ValueError},
    value_help,
};
use std::{collections::HashMap, ops::Range, sync::Arc};
use toml::de::{DeArray, DeInteger, DeString, DeTable, DeValue};

pub(crate) type Table<'t> = DeTable<'t>;
pub(crate) type Node<'t> = toml::Spanned<DeValue<'t>>;
type KeyNode<'t> = toml::Spanned<DeString<'t>>;

pub(crate) struct Reader<'r> {
    pub report: Report<'r>,
    catalog: Catalog,
    /// Name of the value being read, for messages.
    subject: String,
    /// Its row's name and example.
    example: Option<(&'static str, &'static str)>,
    /// Context of the table that contains it.
    context: Contexts,
}

impl<'r> Reader<'r> {
    pub fn new(report: Report<'r>, catalog: Catalog) -> Self {
        Reader {
            report,
            catalog,
            subject: String::new(),
            example: None,
            context: FILE,
        }
    }

    pub fn source(&self) -> &Arc<Source> {
        &self.report.source
    }

    /// Reads something of another text.
    pub fn within<R>(&mut self, source: &Arc<Source>, read: impl FnOnce(&mut Self) -> R) -> R {
        let around = self.report.enter(Arc::clone(source));
        let result = read(self);
        self.report.leave(around);
        result
    }

    pub fn at(&self, span: Range<usize>) -> Location {
        self.report.location(span)
    }

    pub fn error(&mut self, at: &Location, message: impl Into<String>, help: Option<String>) {
        self.report.error(at, message, help);
    }

    pub fn warning(&mut self, at: &Location, message: impl Into<String>, help: Option<String>) {
        self.report.warning(at, message, help);
    }

    /// Reads a table into `target`. `header` is where a missing key is reported. `[[tables]]` are
    /// left to the caller.
    pub fn fill<T: Draft>(
        &mut self,
        table: &Table<'_>,
        context: Contexts,
        header: &Location,
        target: &mut T,
    ) {
        target.fill(&self.fields(table, context, header));
    }

    /// The values of a table and of its sections.
    fn fields(&mut self, table: &Table<'_>, context: Contexts, header: &Location) -> Fields {
        let around = std::mem::replace(&mut self.context, context);
        let mut fields = Fields {
            values: Vec::new(),
            written: Vec::new(),
            unread: Vec::new(),
            has_unknown: false,
            at: header.clone(),
        };
        for (key, node) in in_order(table) {
            fields.written.push(key.get_ref().to_string());
            let Some(directive) = self.catalog.find(key.get_ref(), context) else {
                fields.has_unknown = true;
                fields.unread.push(Key { context, name: "" });
                self.unknown_key(key, context);
                continue;
            };
            if directive.name != key.get_ref() {
                self.deprecated_key(key, directive, table);
            }
            match directive.kind {
                Kind::Sections(_) => {}
                Kind::Section(inner) => {
                    if let Some(section) = self.section_fields(key, node, *inner) {
                        fields.values.extend(section.values);
                        fields.unread.extend(section.unread);
                    }
                }
                kind => {
                    self.subject = format!("`{}`", key.get_ref());
                    self.example = directive.example.map(|text| (directive.name, text));
                    let key = Key {
                        context,
                        name: directive.name,
                    };
                    match self.read(kind, node) {
                        Some(given) => fields.values.push((key, given)),
                        None => fields.unread.push(key),
                    }
                }
            }
        }
        self.context = around;
        self.missing_keys(table, context, header);
        fields
    }

    fn section_fields(
        &mut self,
        key: &KeyNode<'_>,
        node: &Node<'_>,
        context: Contexts,
    ) -> Option<Fields> {
        let at = self.at(node.span());
        match node.get_ref() {
            DeValue::Table(table) => return Some(self.fields(table, context, &at)),
            _ if is_hole(node) => {}
            DeValue::Array(array) if array.iter().all(|element| element.get_ref().is_table()) => {
                self.error(
                    &at,
                    format!("`{}` must be a single table, not a list", key.get_ref()),
                    Some(format!("write [{}]", key.get_ref())),
                );
            }
            other => {
                let message = format!("`{}` must be a table, not {}", key.get_ref(), found(other));
                let header = context.described().header;
                let subject = format!("`{}` {}", key.get_ref(), header);
                let help = value_help::of_section(&subject, other)
                    .unwrap_or_else(|| format!("its keys belong in {header}"));
                self.error(&at, message, Some(help));
            }
        }
        None
    }

    /// A spelling of an earlier version works for one release, with a warning.
    fn deprecated_key(&mut self, key: &KeyNode<'_>, directive: &Directive, table: &Table<'_>) {
        let (at, old, new) = (self.at(key.span()), key.get_ref(), directive.name);
        if table.contains_key(new) {
            self.error(
                &at,
                format!("`{old}` and `{new}` are the same setting"),
                Some(format!("remove `{old}`, the deprecated spelling")),
            );
        } else {
            self.warning(
                &at,
                format!("`{old}` is deprecated: use `{new}`"),
                Some("the old spelling works for one release".into()),
            );
        }
    }

    /// The tables of `[[key]]`, with their headers. A single `[key]` is reported and read all the
    /// same.
    pub fn sections<'n, 't>(
        &mut self,
        table: &'n Table<'t>,
        key: &str,
        context: Contexts,
    ) -> Vec<(&'n Table<'t>, Location)> {
        let Some(node) = table.get(key) else {
            return Vec::new();
        };
        let header = context.described().header;
        match node.get_ref() {
            DeValue::Table(single) => {
                let at = self.at(node.span());
                let message =
                    format!("`{key}` is a list of tables, so its header has double brackets");
                self.error(&at, message, Some(format!("write {header}")));
                vec![(single, at)]
            }
            DeValue::Array(array) => array
                .iter()
                .filter_map(|element| self.section(key, header, element))
                .collect(),
            _ if is_hole(node) => Vec::new(),
            other => {
                let message = format!("`{key}` must be a table, not {}", found(other));
                self.error(
                    &self.at(node.span()),
                    message,
                    Some(format!("write {header}, with its keys below")),
                );
                Vec::new()
            }
        }
    }

    fn section<'n, 't>(
        &mut self,
        key: &str,
        header: &str,
        element: &'n Node<'t>,
    ) -> Option<(&'n Table<'t>, Location)> {
        let at = self.at(element.span());
        if let DeValue::Table(table) = element.get_ref() {
            return Some((table, at));
        }
        if !is_hole(element) {
            let message = format!(
                "each `{key}` must be a table, not {}",
                found(element.get_ref())
            );
            self.error(
                &at,
                message,
                Some(format!("write {header}, with its keys below")),
            );
        }
        None
    }

    fn missing_keys(&mut self, table: &Table<'_>, context: Contexts, header: &Location) {
        for row in self.catalog.within(context) {
            if row.required && !self.is_mentioned(table, row.name, context) {
                let example = row.example.unwrap_or("...");
                let message = format!("missing `{}` {}", row.name, context.location());
                self.error(
                    header,
                    message,
                    Some(format!("add {} = {example}", row.name)),
                );
            }
        }
    }

    /// A value as the kind, or a complaint.
    pub fn read(&mut self, kind: &Kind, node: &Node<'_>) -> Option<Spanned> {
        if is_hole(node) {
            return None;
        }
        let at = self.at(node.span());
        if !kind.accepts(shape(node.get_ref())) {
            self.wrong_type(kind, node.get_ref(), &at);
            return None;
        }
        let value = match node.get_ref() {
            DeValue::Boolean(value) => Some(Value::Boolean(*value)),
            DeValue::Integer(value) => self.read_integer(kind, value, &at),
            DeValue::String(text) => self.read_text(kind, text, &at),
            DeValue::Array(array) => self.read_list(kind, array),
            DeValue::Table(table) => self.read_table(kind, table, &at),
            DeValue::Float(value) => self.read_fraction(kind, value.as_str(), &at),
            DeValue::Datetime(_) => None,
        }?;
        Some(Spanned { value, at })
    }

    fn wrong_type(&mut self, kind: &Kind, value: &DeValue<'_>, at: &Location) {
        let message = format!(
            "{} must be {}, not {}",
            self.subject,
            kind.expects(),
            found(value)
        );
        let written = self.report.source.slice(at.span.clone());
        let help = value_help::of_type(&self.subject, kind, value, written);
        let help = help.or_else(|| self.example_of(kind));
        self.error(at, message, help);
    }

    /// The example of the key, if it says more than what the value must be.
    fn example_of(&self, kind: &Kind) -> Option<String> {
        let (name, example) = self.example?;
        let is_plain = matches!(
            kind,
            Kind::Boolean | Kind::Choice(_) | Kind::Integer { .. } | Kind::Fraction
        );
        (!is_plain).then(|| format!("example: {name} = {example}"))
    }

    fn read_integer(&mut self, kind: &Kind, value: &DeInteger<'_>, at: &Location) -> Option<Value> {
        let number = i128::from_str_radix(value.as_str(), value.radix()).ok();
        let kind = narrow(kind, |kind| kind.accepts(Shape::Integer));
        if matches!(kind, Kind::Fraction) {
            return self.read_fraction(kind, value.as_str(), at);
        }
        let (min, max) = match kind {
            Kind::Integer { min, max } | Kind::Bytes { min, max } => (*min, *max),
            _ => return None,
        };
        match number
            .and_then(|number| u64::try_from(number).ok())
            .filter(|number| (min..=max).contains(number))
        {
            Some(number) => Some(Value::Number(number)),
            None => {
                let message = format!(
                    "{} must be {}, not {}",
                    self.subject,
                    kind.expects(),
                    self.report.source.slice(at.span.clone())
                );
                self.error(at, message, None);
                None
            }
        }
    }

    fn read_fraction(&mut self, kind: &Kind, text: &str, at: &Location) -> Option<Value> {
        let number = text.replace('_', "").parse::<f64>().ok();
        match number.filter(|number| (0.0..=1.0).contains(number)) {
            Some(number) => Some(Value::Number((number * 1e6).round() as u64)),
            None => {
                let message = format!(
                    "{} must be {}, not {}",
                    self.subject,
                    kind.expects(),
                    self.report.source.slice(at.span.clone())
                );
                self.error(at, message, Some("write 0.1 for a tenth".into()));
                None
            }
        }
    }

    fn read_text(&mut self, kind: &Kind, text: &str, at: &Location) -> Option<Value> {
        let read = match narrow_text(kind, text) {
            Kind::Choice(words) => choose(words, text),
            Kind::Text => plain_text(text).map(Value::Text),
            Kind::PathOrProgram if text.starts_with('|') => program(text),
            Kind::Path | Kind::PathOrProgram => {
                plain_text(text).map(|text| Value::Path(self.report.source.base.join(text)))
            }
            Kind::Word(Word { read, .. }) => read(text),
            Kind::Bytes { min, max } => measure(units::parse_size(text), *min, *max),
            Kind::Duration { min_ms, max_ms } => {
                measure(units::parse_duration_ms(text), *min_ms, *max_ms)
            }
            _ => Err(ValueError::plain(None)),
        };
        read.map_err(|fault| self.refuse(kind, text, at, fault))
            .ok()
    }

    fn refuse(&mut self, kind: &Kind, text: &str, at: &Location, fault: ValueError) {
        let message = match fault.message {
            Some(message) => format!(
                "invalid value {} for {}: {message}",
                quoted(text),
                self.subject
            ),
            None => format!(
                "{} must be {}, not {}",
                self.subject,
                kind.expects(),
                quoted(text)
            ),
        };
        let is_number = kind.accepts(Shape::Integer) && text.parse::<u64>().is_ok();
        let help = value_help::of_word(&self.subject, text)
            .or(fault.help)
            .or_else(|| is_number.then(|| format!("write {text}, without quotes")))
            .or_else(|| self.example_of(kind));
        self.error(at, message, help);
    }

    fn read_list(&mut self, kind: &Kind, array: &DeArray<'_>) -> Option<Value> {
        let Kind::ListOf(kind) = narrow(kind, |kind| kind.accepts(Shape::List)) else {
            return None;
        };
        let subject = self.subject.clone();
        let mut list = Vec::with_capacity(array.len());
        let mut complete = true;
        for element in array.iter() {
            self.subject = format!("an element of {subject}");
            match self.read(kind, element) {
                Some(given) => list.push(given),
                None => complete = false,
            }
        }
        self.subject = subject;
        complete.then_some(Value::List(list))
    }

    fn read_table(&mut self, kind: &Kind, table: &Table<'_>, at: &Location) -> Option<Value> {
        match narrow(kind, |kind| kind.accepts(Shape::Table)) {
            Kind::MapOf(key, value) => Some(self.read_map(key, value, table)),
            Kind::Table(kind) => {
                let fields = self.fields(table, kind.context, at);
                (kind.read)(&mut self.report, &fields)
            }
            _ => None,
        }
    }

    fn read_map(&mut self, key_kind: &KeyKind, kind: &Kind, table: &Table<'_>) -> Value {
        let (mut map, mut seen) = (Vec::with_capacity(table.len()), HashMap::new());
        for (key, node) in in_order(table) {
            let at = self.at(key.span());
            if let Some(header) = self.strayed_below(key) {
                let table = self.context.described().header;
                let message = format!(
                    "`{}` is a key of {table}, but appears below {header}, where keys are {}",
                    key.get_ref(),
                    key_kind.expects
                );
                let help = format!(
                    "move it above `{header}`; to keep it there, put it in quotes: \"{}\"",
                    key.get_ref()
                );
                self.error(&at, message, Some(help));
                continue;
            }
            match (key_kind.read)(key.get_ref()) {
                Ok(name) => {
                    self.subject = format!("`{}`", key.get_ref());
                    let known = match key_kind.is_case_sensitive {
                        true => name.clone(),
                        false => name.to_ascii_lowercase(),
                    };
                    if let Some(first) = seen.insert(known, at.clone()) {
                        self.error(
                            &at,
                            format!("duplicate key `{}`", key.get_ref()),
                            Some(format!("the first is at {}", first.origin())),
                        );
                    }
                    map.extend(self.read(kind, node).map(|given| (name, given)));
                }
                Err(fault) => {
                    self.subject = "this key".into();
                    let message = match fault.message {
                        Some(message) => {
                            format!("invalid key {}: {message}", quoted(key.get_ref()))
                        }
                        None => format!(
                            "keys must be {}, not {}",
                            key_kind.expects,
                            quoted(key.get_ref())
                        ),
                    };
                    self.error(&at, message, fault.help);
                }
            }
        }
        Value::Map(map)
    }

    /// The header below which a key stands that belongs to the table around, as TOML has it: a
    /// table goes on to the next header, whatever the author meant. Keys in quotes, dotted keys and
    /// inline tables are meant as they stand.
    fn strayed_below(&self, key: &KeyNode<'_>) -> Option<String> {
        self.catalog.find(key.get_ref(), self.context)?;
        let (before, line) = self
            .report
            .source
            .text
            .get(..key.span().end)?
            .rsplit_once('\n')?;
        let is_bare = line.trim_start() == key.get_ref().as_ref();
        let header = before
            .lines()
            .rev()
            .map(str::trim)
            .find(|line| line.starts_with('['))?;
        let header = header.split('#').next().unwrap_or_default().trim_end();
        (is_bare && !header.starts_with("[[")).then(|| header.to_owned())
    }

    /// The node of a key, by its name or a deprecated spelling.
    pub fn node<'n, 't>(
        &self,
        table: &'n Table<'t>,
        name: &str,
        context: Contexts,
    ) -> Option<&'n Node<'t>> {
        let directive = self.catalog.find(name, context)?;
        std::iter::once(&directive.name)
            .chain(directive.deprecated)
            .find_map(|name| table.get(*name))
    }

    /// Returns true if the key is given, or an unknown key that seems to stand for it.
    pub fn is_mentioned(&self, table: &Table<'_>, name: &str, context: Contexts) -> bool {
        self.node(table, name, context).is_some()
            || table
                .keys()
                .any(|key| unknown_key::stands_for(self.catalog, key.get_ref(), name, context))
    }

    fn unknown_key(&mut self, key: &KeyNode<'_>, context: Contexts) {
        let (message, help) = unknown_key::explain(self.catalog, key.get_ref(), context);
        self.error(&self.at(key.span()), message, help);
    }
}

/// The entries of a table as they are in the text.
pub(crate) fn in_order<'n, 't>(table: &'n Table<'t>) -> Vec<(&'n KeyNode<'t>, &'n Node<'t>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// The table under a key.
pub(crate) fn table_in<'n, 't>(table: &'n Table<'t>, key: &str) -> Option<&'n Table<'t>> {
    match table.get(key)?.get_ref() {
        DeValue::Table(inner) => Some(inner),
        _ => None,
    }
}

/// Returns true for the placeholder of a missing value, which the parser has reported.
fn is_hole(node: &Node<'_>) -> bool {
    node.span() == (0..0)
}

pub(crate) fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Integer(value) => format!("the number {value}"),
        DeValue::Float(value) => format!("the number {value}"),
        DeValue::String(text) => quoted(text),
        DeValue::Datetime(_) => "a date".into(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}

/// Selects the alternative that fits the shape of the value.
pub(crate) fn narrow(kind: &Kind, fits: impl Fn(&Kind) -> bool + Copy) -> &Kind {
    match kind {
        Kind::OneOf(kinds) => kinds
            .iter()
            .find(|kind| fits(kind))
            .map_or(kind, |kind| narrow(kind, fits)),
        kind => kind,
    }
}

/// Selects among alternatives: the fixed words if the text is one of them, else the last one that
/// takes a string.
pub(crate) fn narrow_text<'k>(kind: &'k Kind, text: &str) -> &'k Kind {
    let Kind::OneOf(kinds) = kind else {
        return kind;
    };
    let named = kinds
        .iter()
        .find(|kind| matches!(kind, Kind::Choice(words) if words.contains(&text)));
    named
        .or_else(|| kinds.iter().rfind(|kind| kind.accepts(Shape::String)))
        .unwrap_or(kind)
}

fn choose(words: &'static [&'static str], text: &str) -> Result<Value, ValueError> {
    match words.contains(&text) {
        true => Ok(Value::Text(text.to_owned())),
        false => Err(ValueError::plain(
            suggest::nearest(text, words.iter().copied())
                .or_else(|| suggest::part_of(text, words))
                .map(|word| format!("did you mean {}?", quoted(word))),
        )),
    }
}

fn program(text: &str) -> Result<Value, ValueError> {
    match text
        .strip_prefix('|')
        .is_some_and(|command| command.trim().is_empty())
    {
        true => Err(ValueError::new("missing command")),
        false => plain_text(text).map(Value::Text),
    }
}

fn plain_text(text: &str) -> Result<String, ValueError> {
    if text.is_empty() {
        return Err(ValueError::new("it must not be empty"));
    }
    match text.chars().any(char::is_control) {
        true => Err(ValueError::new("control characters are not allowed")),
        false => Ok(text.to_owned()),
    }
}

fn measure(parsed: Result<u64, Option<String>>, min: u64, max: u64) -> Result<Value, ValueError> {
    match parsed {
        Ok(number) if (min..=max).contains(&number) => Ok(Value::Number(number)),
        Ok(_) => Err(ValueError::plain(None)),
        Err(help) => Err(ValueError::plain(help)),
    }
}
