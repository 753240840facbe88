//! Tables and values of a file, checked against the rows.
//!
//! [`Reader::fill`] walks a table in the order of the text, finds each key's row, reads the value
//! as the row's kind and hands it to the row's setter. Nothing is skipped silently and nothing
//! stops at the first mistake. The difficulty is to complain once per mistake: where the parser has
//! already reported a line, what it recovered there is not judged again.

use crate::{
    diagnostic::{Diagnostic, Severity, quoted},
    directives::row_for,
    row::{Contexts, FILE, Fault, KeyKind, Kind, Row, Shape, Target, Word},
    source::{At, Source},
    suggest, units,
    value::{Given, Value},
};
use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
};
use toml::{
    Spanned,
    de::{DeArray, DeInteger, DeString, DeTable, DeValue},
};

pub(crate) type Table<'t> = DeTable<'t>;
pub(crate) type Node<'t> = Spanned<DeValue<'t>>;

pub(crate) struct Reader<'r> {
    pub source: Arc<Source>,
    pub diagnostics: &'r mut Vec<Diagnostic>,
    /// Lines with syntax errors.
    pub broken_lines: HashSet<usize>,
    /// What messages call the value being read.
    subject: String,
    /// The table that it stands in.
    context: Contexts,
}

impl<'r> Reader<'r> {
    pub fn new(source: Arc<Source>, diagnostics: &'r mut Vec<Diagnostic>) -> Self {
        Reader {
            source,
            diagnostics,
            broken_lines: HashSet::new(),
            subject: String::new(),
            context: FILE,
        }
    }

    pub fn at(&self, span: Range<usize>) -> At {
        At {
            source: self.source.clone(),
            span,
        }
    }

    pub fn error(&mut self, at: &At, message: impl Into<String>, help: Option<String>) {
        self.report(Severity::Error, at, message.into(), help);
    }

    pub fn warning(&mut self, at: &At, message: impl Into<String>, help: Option<String>) {
        self.report(Severity::Warning, at, message.into(), help);
    }

    fn report(&mut self, severity: Severity, at: &At, message: String, help: Option<String>) {
        if !self
            .broken_lines
            .contains(&self.source.line_of(at.span.start))
        {
            self.diagnostics
                .push(Diagnostic::new(severity, at, message, help));
        }
    }

    /// Reads a table into `target`. `header` is where a missing key is reported. `[[tables]]` are
    /// left to the caller.
    pub fn fill<T: Target>(
        &mut self,
        table: &Table<'_>,
        context: Contexts,
        header: &At,
        target: &mut T,
    ) {
        let around = std::mem::replace(&mut self.context, context);
        for (key, node) in in_order(table) {
            match row_for(key.get_ref(), context) {
                Some(Row {
                    kind: Kind::Sections(_),
                    ..
                }) => {}
                Some(Row {
                    kind: Kind::Section(inner),
                    ..
                }) => self.fill_section(key, node, *inner, target),
                Some(row) => {
                    self.subject = format!("`{}`", row.name);
                    if let Some(given) = self.read(&row.kind, node) {
                        target.take(&row.set, given);
                    }
                }
                None => self.unknown_key(key, context),
            }
        }
        self.context = around;
        self.missing_keys(table, context, header);
    }

    fn fill_section<T: Target>(
        &mut self,
        key: &Spanned<DeString<'_>>,
        node: &Node<'_>,
        context: Contexts,
        target: &mut T,
    ) {
        let at = self.at(node.span());
        match node.get_ref() {
            DeValue::Table(table) => self.fill(table, context, &at, target),
            _ if is_hole(node) => {}
            DeValue::Array(array) if array.iter().all(|element| element.get_ref().is_table()) => {
                self.error(
                    &at,
                    format!("`{}` is one table, not many", key.get_ref()),
                    Some(format!("write [{}]", key.get_ref())),
                );
            }
            other => {
                let message = format!("`{}` must be a table, not {}", key.get_ref(), found(other));
                self.error(
                    &at,
                    message,
                    Some(format!("its keys go under {}", context.described().header)),
                );
            }
        }
    }

    /// The tables of `[[key]]`, with their headers. A single `[key]` is reported and read all the
    /// same.
    pub fn sections<'n, 't>(
        &mut self,
        table: &'n Table<'t>,
        key: &str,
        context: Contexts,
    ) -> Vec<(&'n Table<'t>, At)> {
        let Some(node) = table.get(key) else {
            return Vec::new();
        };
        let header = context.described().header;
        match node.get_ref() {
            DeValue::Table(single) => {
                let at = self.at(node.span());
                let message =
                    format!("`{key}` may be given many times, so its header has double brackets");
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
                    Some(format!("write {header}, and its keys below")),
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
    ) -> Option<(&'n Table<'t>, At)> {
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
                Some(format!("write {header}, and its keys below")),
            );
        }
        None
    }

    fn missing_keys(&mut self, table: &Table<'_>, context: Contexts, header: &At) {
        for row in crate::directives::rows_in(context) {
            if row.required && !is_meant(table, row.name, context) {
                let example = row.example.unwrap_or("...");
                let message = format!("`{}` is missing {}", row.name, context.place());
                self.error(
                    header,
                    message,
                    Some(format!("add {} = {example}", row.name)),
                );
            }
        }
    }

    /// A value as the kind, or a complaint.
    pub fn read(&mut self, kind: &Kind, node: &Node<'_>) -> Option<Given> {
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
            DeValue::Float(_) | DeValue::Datetime(_) => None,
        }?;
        Some(Given { value, at })
    }

    fn wrong_type(&mut self, kind: &Kind, value: &DeValue<'_>, at: &At) {
        let message = format!(
            "{} must be {}, not {}",
            self.subject,
            kind.expects(),
            found(value)
        );
        let help = type_help(kind, value, self.source.slice(at.span.clone()));
        self.error(at, message, help);
    }

    fn read_integer(&mut self, kind: &Kind, value: &DeInteger<'_>, at: &At) -> Option<Value> {
        let number = i128::from_str_radix(value.as_str(), value.radix()).ok();
        let kind = narrow(kind, |kind| kind.accepts(Shape::Integer));
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
                    self.source.slice(at.span.clone())
                );
                self.error(at, message, None);
                None
            }
        }
    }

    fn read_text(&mut self, kind: &Kind, text: &str, at: &At) -> Option<Value> {
        let read = match narrow_text(kind, text) {
            Kind::Choice(words) => choose(words, text),
            Kind::Text => plain_text(text).map(Value::Text),
            Kind::PathOrProgram if text.starts_with('|') => program(text),
            Kind::Path | Kind::PathOrProgram => {
                plain_text(text).map(|text| Value::Path(self.source.base.join(text)))
            }
            Kind::Word(Word { read, .. }) => read(text),
            Kind::Bytes { min, max } => measure(units::parse_size(text), *min, *max),
            Kind::Duration { min_ms, max_ms } => {
                measure(units::parse_duration_ms(text), *min_ms, *max_ms)
            }
            _ => Err(Fault::plain(None)),
        };
        read.map_err(|fault| self.refuse(kind, text, at, fault))
            .ok()
    }

    fn refuse(&mut self, kind: &Kind, text: &str, at: &At, fault: Fault) {
        let message = match fault.message {
            Some(message) => format!("{} can't be {}: {message}", self.subject, quoted(text)),
            None => format!(
                "{} must be {}, not {}",
                self.subject,
                kind.expects(),
                quoted(text)
            ),
        };
        self.error(at, message, fault.help);
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

    fn read_table(&mut self, kind: &Kind, table: &Table<'_>, at: &At) -> Option<Value> {
        match narrow(kind, |kind| kind.accepts(Shape::Table)) {
            Kind::MapOf(key, value) => Some(self.read_map(key, value, table)),
            Kind::Table(kind) => (kind.read)(self, table, at.clone()),
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
                    "`{}` is a key of {table}, and stands below {header}, where keys are {}",
                    key.get_ref(),
                    key_kind.expects
                );
                let help = format!(
                    "move it above `{header}`; in quotes, \"{}\", it is meant as it stands",
                    key.get_ref()
                );
                self.error(&at, message, Some(help));
                continue;
            }
            match (key_kind.read)(key.get_ref()) {
                Ok(name) => {
                    self.subject = format!("`{}`", key.get_ref());
                    if let Some(first) = seen.insert(name.to_ascii_lowercase(), at.clone()) {
                        self.error(
                            &at,
                            format!("`{}` is given twice", key.get_ref()),
                            Some(format!("the first is at {}", first.origin())),
                        );
                    }
                    map.extend(self.read(kind, node).map(|given| (name, given)));
                }
                Err(fault) => {
                    self.subject = "this key".into();
                    let message = match fault.message {
                        Some(message) => {
                            format!("the key {} is no good: {message}", quoted(key.get_ref()))
                        }
                        None => format!(
                            "keys here must be {}, not {}",
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
    fn strayed_below(&self, key: &Spanned<DeString<'_>>) -> Option<String> {
        row_for(key.get_ref(), self.context)?;
        let (before, line) = self.source.text.get(..key.span().end)?.rsplit_once('\n')?;
        let is_bare = line.trim_start() == key.get_ref().as_ref();
        let header = before
            .lines()
            .rev()
            .map(str::trim)
            .find(|line| line.starts_with('['))?;
        let header = header.split('#').next().unwrap_or_default().trim_end();
        (is_bare && !header.starts_with("[[")).then(|| header.to_owned())
    }

    fn unknown_key(&mut self, key: &Spanned<DeString<'_>>, context: Contexts) {
        let (message, help) = crate::unknown_key::explain(key.get_ref(), context);
        self.error(&self.at(key.span()), message, help);
    }
}

/// The entries of a table as they are in the text.
pub(crate) fn in_order<'n, 't>(
    table: &'n Table<'t>,
) -> Vec<(&'n Spanned<DeString<'t>>, &'n Node<'t>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// Whether a key is given, or an unknown key that seems to stand for it.
pub(crate) fn is_meant(table: &Table<'_>, name: &str, context: Contexts) -> bool {
    table.contains_key(name)
        || table
            .keys()
            .any(|key| crate::unknown_key::stands_for(key.get_ref(), name, context))
}

/// The table under a key.
pub(crate) fn table_in<'n, 't>(table: &'n Table<'t>, key: &str) -> Option<&'n Table<'t>> {
    match table.get(key)?.get_ref() {
        DeValue::Table(inner) => Some(inner),
        _ => None,
    }
}

/// What the parser puts where a value is missing; it has reported that.
fn is_hole(node: &Node<'_>) -> bool {
    node.span() == (0..0)
}

fn shape(value: &DeValue<'_>) -> Shape {
    match value {
        DeValue::Boolean(_) => Shape::Boolean,
        DeValue::Integer(_) => Shape::Integer,
        DeValue::String(_) => Shape::String,
        DeValue::Array(_) => Shape::List,
        DeValue::Table(_) => Shape::Table,
        DeValue::Float(_) | DeValue::Datetime(_) => Shape::Other,
    }
}

fn found(value: &DeValue<'_>) -> String {
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

fn type_help(kind: &Kind, value: &DeValue<'_>, written: &str) -> Option<String> {
    match (kind, value) {
        (Kind::Boolean, DeValue::String(text)) => match text.to_ascii_lowercase().as_str() {
            "on" | "yes" | "true" => Some("write true, without quotes".into()),
            "off" | "no" | "false" | "none" => Some("write false, without quotes".into()),
            _ => None,
        },
        (Kind::Integer { .. }, DeValue::String(text)) if text.parse::<u64>().is_ok() => {
            Some(format!("write {text}, without quotes"))
        }
        (Kind::Duration { .. }, DeValue::Integer(number)) => Some(format!(
            "a duration has a unit: write \"{number}s\" for seconds"
        )),
        (Kind::ListOf(element), scalar)
            if element.accepts(shape(scalar)) && !written.contains('\n') =>
        {
            Some(format!("write [{written}]"))
        }
        _ => None,
    }
}

/// Of alternatives, the one for the shape at hand.
fn narrow(kind: &Kind, fits: impl Fn(&Kind) -> bool + Copy) -> &Kind {
    match kind {
        Kind::OneOf(kinds) => kinds
            .iter()
            .find(|kind| fits(kind))
            .map_or(kind, |kind| narrow(kind, fits)),
        kind => kind,
    }
}

/// Of alternatives, the fixed words if the text is one, else the last that takes a string.
fn narrow_text<'k>(kind: &'k Kind, text: &str) -> &'k Kind {
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

fn choose(words: &'static [&'static str], text: &str) -> Result<Value, Fault> {
    match words.contains(&text) {
        true => Ok(Value::Text(text.to_owned())),
        false => Err(Fault::plain(
            suggest::nearest(text, words.iter().copied())
                .map(|word| format!("did you mean {}?", quoted(word))),
        )),
    }
}

fn program(text: &str) -> Result<Value, Fault> {
    match text
        .strip_prefix('|')
        .is_some_and(|command| command.trim().is_empty())
    {
        true => Err(Fault::new("the command is missing")),
        false => plain_text(text).map(Value::Text),
    }
}

fn plain_text(text: &str) -> Result<String, Fault> {
    if text.is_empty() {
        return Err(Fault::new("it is empty"));
    }
    match text.chars().any(char::is_control) {
        true => Err(Fault::new("it has control characters")),
        false => Ok(text.to_owned()),
    }
}

fn measure(parsed: Result<u64, Option<String>>, min: u64, max: u64) -> Result<Value, Fault> {
    match parsed {
        Ok(number) if (min..=max).contains(&number) => Ok(Value::Number(number)),
        Ok(_) => Err(Fault::plain(None)),
        Err(help) => Err(Fault::plain(help)),
    }
}
