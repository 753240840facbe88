//! The native spelling of Apache's expressions: `$name` for variables, and `and`, `or`, `not`.
//!
//! Called by: `matcher`.
//! Caveat: quoted strings and regular expressions are left as they are; inside of them, Apache's
//! `%{NAME}` works.
//! Out of scope: the language itself (`saker_ap_expr`).

use crate::value::ValueError;
use saker_ap_expr::{Expression, ExpressionOptions};

/// Variables with a counterpart of another name.
const VARIABLES: [(&str, &str); 14] = [
    ("host", "%{SERVER_NAME}"),
    ("uri", "%{REQUEST_URI}"),
    ("document_uri", "%{REQUEST_URI}"),
    ("args", "%{QUERY_STRING}"),
    ("query_string", "%{QUERY_STRING}"),
    ("method", "%{REQUEST_METHOD}"),
    ("request_method", "%{REQUEST_METHOD}"),
    ("scheme", "%{REQUEST_SCHEME}"),
    ("remote_addr", "%{REMOTE_ADDR}"),
    ("remote_port", "%{REMOTE_PORT}"),
    ("protocol", "%{SERVER_PROTOCOL}"),
    ("server_protocol", "%{SERVER_PROTOCOL}"),
    ("server_port", "%{SERVER_PORT}"),
    ("http_host", "%{SERVER_NAME}"),
];

/// Compiles an expression.
pub fn compile(text: &str) -> Result<Expression, ValueError> {
    if text.trim().is_empty() {
        return Err(ValueError::new("it must not be empty"));
    }
    let translated = translate(text)?;
    Expression::compile(&translated, ExpressionOptions::default()).map_err(|error| {
        ValueError::with_help(
            format!("invalid expression: {}", error.message),
            "operators are ==, !=, =~, !~, -in, and, or, not; strings stand in quotes",
        )
    })
}

fn translate(text: &str) -> Result<String, ValueError> {
    let mut out = String::with_capacity(text.len() + 32);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' | '"' => quoted_length(rest, first),
            '/' if out.trim_end().ends_with('~') => quoted_length(rest, '/'),
            '$' => {
                let name = word(&rest[1..]);
                out.push_str(&variable(name)?);
                rest = &rest[1 + name.len()..];
                continue;
            }
            c if c.is_ascii_alphabetic() => {
                let word = word(rest);
                let follows_word =
                    out.ends_with(|c: char| c.is_alphanumeric() || "_-{:%".contains(c));
                out.push_str(match word {
                    "and" if !follows_word => "&&",
                    "or" if !follows_word => "||",
                    "not" if !follows_word => "!",
                    word => word,
                });
                rest = &rest[word.len()..];
                continue;
            }
            c => c.len_utf8(),
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    Ok(out)
}

fn word(text: &str) -> &str {
    let length = text
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        .count();
    &text[..length]
}

/// Length of a quoted text with its quotes.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            '\\' if !escaped => escaped = true,
            character if character == quote && !escaped => return at + 1,
            _ => escaped = false,
        }
    }
    text.len()
}

fn variable(name: &str) -> Result<String, ValueError> {
    if name.len() == 1 && name.as_bytes()[0].is_ascii_digit() {
        return Ok(format!("${name}"));
    }
    if let Some((_, translated)) = VARIABLES.iter().find(|(known, _)| *known == name) {
        return Ok((*translated).to_owned());
    }
    match name.strip_prefix("http_").filter(|name| !name.is_empty()) {
        Some(field) => Ok(format!("req('{}')", field.replace('_', "-"))),
        None => Err(ValueError::with_help(
            format!("unknown variable `${name}`"),
            "in expressions: $host, $uri, $args, $method, $scheme, $remote_addr, $http_NAME",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        for (native, apache) in [
            (
                "$http_user_agent =~ /bot$/ and not $method == 'GET'",
                "req('user-agent') =~ /bot$/ && ! %{REQUEST_METHOD} == 'GET'",
            ),
            (
                "$uri == '/and/or' or -n $args",
                "%{REQUEST_URI} == '/and/or' || -n %{QUERY_STRING}",
            ),
            ("%{HTTP_HOST} == \"$x\"", "%{HTTP_HOST} == \"$x\""),
            (
                "$host =~ m#^a# and $1 == 'b'",
                "%{SERVER_NAME} =~ m#^a# && $1 == 'b'",
            ),
        ] {
            assert_eq!(translate(native).as_deref(), Ok(apache));
        }
        assert!(compile("$http_user_agent =~ /bot/ and not $method in {'GET', 'HEAD'}").is_ok());
        for bad in ["", "$foo == 'a'", "$host ==", "$host == 'a' and"] {
            assert!(compile(bad).is_err(), "{bad}");
        }
    }
}
