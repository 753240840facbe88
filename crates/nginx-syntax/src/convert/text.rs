//! Values as TOML, and texts with nginx's variables as Saker's.
//!
//! Called by: `convert`.
//! Caveat: a variable without a counterpart has no text; the caller reports it.

/// A basic string.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            other if other.is_control() => {
                out.push_str(&format!("\\u{:04X}", u32::from(other)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// A list of basic strings.
pub fn list<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let all: Vec<String> = texts.into_iter().map(quoted).collect();
    format!("[{}]", all.join(", "))
}

/// The line of a list.
pub fn list_line<'t>(key: &str, texts: impl IntoIterator<Item = &'t str>) -> String {
    format!("{key} = {}\n", list(texts))
}

/// Variables with those that stand for them.
const VARIABLES: &[(&str, &[&str])] = &[
    ("request_uri", &["path", "query"]),
    ("host", &["host"]),
    ("http_host", &["host"]),
    ("remote_addr", &["remote_addr"]),
    ("remote_port", &["remote_port"]),
    ("remote_user", &["remote_user"]),
    ("scheme", &["scheme"]),
    ("uri", &["uri"]),
    ("document_uri", &["uri"]),
    ("args", &["args"]),
    ("query_string", &["args"]),
    ("is_args", &["is_args"]),
    ("request_method", &["request_method"]),
    ("server_protocol", &["server_protocol"]),
    ("server_addr", &["server_addr"]),
    ("server_port", &["server_port"]),
    ("proxy_add_x_forwarded_for", &["proxy_add_x_forwarded_for"]),
];

/// A text whose variables are Saker's; `None`: it has others.
pub fn template(text: &str, server_name: Option<&str>) -> Option<String> {
    expanded(text, server_name, false)
}

/// The same with the groups of a regular expression.
pub fn template_of_groups(text: &str, server_name: Option<&str>) -> Option<String> {
    expanded(text, server_name, true)
}

fn expanded(text: &str, server_name: Option<&str>, has_groups: bool) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        out.push_str(before);
        let (name, left) = match behind.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => behind.split_at(name_length(behind)),
        };
        rest = left;
        let known = VARIABLES.iter().find(|(known, _)| *known == name);
        match (name, known) {
            (_, Some((_, own))) => {
                let (last, others) = own.split_last()?;
                others
                    .iter()
                    .for_each(|own| push_variable(&mut out, own, ""));
                push_variable(&mut out, last, rest);
            }
            ("server_name", _) => out.push_str(server_name?),
            _ if is_group(name) => out.push_str(&format!("${}", has_groups.then_some(name)?)),
            _ if is_part(name) => push_variable(&mut out, name, rest),
            _ => return None,
        }
    }
    out.push_str(rest);
    Some(out)
}

/// The length of a name behind a dollar sign. A group is one digit.
fn name_length(behind: &str) -> usize {
    let is_sign = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    match behind.as_bytes() {
        [b'1'..=b'9', ..] => 1,
        bytes => bytes.iter().take_while(|byte| is_sign(byte)).count(),
    }
}

fn is_group(name: &str) -> bool {
    matches!(name.as_bytes(), [b'1'..=b'9'])
}

/// Fields, cookies, and parameters of the request.
fn is_part(name: &str) -> bool {
    let mut kinds = ["http_", "cookie_", "arg_"].iter();
    kinds.any(|kind| name.strip_prefix(kind).is_some_and(|part| !part.is_empty()))
}

/// Adds a variable, in braces where a letter follows.
fn push_variable(out: &mut String, name: &str, rest: &str) {
    let is_letter = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    out.push_str(&match rest.starts_with(is_letter) {
        true => format!("${{{name}}}"),
        false => format!("${name}"),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        assert_eq!(quoted("a\"b\\c\n\u{1}"), "\"a\\\"b\\\\c\\n\\u0001\"");
        assert_eq!(list(["a", "b"]), "[\"a\", \"b\"]");
        let shown = |text| template(text, Some("a.test"));
        assert_eq!(
            shown("https://$server_name${request_uri}x").as_deref(),
            Some("https://a.test$path${query}x")
        );
        for same in ["$host/$arg_a", "$remote_user$uri", "$http_x_y", "${uri}s"] {
            assert_eq!(shown(same).as_deref(), Some(same));
        }
        for unknown in ["$ssl_client_s_dn", "$arg_", "$own", "$1", "$", "${host"] {
            assert_eq!(shown(unknown), None, "{unknown}");
        }
        let grouped = template_of_groups("/a/$12/${2}x", None);
        assert_eq!(grouped.as_deref(), Some("/a/$12/$2x"));
        assert_eq!(template("$server_name", None), None);
    }
}
