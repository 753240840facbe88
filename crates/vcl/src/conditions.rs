//! Conditions of VCL as expressions of saker.toml.
//!
//! Called by: `receive` and `respond`, for what no key of its own stands for.
//! Caveat: `req.url` is what was sent there, and the decoded path with the query here, so a condition
//! holds for other spellings of a path, too. Fields that a request lacks are empty.
//! Out of scope: lists of addresses, and what only a response can tell.

use crate::syntax::Expression;

/// True for all requests.
pub const EVERY_REQUEST: &str = "$method != ''";

/// True for a request with credentials, as `req.http.Authorization` is.
pub const HAS_CREDENTIALS: &str = "$http_authorization != ''";

/// The same condition as text of an expression. `None`: it has no counterpart.
pub fn expression(condition: &Expression) -> Option<String> {
    Some(match condition {
        Expression::Binary(operator @ ("&&" | "||"), left, right) => {
            let word = if *operator == "&&" { "and" } else { "or" };
            format!("({} {word} {})", expression(left)?, expression(right)?)
        }
        Expression::Not(inner) => format!("not ({})", expression(inner)?),
        Expression::Binary("~", left, right) => matches(left, right)?,
        Expression::Binary("!~", left, right) => format!("not ({})", matches(left, right)?),
        Expression::Binary(operator @ ("==" | "!="), left, right) if is_url(left.name()?) => {
            let text = right.text()?;
            let mark = if text.contains('?') { "" } else { "?" };
            format!(
                "{} {operator} {}",
                variable(left.name()?)?,
                quoted(&format!("{text}{mark}"))?
            )
        }
        Expression::Binary(operator @ ("==" | "!="), left, right) => {
            format!(
                "{} {operator} {}",
                variable(left.name()?)?,
                quoted(right.text()?)?
            )
        }
        Expression::Name(name) if field(name).is_some() => {
            format!("{} != ''", variable(name)?)
        }
        _ => return None,
    })
}

/// The part of a conjunction that requests alone decide, which holds for more requests than the whole.
/// `None`: there is none. The second value is true if something was left out.
pub fn of_request(condition: &Expression) -> Option<(String, bool)> {
    let parts = condition.chain("&&");
    let known: Vec<String> = parts.iter().copied().filter_map(expression).collect();
    let is_part = known.len() < parts.len();
    (!known.is_empty()).then(|| (known.join(" and "), is_part))
}

fn matches(left: &Expression, right: &Expression) -> Option<String> {
    let (name, pattern) = (left.name()?, right.text()?);
    let is_plain = |letter: char| letter.is_ascii_graphic() || letter == ' ';
    if pattern.is_empty() || !pattern.chars().all(is_plain) {
        return None;
    }
    let pattern = match is_url(name) {
        true => url_pattern(pattern)?,
        false => pattern.to_owned(),
    };
    Some(format!("{} =~ /{}/", variable(name)?, delimited(&pattern)))
}

/// A pattern for path and query with a question mark between the two, whether there is a query or not.
fn url_pattern(pattern: &str) -> Option<String> {
    // The path has been decoded.
    if pattern.contains('%') {
        return None;
    }
    let (start, is_end) = match pattern.strip_suffix('$') {
        Some(start) if !start.ends_with('\\') => (start, true),
        _ => (pattern, false),
    };
    let has_other_end = start.replace("\\$", "").contains('$');
    // The end would belong to the last alternative alone.
    let is_of_alternative = is_end && start.contains('|') && !start.contains('(');
    (!has_other_end && !is_of_alternative)
        .then(|| format!("{start}{}", if is_end { "[?]?$" } else { "" }))
}

/// A pattern that stands between slashes, which cannot be escaped there.
fn delimited(pattern: &str) -> String {
    let (mut out, mut is_escaped) = (String::new(), false);
    for letter in pattern.chars() {
        match (letter, is_escaped) {
            ('/', true) => out.push_str("x2f"),
            ('/', false) => out.push_str("\\x2f"),
            (letter, _) => out.push(letter),
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    out
}

fn is_url(name: &str) -> bool {
    matches!(name, "req.url" | "bereq.url")
}

/// The name of a request field.
fn field(name: &str) -> Option<&str> {
    let name = name
        .strip_prefix("req.")
        .or_else(|| name.strip_prefix("bereq."))?;
    let field = name.strip_prefix("http.")?;
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    (!field.is_empty() && field.chars().all(is_name)).then_some(field)
}

fn variable(name: &str) -> Option<String> {
    if let Some(field) = field(name) {
        return Some(format!(
            "$http_{}",
            field.to_ascii_lowercase().replace('-', "_")
        ));
    }
    Some(
        match name {
            "req.url" | "bereq.url" => "'%{REQUEST_URI}?%{QUERY_STRING}'",
            "req.method" | "bereq.method" | "req.request" => "$method",
            "req.proto" => "$protocol",
            _ => return None,
        }
        .to_owned(),
    )
}

fn quoted(text: &str) -> Option<String> {
    let is_plain =
        |letter: char| letter.is_ascii_graphic() && !"'\\$%".contains(letter) || letter == ' ';
    text.chars().all(is_plain).then(|| format!("'{text}'"))
}
