//! Statements as text.
//!
//! Called by: `format`.
//! Caveat: the layout of a laid out text is the same text; a test formats every file of the
//! repository twice.

use super::statement::{Kind, Part, PartKind, Statement, Value};

/// Columns of a line; longer lists are broken.
const COLUMNS: usize = 100;
const INDENT: &str = "    ";

/// Returns the text of the statements.
pub fn lay_out(statements: &[Statement]) -> String {
    let mut text = String::new();
    for (at, statement) in statements.iter().enumerate() {
        if at > 0 && (statement.after_blank || begins_section(statements, at)) {
            text.push('\n');
        }
        let start = text.len();
        match &statement.kind {
            Kind::Comment(comment) => text.push_str(comment),
            Kind::Header(header) => text.push_str(header),
            Kind::Pair(key, value) => {
                text.push_str(key);
                text.push_str(" = ");
                let used = key.chars().count() + 3;
                self::value(&mut text, value, 0, used);
            }
        }
        if let Some((comment, column)) = &statement.comment {
            let line = text.get(start..).unwrap_or_default();
            let used = line.rsplit('\n').next().unwrap_or_default().chars().count();
            let spaces = column.saturating_sub(used).max(1);
            text.extend(std::iter::repeat_n(' ', spaces));
            text.push_str(comment);
        }
        text.push('\n');
    }
    text
}

/// Returns true for a header, or for the first of the comments right above one.
fn begins_section(statements: &[Statement], at: usize) -> bool {
    let is_comment = |at: usize| {
        statements
            .get(at)
            .is_some_and(|one| matches!(one.kind, Kind::Comment(_)))
    };
    let mut header = at;
    while is_comment(header)
        && statements
            .get(header + 1)
            .is_some_and(|next| !next.after_blank)
    {
        header += 1;
    }
    let is_header = statements
        .get(header)
        .is_some_and(|one| matches!(one.kind, Kind::Header(_)));
    // Comments below a key, without an empty line, may belong to either; they stay where they are.
    is_header && (header == at || !at.checked_sub(1).is_some_and(is_comment)) && {
        let continues = at.checked_sub(1).is_some_and(is_comment)
            && statements.get(at).is_some_and(|one| !one.after_blank);
        !continues
    }
}

fn value(text: &mut String, value: &Value, depth: usize, used: usize) {
    match value {
        Value::Scalar(scalar) => text.push_str(scalar),
        Value::List {
            is_table,
            parts,
            is_broken,
        } => {
            if let Some(line) = one_line(value) {
                let fits = used + line.chars().count() <= COLUMNS;
                // Broken inline tables are new in TOML 1.1: those on one line stay so.
                if parts.is_empty() || !is_broken && (fits || *is_table) {
                    text.push_str(&line);
                    return;
                }
            }
            let (open, close) = if *is_table { ('{', '}') } else { ('[', ']') };
            text.push(open);
            text.push('\n');
            for part in parts {
                self::part(text, part, depth + 1);
            }
            text.push_str(&INDENT.repeat(depth));
            text.push(close);
        }
    }
}

fn part(text: &mut String, part: &Part, depth: usize) {
    if part.after_blank {
        text.push('\n');
    }
    let indent = INDENT.repeat(depth);
    text.push_str(&indent);
    match &part.kind {
        PartKind::Comment(comment) => text.push_str(comment),
        PartKind::Element(element) => {
            value(text, element, depth, indent.len() + 1);
            text.push(',');
        }
        PartKind::Pair(key, pair) => {
            text.push_str(key);
            text.push_str(" = ");
            let used = indent.len() + key.chars().count() + 4;
            value(text, pair, depth, used);
            text.push(',');
        }
    }
    if let Some(comment) = &part.comment {
        text.push(' ');
        text.push_str(comment);
    }
    text.push('\n');
}

/// A value without line breaks, unless it has comments or broken lists.
fn one_line(value: &Value) -> Option<String> {
    let Value::List {
        is_table, parts, ..
    } = value
    else {
        let Value::Scalar(scalar) = value else {
            return None;
        };
        return Some(scalar.clone());
    };
    let mut each = Vec::with_capacity(parts.len());
    for part in parts {
        if part.comment.is_some() {
            return None;
        }
        each.push(match &part.kind {
            PartKind::Comment(_) => return None,
            PartKind::Element(element) => inner(element)?,
            PartKind::Pair(key, value) => format!("{key} = {}", inner(value)?),
        });
    }
    Some(match (is_table, each.is_empty()) {
        (true, true) => "{}".to_owned(),
        (true, false) => format!("{{ {} }}", each.join(", ")),
        (false, _) => format!("[{}]", each.join(", ")),
    })
}

/// A value in a list, unless it is to be on several lines itself.
fn inner(value: &Value) -> Option<String> {
    match value {
        Value::List {
            is_broken: true,
            parts,
            ..
        } if !parts.is_empty() => None,
        value => one_line(value),
    }
}
