//! mod_headers: edits of request and response fields, read into a form that needs no more thought.
//!
//! Difficulty: an edit that a kept head can't have, because it looks at the request or the clock,
//! must be known before the head is made; so each says when it is read whether it asks for more
//! than the resource. Applying them is in `response/edits.rs`.

use crate::reading::{Reading, Set};
use saker_ap_expr::{
    Dependencies, Dependency, Expression, ExpressionOptions, Pattern, PatternOptions,
    StringExpression,
};
use saker_apache_syntax::Node;
use saker_config::model::Origin;
use saker_http::chars::is_token;
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub struct Headers {
    /// Edits of the request.
    pub request: Vec<Arc<Edit>>,
    /// Edits of responses that went well (`onsuccess`).
    pub success: Vec<Arc<Edit>>,
    /// Edits of all responses (`always`).
    pub always: Vec<Arc<Edit>>,
}

#[derive(Debug)]
pub struct Edit {
    pub action: Action,
    pub name: Box<str>,
    /// For who asks why a response has a field.
    pub origin: Origin,
    pub condition: When,
    /// It wants to know more than the resource, the response and the environment.
    pub asks_request: bool,
    /// It looks at what another request would come to (`-U`, `-F`).
    pub looks_ahead: bool,
    /// Variables that it wants to know; `None` among them: any.
    pub variables: Vec<Option<Box<[u8]>>>,
}

#[derive(Debug)]
pub enum Action {
    Set(Value),
    Append(Value),
    Merge(Value),
    Add(Value),
    SetIfEmpty(Value),
    Unset,
    /// The pattern is for names of request fields.
    Echo(Pattern),
    Edit {
        pattern: Pattern,
        replacement: Value,
        all: bool,
    },
    /// Sets a note, which nothing reads here.
    Note,
}

#[derive(Debug)]
pub enum When {
    Always,
    /// Before anything else is done with the request.
    Early,
    Set(Box<[u8]>),
    Unset(Box<[u8]>),
    Holds(Expression),
}

#[derive(Debug)]
pub enum Value {
    Format(Box<[Tag]>),
    Expression(StringExpression),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tag {
    Text(Box<[u8]>),
    /// `%{NAME}e`
    Environment(Box<[u8]>),
    /// `%{NAME}s`
    Tls(Box<[u8]>),
    /// `%t`
    ReceivedAt,
    /// `%D`
    Duration,
    /// `%l`
    Load,
    /// `%i`
    Idle,
    /// `%b`
    Busy,
}

/// Which table of fields an edit is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    Request,
    Success,
    Always,
}

/// Dependencies that a kept head may have.
const KEPT: &[Dependency] = &[
    Dependency::Path,
    Dependency::Host,
    Dependency::Scheme,
    Dependency::Environment,
    Dependency::Response,
];

impl Headers {
    pub const DIRECTIVES: &'static [(&'static str, Set<Headers>)] = &[
        ("Header", set_header),
        ("RequestHeader", set_request_header),
    ];

    /// Those of inner sections run after those from outside.
    pub fn merge(&self, over: &Headers) -> Headers {
        let joined = |outside: &[Arc<Edit>], over: &[Arc<Edit>]| {
            outside.iter().chain(over).cloned().collect()
        };
        Headers {
            request: joined(&self.request, &over.request),
            success: joined(&self.success, &over.success),
            always: joined(&self.always, &over.always),
        }
    }

    /// Returns whether edits one after the other may make more of a response's fields than any head
    /// should have, or values that can't be sent: each that puts what is there into what it makes
    /// may multiply it. An estimate that is never too small for values of the usual length.
    pub fn may_grow(&self) -> bool {
        const USUAL_BYTES: usize = 1024;
        let edits = self.success.iter().chain(&self.always);
        let is_odd = |edit: &Arc<Edit>| !edit.has_field_name() || edit.action.decodes();
        if edits.clone().any(is_odd) {
            return true;
        }
        edits.fold(USUAL_BYTES, |bytes, edit| edit.action.grown(bytes))
            > EDITED_FIELDS_BYTES_MAX / 4
    }

    /// Those of a response, each with the edit that makes it vain, if there is one.
    pub fn explained(&self) -> impl Iterator<Item = (&Edit, Option<&Edit>)> {
        [&self.success, &self.always].into_iter().flat_map(|edits| {
            let overrides = |edit: &Edit, later: &Edit| {
                edit.name.eq_ignore_ascii_case(&later.name)
                    && matches!(
                        (&later.action, &later.condition),
                        (Action::Set(_) | Action::Unset, When::Always)
                    )
            };
            edits.iter().enumerate().map(move |(at, edit)| {
                let later = edits
                    .iter()
                    .skip(at + 1)
                    .rfind(|later| overrides(edit, later));
                (&**edit, later.map(|later| &**later))
            })
        })
    }

    pub fn edits_response(&self) -> bool {
        !self.success.is_empty() || !self.always.is_empty()
    }

    /// Returns whether an edit of the response looks at what another request would come to.
    pub fn looks_ahead(&self) -> bool {
        let mut edits = self.success.iter().chain(&self.always);
        edits.any(|edit| edit.looks_ahead)
    }
}

impl Action {
    /// The value that it gives a field.
    pub fn value(&self) -> Option<&Value> {
        match self {
            Action::Set(value)
            | Action::Append(value)
            | Action::Merge(value)
            | Action::Add(value)
            | Action::SetIfEmpty(value) => Some(value),
            Action::Edit { replacement, .. } => Some(replacement),
            Action::Unset | Action::Echo(_) | Action::Note => None,
        }
    }

    /// Bytes of all fields after the action, where there were so many before.
    fn grown(&self, bytes: usize) -> usize {
        match self {
            Action::Set(value)
            | Action::Append(value)
            | Action::Merge(value)
            | Action::Add(value)
            | Action::SetIfEmpty(value) => value.estimate(bytes).saturating_add(bytes),
            Action::Edit {
                replacement, all, ..
            } => {
                let groups = replacement.groups().max(1);
                // A match may be empty, before each byte and behind the last.
                let times = if *all { bytes.saturating_add(1) } else { 1 };
                bytes
                    .saturating_mul(groups)
                    .saturating_add(replacement.estimate(0).saturating_mul(times))
            }
            Action::Unset | Action::Echo(_) | Action::Note => bytes,
        }
    }
}

impl Edit {
    pub fn is_early(&self) -> bool {
        matches!(self.condition, When::Early)
    }

    /// Returns false if it sets a field whose name is none. Responses to which that happens are
    /// answered with 500, as in Apache.
    pub fn has_field_name(&self) -> bool {
        !self.action.sets() || is_token(self.name.as_bytes())
    }
}

impl Action {
    /// True if its text has bytes that neither a request nor the configuration has as such.
    fn decodes(&self) -> bool {
        const DECODERS: [&[u8]; 3] = [b"unescape", b"unbase64", b"file"];
        let (Action::Set(value)
        | Action::Add(value)
        | Action::Append(value)
        | Action::Merge(value)
        | Action::SetIfEmpty(value)) = self
        else {
            return false;
        };
        match value {
            Value::Format(tags) => tags
                .iter()
                .any(|tag| matches!(tag, Tag::Text(text) if text.iter().any(u8::is_ascii_control))),
            Value::Expression(expression) => {
                let text = expression.text().to_ascii_lowercase();
                DECODERS
                    .iter()
                    .any(|name| text.windows(name.len()).any(|part| part == *name))
            }
        }
    }

    fn sets(&self) -> bool {
        matches!(
            self,
            Action::Set(_)
                | Action::Add(_)
                | Action::Append(_)
                | Action::Merge(_)
                | Action::SetIfEmpty(_)
        )
    }
}

fn set_header(node: &Node, headers: &mut Headers, reading: &mut Reading<'_>) -> Result<(), String> {
    let mut words = node.arguments();
    let table = match words.first().map(Vec::as_slice).unwrap_or_default() {
        word if word.eq_ignore_ascii_case(b"always") => Table::Always,
        _ => Table::Success,
    };
    if words.first().is_some_and(|word| {
        word.eq_ignore_ascii_case(b"always") || word.eq_ignore_ascii_case(b"onsuccess")
    }) {
        words.remove(0);
    }
    let edit = Arc::new(Edit {
        origin: node.origin.clone(),
        ..edit(words, table, reading.expression_options())?
    });
    if !edit.has_field_name() {
        let text = format!(
            "'{}' is no name of a field: responses with it are answered with 500",
            edit.name
        );
        reading.warn(node, &text);
    }
    warn_about(node, &edit, reading);
    match table {
        Table::Always => headers.always.push(edit),
        _ => headers.success.push(edit),
    }
    Ok(())
}

fn set_request_header(
    node: &Node,
    headers: &mut Headers,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let edit = edit(
        node.arguments(),
        Table::Request,
        reading.expression_options(),
    )?;
    if !edit.has_field_name() {
        let text = format!("'{}' is no name of a field: it is not set", edit.name);
        reading.warn(node, &text);
        return Ok(());
    }
    headers.request.push(Arc::new(Edit {
        origin: node.origin.clone(),
        ..edit
    }));
    Ok(())
}

/// Warns about words that have no counterpart here.
fn warn_about(node: &Node, edit: &Edit, reading: &mut Reading<'_>) {
    let tags = match &edit.action {
        Action::Set(Value::Format(tags))
        | Action::Append(Value::Format(tags))
        | Action::Add(Value::Format(tags)) => tags,
        Action::Note => {
            return reading.warn(node, "Header note has no effect: nothing here reads notes");
        }
        _ => return,
    };
    if tags.iter().any(|tag| matches!(tag, Tag::Idle | Tag::Busy)) {
        reading.warn(
            node,
            "%i and %b always say that the server is idle: Saker has no workers that wait",
        );
    }
}

fn edit(words: Vec<Vec<u8>>, table: Table, options: ExpressionOptions) -> Result<Edit, String> {
    let mut words = words.into_iter();
    let (action, name) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let (value, third, fourth) = (words.next(), words.next(), words.next());
    let name = String::from_utf8_lossy(&name).into_owned();
    let action = String::from_utf8_lossy(&action).to_ascii_lowercase();
    if words.next().is_some() {
        return Err(format!("{} has too many arguments", directive(table)));
    }
    let is_edit = matches!(action.as_str(), "edit" | "edit*");
    let clause = match (is_edit, third, fourth) {
        (true, None, _) => return Err("Header edit requires a match and a substitution".into()),
        (true, Some(replacement), clause) => {
            let (is_all, pattern) = (action == "edit*", value.unwrap_or_default());
            let (replacement, condition) = (
                Value::parse(&replacement, options)?,
                When::of(clause, options)?,
            );
            return edit_action(&name, &pattern, replacement, is_all, condition);
        }
        (false, _, Some(_)) => return Err("Too many arguments to directive".into()),
        (false, clause, None) => clause,
    };
    if matches!(action.as_str(), "unset" | "echo") {
        let clause = match (value, clause) {
            (Some(_), Some(_)) if action == "unset" => {
                return Err("header unset takes two arguments".into());
            }
            (Some(_), Some(_)) => return Err("Header echo takes two arguments".into()),
            (value, clause) => value.or(clause),
        };
        return bare_action(&name, &action, When::of(clause, options)?, table);
    }
    let make: fn(Value) -> Action = match action.as_str() {
        "set" => Action::Set,
        "add" => Action::Add,
        "append" => Action::Append,
        "merge" => Action::Merge,
        "setifempty" => Action::SetIfEmpty,
        "note" if table == Table::Request => {
            return Err("RequestHeader does not support the 'note' action".into());
        }
        "note" => |_| Action::Note,
        _ => {
            return Err(
                "first argument must be 'add', 'set', 'setifempty', 'append', 'merge', 'unset', 'echo', 'note', 'edit', or 'edit*'.".into(),
            );
        }
    };
    let value = Value::parse(&value.ok_or("Header requires three arguments")?, options)?;
    Ok(made(
        &name,
        When::of(clause, options)?,
        value.asks_request(),
        make(value),
    ))
}

fn directive(table: Table) -> &'static str {
    if table == Table::Request {
        "RequestHeader"
    } else {
        "Header"
    }
}

fn edit_action(
    name: &str,
    pattern: &[u8],
    replacement: Value,
    all: bool,
    condition: When,
) -> Result<Edit, String> {
    let pattern = Pattern::compile(pattern, PatternOptions::default())
        .map_err(|_| "Header edit regex could not be compiled")?;
    let asks = replacement.asks_request();
    Ok(made(
        name,
        condition,
        asks,
        Action::Edit {
            pattern,
            replacement,
            all,
        },
    ))
}

fn bare_action(name: &str, action: &str, condition: When, table: Table) -> Result<Edit, String> {
    if action == "unset" {
        return Ok(made(name, condition, false, Action::Unset));
    }
    if table == Table::Request {
        return Err("Header echo only valid on Header directives".into());
    }
    let pattern = Pattern::compile(name, PatternOptions::default())
        .map_err(|_| "Header echo regex could not be compiled")?;
    Ok(made(name, condition, true, Action::Echo(pattern)))
}

fn made(name: &str, condition: When, asks_request: bool, action: Action) -> Edit {
    let asks_request = asks_request
        || matches!(&condition, When::Holds(expression) if !may_be_kept(&expression.may_depend()));
    let name = name.split(':').next().unwrap_or_default().into();
    let variables = variables(&action, &condition);
    let looks_ahead = condition.looks_ahead() || action.value().is_some_and(Value::looks_ahead);
    Edit {
        action,
        name,
        origin: Origin::built_in(),
        condition,
        asks_request,
        looks_ahead,
        variables,
    }
}

fn variables(action: &Action, condition: &When) -> Vec<Option<Box<[u8]>>> {
    let of_condition = match condition {
        When::Set(name) | When::Unset(name) => vec![Some(name.clone())],
        When::Holds(expression) if expression.may_depend().has(Dependency::Environment) => {
            vec![None]
        }
        When::Holds(_) | When::Always | When::Early => Vec::new(),
    };
    let of_action = action.value().map_or_else(Vec::new, Value::variables);
    [of_condition, of_action].concat()
}

fn may_be_kept(dependencies: &Dependencies) -> bool {
    dependencies.is_within(KEPT)
}

impl When {
    fn looks_ahead(&self) -> bool {
        matches!(self, When::Holds(expression) if expression.may_depend().has(Dependency::Subrequest))
    }

    fn of(clause: Option<Vec<u8>>, options: ExpressionOptions) -> Result<When, String> {
        clause.map_or(Ok(When::Always), |clause| When::parse(&clause, options))
    }

    fn parse(clause: &[u8], options: ExpressionOptions) -> Result<When, String> {
        if clause.eq_ignore_ascii_case(b"early") {
            return Ok(When::Early);
        }
        if let Some(name) = strip_prefix_any_case(clause, b"env=") {
            return match name.strip_prefix(b"!") {
                Some(b"") => Err(NO_NAME.into()),
                None if name.is_empty() => Err(NO_NAME.into()),
                Some(name) => Ok(When::Unset(name.into())),
                None => Ok(When::Set(name.into())),
            };
        }
        if let Some(text) = strip_prefix_any_case(clause, b"expr=") {
            let compiled = Expression::compile(text, options);
            return compiled
                .map(When::Holds)
                .map_err(|error| format!("Can't parse envclause/expression: {error}"));
        }
        Err(format!(
            "Unknown parameter: {}",
            String::from_utf8_lossy(clause)
        ))
    }
}

const NO_NAME: &str =
    "error: missing environment variable name. envclause should be in the form env=envar ";

fn strip_prefix_any_case<'t>(text: &'t [u8], prefix: &[u8]) -> Option<&'t [u8]> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

impl Value {
    pub fn parse(text: &[u8], options: ExpressionOptions) -> Result<Value, String> {
        if let Some(text) = strip_prefix_any_case(text, b"expr=") {
            let compiled = StringExpression::compile(text, options);
            return compiled
                .map(Value::Expression)
                .map_err(|error| format!("Can't parse value expression : {error}"));
        }
        tags(text).map(|tags| Value::Format(tags.into()))
    }

    fn variables(&self) -> Vec<Option<Box<[u8]>>> {
        match self {
            Value::Format(tags) => {
                let name = |tag: &Tag| {
                    if let Tag::Environment(name) = tag {
                        Some(Some(name.clone()))
                    } else {
                        None
                    }
                };
                tags.iter().filter_map(name).collect()
            }
            Value::Expression(expression)
                if expression.may_depend().has(Dependency::Environment) =>
            {
                vec![None]
            }
            Value::Expression(_) => Vec::new(),
        }
    }

    /// Bytes that it comes to, where there are so many in the fields that it may ask for.
    fn estimate(&self, fields: usize) -> usize {
        const VARIABLE_BYTES: usize = 256;
        match self {
            Value::Format(tags) => {
                let bytes = |tag: &Tag| {
                    if let Tag::Text(text) = tag {
                        text.len()
                    } else {
                        VARIABLE_BYTES
                    }
                };
                tags.iter().map(bytes).sum()
            }
            Value::Expression(expression) if expression.constant().is_some() => {
                expression.text().len()
            }
            // Each mention is at least four bytes long.
            Value::Expression(expression) if expression.may_depend().has(Dependency::Response) => {
                fields
                    .saturating_add(VARIABLE_BYTES)
                    .saturating_mul(1 + expression.text().len() / 4)
            }
            Value::Expression(expression) => {
                expression.text().len().saturating_mul(VARIABLE_BYTES / 16)
            }
        }
    }

    /// Mentions of groups of a pattern.
    fn groups(&self) -> usize {
        let in_text = |text: &[u8]| {
            text.windows(2)
                .filter(|two| two[0] == b'$' && two[1].is_ascii_digit())
                .count()
        };
        match self {
            Value::Format(tags) => tags
                .iter()
                .map(|tag| {
                    if let Tag::Text(text) = tag {
                        in_text(text)
                    } else {
                        4
                    }
                })
                .sum(),
            Value::Expression(expression) => 1 + expression.text().len() / 2,
        }
    }

    fn looks_ahead(&self) -> bool {
        matches!(self, Value::Expression(expression) if expression.may_depend().has(Dependency::Subrequest))
    }

    fn asks_request(&self) -> bool {
        match self {
            Value::Format(tags) => !tags
                .iter()
                .all(|tag| matches!(tag, Tag::Text(_) | Tag::Environment(_))),
            Value::Expression(expression) => !may_be_kept(&expression.may_depend()),
        }
    }
}

/// Runs of text and `%` items.
fn tags(text: &[u8]) -> Result<Vec<Tag>, String> {
    let mut tags = Vec::new();
    let mut literal = Vec::new();
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        match first {
            b'\\' => rest = unescaped(behind, &mut literal),
            b'%' if behind.first() == Some(&b'%') => {
                literal.push(b'%');
                rest = behind.get(1..).unwrap_or_default();
            }
            // httpd takes a last one for itself.
            b'%' if behind.is_empty() => literal.push(b'%'),
            b'%' => {
                if !literal.is_empty() {
                    tags.push(Tag::Text(std::mem::take(&mut literal).into()));
                }
                let (tag, behind) = item(behind)?;
                tags.push(tag);
                rest = behind;
            }
            byte => literal.push(*byte),
        }
    }
    if !literal.is_empty() {
        tags.push(Tag::Text(literal.into()));
    }
    Ok(tags)
}

/// Behind a backslash: letters for what has none of its own; anything else keeps its backslash.
fn unescaped<'t>(rest: &'t [u8], literal: &mut Vec<u8>) -> &'t [u8] {
    let byte = match rest.first() {
        Some(b'r') => b'\r',
        Some(b'n') => b'\n',
        Some(b't') => b'\t',
        _ => {
            literal.push(b'\\');
            return rest;
        }
    };
    literal.push(byte);
    rest.get(1..).unwrap_or_default()
}

/// Behind a percent sign.
fn item(rest: &[u8]) -> Result<(Tag, &[u8]), String> {
    let (name, rest): (&[u8], &[u8]) = match rest.strip_prefix(b"{") {
        Some(inner) => match inner.iter().position(|byte| *byte == b'}') {
            Some(at) => (
                inner.get(..at).unwrap_or_default(),
                inner.get(at + 1..).unwrap_or_default(),
            ),
            None => (inner, b""),
        },
        None => (b"", rest),
    };
    let Some((letter, rest)) = rest.split_first() else {
        return Err("Unrecognized header format %".into());
    };
    let tag = match letter {
        b'e' => Tag::Environment(name.into()),
        b's' => Tag::Tls(name.into()),
        b't' => Tag::ReceivedAt,
        b'D' => Tag::Duration,
        b'l' => Tag::Load,
        b'i' => Tag::Idle,
        b'b' => Tag::Busy,
        other => {
            return Err(format!(
                "Unrecognized header format %{}",
                char::from(*other)
            ));
        }
    };
    Ok((tag, rest))
}

/// A table of fields that edits have made: names and values together. An answer or a request with
/// more is given up.
pub const EDITED_FIELDS_BYTES_MAX: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Edit, String> {
        edit(
            words.iter().map(|word| word.as_bytes().to_vec()).collect(),
            Table::Success,
            ExpressionOptions::default(),
        )
    }

    /// As `apache2 -t` words them.
    #[test]
    fn complaints_are_those_of_apache() {
        let cases: [(&[&str], &str); 13] = [
            (&["set", "X", "%x"], "Unrecognized header format %x"),
            (&["set", "X", "%{foo}"], "Unrecognized header format %"),
            (&["set", "X"], "Header requires three arguments"),
            (&["unset", "X", "y"], "Unknown parameter: y"),
            (
                &["unset", "X", "early", "z"],
                "header unset takes two arguments",
            ),
            (
                &["edit", "X", "y"],
                "Header edit requires a match and a substitution",
            ),
            (
                &["edit", "X", "(", "b"],
                "Header edit regex could not be compiled",
            ),
            (&["echo", "("], "Header echo regex could not be compiled"),
            (&["set", "X", "y", "env="], NO_NAME),
            (&["set", "X", "y", "env=!"], NO_NAME),
            (&["set", "X", "y", "blah"], "Unknown parameter: blah"),
            (
                &["set", "X", "y", "a", "b", "c"],
                "Header has too many arguments",
            ),
            (
                &["foo", "X", "y"],
                "first argument must be 'add', 'set', 'setifempty', 'append', 'merge', 'unset', 'echo', 'note', 'edit', or 'edit*'.",
            ),
        ];
        for (words, expected) in cases {
            assert_eq!(
                read(words).map(|_| ()),
                Err(expected.to_owned()),
                "{words:?}"
            );
        }
    }

    #[test]
    fn formats() {
        let text = |text: &str| Tag::Text(text.as_bytes().into());
        let cases = [
            ("a%%b\\tc", vec![text("a%b\tc")]),
            ("x\\d", vec![text("x\\d")]),
            (
                "%{A}e-%t",
                vec![
                    Tag::Environment(b"A"[..].into()),
                    text("-"),
                    Tag::ReceivedAt,
                ],
            ),
            ("", vec![]),
        ];
        for (format, expected) in cases {
            assert_eq!(tags(format.as_bytes()), Ok(expected), "{format}");
        }
    }

    #[test]
    fn what_asks_for_more_than_the_resource() {
        let cases: [(&[&str], bool); 9] = [
            (&["set", "X", "y"], false),
            (&["set", "X", "%{A}e", "env=B"], false),
            (&["set", "X", "y", "expr=%{CONTENT_TYPE} =~ m#html#"], false),
            (&["set", "X", "y", "expr=%{REQUEST_URI} == '/'"], false),
            (&["set", "X", "y", "expr=%{HTTP_COOKIE} == ''"], true),
            (&["set", "X", "expr=%{REMOTE_ADDR}"], true),
            (&["set", "X", "%D %t"], true),
            (&["echo", "^TS"], true),
            (&["set", "X:", "%{SSL_PROTOCOL}s"], true),
        ];
        for (words, expected) in cases {
            assert_eq!(
                read(words).map(|edit| edit.asks_request),
                Ok(expected),
                "{words:?}"
            );
        }
    }
}
