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

/// Variables with the texts that stand for them.
const VARIABLES: &[(&str, &str)] = &[
    ("request_uri", "$path$query"),
    ("host", "$host"),
    ("http_host", "$host"),
    ("remote_addr", "$remote_addr"),
    ("scheme", "$scheme"),
];

/// A text whose variables are Saker's; `None`: it has others.
pub fn template(text: &str, server_name: Option<&str>) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, behind) = rest.split_at(at);
        out.push_str(before);
        let behind = behind.get(1..)?;
        let (name, left) = match behind.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => {
                let is_end = |byte: u8| !(byte.is_ascii_alphanumeric() || byte == b'_');
                let end = behind.bytes().position(is_end).unwrap_or(behind.len());
                behind.split_at(end)
            }
        };
        match VARIABLES.iter().find(|(known, _)| *known == name) {
            Some((_, own)) => out.push_str(own),
            None if name == "server_name" => out.push_str(server_name?),
            None => return None,
        }
        rest = left;
    }
    out.push_str(rest);
    Some(out)
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
            Some("https://a.test$path$queryx")
        );
        assert_eq!(shown("$host/$arg_a"), None);
        assert_eq!(template("$server_name", None), None);
    }
}
