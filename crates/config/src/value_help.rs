//! Advice about values of the wrong type, and about words of other servers.
//!
//! Called by: the reader, when it has refused a value.
//! Caveat: a subject is as in messages: "`balance`", "an element of `servers`".
//! Out of scope: unknown keys (`unknown_key`), and grammars of single features.

use crate::{
    diagnostic::quoted,
    kind::{Kind, Shape, Word, shape},
};
use toml::de::DeValue;

/// Words of other servers as values: key, words separated by blanks, and advice.
const WORDS: &[(&str, &str, &str)] = &[
    (
        "balance",
        "leastconn least_conn leastconns least_connections",
        "write \"least-requests\"",
    ),
    (
        "balance",
        "ip_hash source hash_ip client_ip_hash sticky",
        "write \"client\"",
    ),
    (
        "balance",
        "uri uri_hash url_hash hash",
        "write \"target\": by the path and query of requests",
    ),
    (
        "balance",
        "random random_choose p2c",
        "write \"random-two\"",
    ),
    (
        "client_certificates",
        "on require yes true verify require_and_verify",
        "\"required\" refuses clients without a certificate, \"optional\" lets them in",
    ),
    ("protocol", "h2 http2 h2c HTTP2", "write \"HTTP/2\""),
    ("protocol", "h3 http3 quic HTTP3", "write \"HTTP/3\""),
    (
        "protocol",
        "h1 http1 http/1 HTTP/1 http1.1 http",
        "write [\"HTTP/1.0\", \"HTTP/1.1\"]",
    ),
    (
        "minimum_version",
        "1.0 1.1 SSLv3 TLSv1 TLSv1.0 TLSv1.1 tls1.0 tls1.1 tls1_0 tls1_1",
        "versions before 1.2 are not supported: write \"1.2\"",
    ),
    (
        "minimum_version",
        "1.4 2 2.0",
        "the newest version is \"1.3\"",
    ),
    ("deny", "all", "write true"),
    ("listing", "fancy indexes", "write true"),
    ("php", "on yes true", "write \"auto\""),
    (
        "send_proxy_protocol",
        "on yes true",
        "write \"v2\", or \"v1\" for its text form",
    ),
    (
        "methods",
        "GET HEAD",
        "responses to GET and HEAD are stored without this key: remove it",
    ),
];

/// Advice by the type of a value: key, type, advice.
const TYPES: &[(&str, Shape, &str)] = &[
    (
        "tls",
        Shape::Table,
        "write tls = true; certificates and versions belong in [site.tls]",
    ),
    (
        "redirect",
        Shape::Table,
        "write redirect = \"/new\", and status = 301 beside it",
    ),
    (
        "respond",
        Shape::Table,
        "write respond = \"text\", and status = 200 beside it",
    ),
    (
        "respond",
        Shape::Integer,
        "write respond = \"\", and status = 404 beside it",
    ),
    (
        "ttl",
        Shape::Table,
        "lifetimes by status belong in `status_ttl`: status_ttl = { 404 = \"1m\" }",
    ),
    (
        "send_proxy_protocol",
        Shape::Boolean,
        "write \"v2\", or \"v1\" for its text form",
    ),
    ("php", Shape::Boolean, "write \"auto\" or \"off\""),
];

/// Advice about a table that is something else: key with its table, type, advice.
const SECTIONS: &[(&str, Shape, &str)] = &[
    (
        "`tls` [site.tls]",
        Shape::Boolean,
        "write tls = { automatic = true }, or [site.tls] with a certificate",
    ),
    (
        "`tls` [upstream.tls]",
        Shape::Boolean,
        "write its servers with https://, or tls:// in a stream; [upstream.tls] says how they are verified",
    ),
    (
        "`tls` [stream.tls]",
        Shape::Boolean,
        "write [stream.tls] with a certificate to end TLS here, or nothing to pass it on",
    ),
];

/// Advice about a word that another server has for a value.
pub(crate) fn of_word(subject: &str, text: &str) -> Option<String> {
    let key = key_of(subject)?;
    let is_it = |words: &str| {
        let mut each = words.split(' ');
        each.any(|word| word.eq_ignore_ascii_case(text))
    };
    let row = WORDS
        .iter()
        .find(|(known, words, _)| *known == key && is_it(words))?;
    Some(row.2.to_owned())
}

/// Advice about a value in place of a section.
pub(crate) fn of_section(subject: &str, value: &DeValue<'_>) -> Option<String> {
    let row = SECTIONS
        .iter()
        .find(|(known, type_, _)| *known == subject && *type_ == shape(value))?;
    Some(row.2.to_owned())
}

/// Advice about a value of the wrong type, `written` as it stands in the file.
pub(crate) fn of_type(
    subject: &str,
    kind: &Kind,
    value: &DeValue<'_>,
    written: &str,
) -> Option<String> {
    let key = key_of(subject).unwrap_or_default();
    let of_key = TYPES
        .iter()
        .find(|(known, type_, _)| *known == key && *type_ == shape(value))
        .map(|row| row.2.to_owned());
    let of_word = match value {
        DeValue::String(text) => of_word(subject, text),
        _ => None,
    };
    of_key
        .or(of_word)
        .or_else(|| type_help(kind, value, written))
        .or_else(|| in_quotes(kind, value))
        .or_else(|| out_of_list(kind, value, written))
}

fn key_of(subject: &str) -> Option<&str> {
    subject.split('`').nth(1)
}

/// A number or a boolean whose text is one of the words.
fn in_quotes(kind: &Kind, value: &DeValue<'_>) -> Option<String> {
    let text = match value {
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.as_str().to_owned(),
        _ => return None,
    };
    has_choice(kind, &text).then(|| format!("write {}, in quotes", quoted(&text)))
}

fn has_choice(kind: &Kind, text: &str) -> bool {
    match kind {
        Kind::Choice(words) => words.contains(&text),
        Kind::OneOf(kinds) => kinds.iter().any(|kind| has_choice(kind, text)),
        _ => false,
    }
}

/// The only element of a list that may be the value alone.
fn out_of_list(kind: &Kind, value: &DeValue<'_>, written: &str) -> Option<String> {
    let DeValue::Array(array) = value else {
        return None;
    };
    let [only] = &array[..] else {
        return None;
    };
    let inside = written.trim_matches(['[', ']', ' ', ',']);
    let fits = match only.get_ref() {
        DeValue::String(text) => reads(kind, text),
        other => kind.accepts(shape(other)),
    };
    (fits && !written.contains('\n')).then(|| format!("write {inside}, without brackets"))
}

/// `10k` and `2M` as numbers.
fn thousands(text: &str) -> Option<u64> {
    let (digits, factor) = match text.chars().next_back()? {
        'k' | 'K' => (&text[..text.len() - 1], 1_000),
        'm' | 'M' => (&text[..text.len() - 1], 1_000_000),
        _ => return None,
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(factor)
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
        (Kind::Integer { .. }, DeValue::String(text)) => {
            let number = thousands(text)?;
            Some(format!("write {number}, without quotes"))
        }
        (Kind::Duration { .. }, DeValue::Integer(number)) => Some(format!(
            "a duration needs a unit: write \"{number}s\" for seconds"
        )),
        (Kind::ListOf(element), scalar)
            if element.accepts(shape(scalar)) && !written.contains('\n') =>
        {
            // Other servers separate values by blanks or commas.
            let separators = |c: char| c == ',' || c.is_whitespace();
            let elements = match scalar {
                DeValue::String(text) if reads(element, text) && !text.contains(" /") => {
                    quoted(text)
                }
                DeValue::String(text) => {
                    let each = text.split(separators).filter(|part| !part.is_empty());
                    let is_list =
                        each.clone().count() > 1 && each.clone().all(|part| reads(element, part));
                    match is_list {
                        true => each.map(quoted).collect::<Vec<_>>().join(", "),
                        false => corrected(element, text)?,
                    }
                }
                _ => written.to_owned(),
            };
            Some(format!("write [{elements}]"))
        }
        (kind, DeValue::Boolean(value)) => {
            let word = if *value { "on" } else { "off" };
            let has_word =
                |kind: &Kind| matches!(kind, Kind::Choice(words) if words.contains(&word));
            let is_known = match kind {
                Kind::OneOf(kinds) => kinds.iter().any(has_word),
                kind => has_word(kind),
            };
            let table = |kind: &Kind| match kind {
                Kind::Table(table) => Some(table.context.described().header),
                _ => None,
            };
            match kind {
                _ if is_known => Some(format!("write \"{word}\"")),
                // `true` for a feature that has a table.
                Kind::OneOf(kinds) if *value => {
                    let header = kinds.iter().find_map(table)?;
                    let is_feature = header.starts_with("[site.") && header != "[site.route.match]";
                    is_feature.then(|| format!("write {header}, with its keys below"))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// The text that the grammar of an element advises to write instead.
fn corrected(element: &Kind, text: &str) -> Option<String> {
    let word = |kind: &Kind| match kind {
        Kind::Word(Word { read, .. }) => read(text).err()?.help,
        _ => None,
    };
    let help = match element {
        Kind::OneOf(kinds) => kinds.iter().find_map(word),
        kind => word(kind),
    }?;
    let written = help.strip_prefix("write ")?;
    let is_one = written.starts_with('"') && written.matches('"').count() == 2;
    (is_one && written.ends_with('"')).then(|| written.to_owned())
}

/// Returns true if a text is a value of a kind, as far as its form says.
fn reads(kind: &Kind, text: &str) -> bool {
    match kind {
        Kind::Word(word) => (word.read)(text).is_ok(),
        Kind::Choice(words) => words.contains(&text),
        Kind::OneOf(kinds) => kinds.iter().any(|kind| reads(kind, text)),
        kind => kind.accepts(Shape::String),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_servers() {
        for (subject, text, part) in [
            ("`balance`", "leastconn", Some("least-requests")),
            ("an element of `methods`", "get", Some("remove it")),
            ("`protocol`", "H2", Some("HTTP/2")),
            ("`balance`", "", None),
            ("`protocol`", "SPDY", None),
            ("this key", "h2", None),
        ] {
            let found = of_word(subject, text);
            let holds = match (part, &found) {
                (Some(part), Some(found)) => found.contains(part),
                (None, None) => true,
                _ => false,
            };
            assert!(holds, "{subject} {text}: {found:?}");
        }
    }

    #[test]
    fn numbers_with_a_letter() {
        for (text, expected) in [
            ("10k", Some(10_000)),
            ("2 M", Some(2_000_000)),
            ("k", None),
            ("10", None),
            ("", None),
            ("99999999999999999999k", None),
            ("9999999999999999999k", None),
        ] {
            assert_eq!(thousands(text), expected, "{text}");
        }
    }
}
