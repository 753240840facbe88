//! Words of Caddy and Apache for parts of a request, and the variables that take their place.
//!
//! Called by: `template`.
//! Caveat: in longer texts, words such as `{host}` may be meant as they are; only those that no text
//! has by chance (`{http.request.host}`, `%{HTTP_HOST}`) are refused there.

use crate::{diagnostic::quoted, value::ValueError};

const VARIABLES: &[(&str, &str)] = &[
    ("{host}", "$host"),
    ("{hostport}", "$http_host"),
    ("{http.request.host}", "$host"),
    ("{http.request.hostport}", "$http_host"),
    ("{uri}", "$request_uri"),
    ("{http.request.uri}", "$request_uri"),
    ("{path}", "$uri"),
    ("{http.request.uri.path}", "$uri"),
    ("{query}", "$args"),
    ("{http.request.uri.query}", "$args"),
    ("{method}", "$method"),
    ("{http.request.method}", "$method"),
    ("{scheme}", "$scheme"),
    ("{http.request.scheme}", "$scheme"),
    ("{remote_host}", "$remote_addr"),
    ("{client_ip}", "$remote_addr"),
    ("{http.request.remote.host}", "$remote_addr"),
    ("{http.vars.client_ip}", "$remote_addr"),
    ("%{HTTP_HOST}", "$host"),
    ("%{SERVER_NAME}", "$host"),
    ("%{REQUEST_URI}", "$uri"),
    ("%{QUERY_STRING}", "$args"),
    ("%{REQUEST_METHOD}", "$method"),
    ("%{REQUEST_SCHEME}", "$scheme"),
    ("%{REMOTE_ADDR}", "$remote_addr"),
    ("%{REMOTE_USER}", "$remote_user"),
];

/// Words that end in the name of a field, a cookie, or a parameter.
const NAMED: &[(&str, &str)] = &[
    ("{http.request.header.", "$http_"),
    ("{header.", "$http_"),
    ("{http.request.cookie.", "$cookie_"),
    ("{cookie.", "$cookie_"),
    ("{http.request.uri.query.", "$arg_"),
    ("{query.", "$arg_"),
    ("%{HTTP_", "$http_"),
    ("%{HTTP:", "$http_"),
];

/// Refuses variables of other servers in a URL or a path, which have none as they are.
pub(super) fn refuse(text: &str) -> Result<(), ValueError> {
    refuse_if(text, |_| true)
}

/// Refuses them in any text, as far as they are not meant as they are.
pub(super) fn refuse_in_text(text: &str) -> Result<(), ValueError> {
    refuse_if(text, |word| {
        word == text || word.starts_with("{http.") || word.starts_with("%{")
    })
}

fn refuse_if(text: &str, is_meant: impl Fn(&str) -> bool) -> Result<(), ValueError> {
    let mut written = text.to_owned();
    let mut first = None;
    for word in words(text).filter(|word| is_meant(word)) {
        let Some(variable) = variable(word) else {
            continue;
        };
        first.get_or_insert(word);
        written = written.replace(word, &variable);
    }
    match first {
        None => Ok(()),
        Some(word) => Err(ValueError::with_help(
            format!("unknown variable `{word}`"),
            format!("write {}", quoted(&written)),
        )),
    }
}

/// The words in braces, with the `%` before.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('{').filter_map(|(begin, _)| {
        let length = text[begin..].find('}')?;
        let begin = begin - usize::from(text[..begin].ends_with('%'));
        let end = begin + text[begin..].find('{')? + length + 1;
        text.get(begin..end)
    })
}

fn variable(word: &str) -> Option<String> {
    if let Some((_, variable)) = VARIABLES.iter().find(|(known, _)| *known == word) {
        return Some((*variable).to_owned());
    }
    let (name, kind) = NAMED.iter().find_map(|(begin, kind)| {
        let name = word.strip_prefix(begin)?.strip_suffix('}')?;
        Some((name, *kind))
    })?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    Some(match kind {
        "$http_" => format!("{kind}{}", name.to_ascii_lowercase().replace('-', "_")),
        _ => format!("{kind}{name}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(result: Result<(), ValueError>) -> Option<String> {
        result.err().and_then(|error| error.help)
    }

    #[test]
    fn words_of_other_servers() {
        for (text, expected) in [
            ("{host}", "\"$host\""),
            (
                "on {http.request.host}: {http.request.uri}",
                "\"on $host: $request_uri\"",
            ),
            ("%{HTTP_X_FORWARDED_PROTO}", "\"$http_x_forwarded_proto\""),
            ("a %{HTTP:X-App} b", "\"a $http_x_app b\""),
            ("{http.request.header.User-Agent}", "\"$http_user_agent\""),
            ("{http.request.cookie.sid}", "\"$cookie_sid\""),
            ("{query.q}", "\"$arg_q\""),
        ] {
            let help = advice(refuse_in_text(text)).unwrap_or_default();
            assert_eq!(help, format!("write {expected}"), "{text}");
        }
        for text in [
            "",
            "{",
            "}{",
            "%{",
            "hello {host}",
            "function(){return{path:1}}",
            "100%{a}",
            "{header.}",
            "é%{é}",
        ] {
            assert_eq!(advice(refuse_in_text(text)), None, "{text}");
        }
        let help = advice(refuse("/a/{path}?{query}")).unwrap_or_default();
        assert_eq!(help, "write \"/a/$uri?$args\"");
    }
}
