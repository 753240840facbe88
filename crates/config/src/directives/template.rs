//! Grammars of texts with variables, as actions of routes and fields have them.
//!
//! Called by: `route`, `redirect`, `fields`, `map`, and `matcher`.
//! Caveat: names are only known when all files have been read; `resolve/templates` links them.

use super::foreign_variables;
use crate::{
    diagnostic::quoted,
    kind::Word,
    model::Template,
    value::{Value, ValueError},
};

pub static REDIRECT_TO: Word = Word {
    expects: "a path (\"/new/$1\") or a URL (\"https://...\")",
    pattern: "^(/|[A-Za-z][A-Za-z0-9+.-]*:|\\$)",
    read: |text| read_redirect_to(text).map(Value::parsed),
};

/// Any text.
pub static TEXT: Word = Word {
    expects: "a string",
    pattern: "",
    read: |text| template(text).map(Value::parsed),
};

pub static REWRITE: Word = Word {
    expects: "a path of the site, such as \"/new/$1\" or \"/index.php?page=$1\"",
    pattern: "^(/|\\$)",
    read: |text| read_path(text).map(Value::parsed),
};

/// An element of `try_files`.
pub static CANDIDATE: Word = Word {
    expects: "a path (\"$uri\", \"$uri/\", \"/index.php?$args\"), a status (\"=404\"), or a route \
              (\"@name\")",
    pattern: "^(/|\\$|=[0-9]{3}$|@)",
    read: |text| read_candidate(text).map(Value::parsed),
};

/// An element of `try_files` while it is read.
#[derive(Clone, Debug)]
pub enum CandidateText {
    Path(Template),
    Status(u16),
    Route(String),
}

pub fn template(text: &str) -> Result<Template, ValueError> {
    foreign_variables::refuse_in_text(text)?;
    Template::parse(text).map_err(|error| ValueError {
        message: Some(error.message),
        help: error.help,
    })
}

/// Advice for a target with spaces, which may be the arguments of another server's directive.
fn space_help(text: &str) -> String {
    let (to, last) = text.trim().rsplit_once(' ').unwrap_or((text, ""));
    let status = match last.trim_end_matches(';') {
        "permanent" | "301" => 301,
        "redirect" | "temporary" | "temp" | "302" => 302,
        "303" => 303,
        "307" => 307,
        "308" => 308,
        _ => return "write %20 for a space".into(),
    };
    let to = quoted(to.trim());
    format!("write redirect = {to}, and status = {status} beside it")
}

fn read_redirect_to(text: &str) -> Result<Template, ValueError> {
    if text.chars().any(|c| c.is_control() || c == ' ') {
        return Err(ValueError::with_help(
            "spaces and control characters are not allowed in a URL",
            space_help(text),
        ));
    }
    let scheme = text.split_once(':').map(|(scheme, _)| scheme);
    let has_scheme = scheme.is_some_and(|scheme| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    });
    if !has_scheme && !text.starts_with(['/', '$']) {
        foreign_variables::refuse(text)?;
        let help = || {
            format!(
                "write {} or {}",
                quoted(&format!("/{text}")),
                quoted(&format!("https://{text}"))
            )
        };
        return Err(ValueError::plain((!text.is_empty()).then(help)));
    }
    foreign_variables::refuse(text)?;
    template(text)
}

/// A decoded path with an optional query.
fn read_path(text: &str) -> Result<Template, ValueError> {
    if !text.starts_with(['/', '$']) {
        return Err(ValueError::plain(Some(path_help(text))));
    }
    if let Some((target, flag)) = text.rsplit_once(' ').filter(|(_, word)| is_flag(word)) {
        return Err(ValueError::with_help(
            format!("`{flag}` is a flag of another server"),
            format!("write {}", quoted(target.trim_end())),
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(ValueError::new("control characters are not allowed"));
    }
    let path = text.split('?').next().unwrap_or_default();
    if path
        .split('/')
        .any(|segment| segment == "." || segment == "..")
    {
        return Err(ValueError::new(
            "\".\" and \"..\" are not allowed in a path",
        ));
    }
    foreign_variables::refuse(text)?;
    template(text)
}

/// Advice for a text that is no path.
fn path_help(text: &str) -> String {
    match text.split_once(' ') {
        Some((pattern, rest)) if text.starts_with(['^', '(']) => {
            let target = rest.split(' ').next().unwrap_or_default();
            format!(
                "write path_regex = '{pattern}' and rewrite = {}",
                quoted(target)
            )
        }
        _ if text.contains("://") => "another host needs `redirect` or `proxy`".to_owned(),
        _ if text.starts_with('{') => {
            "variables are written $uri, $args, $host (docs/routes.md)".to_owned()
        }
        _ if text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("write {} for a status", quoted(&format!("={text}")))
        }
        _ => format!("write {}", quoted(&format!("/{text}"))),
    }
}

/// Flags that follow the target of a rewrite rule in nginx and Apache.
fn is_flag(word: &str) -> bool {
    matches!(word, "last" | "break" | "permanent" | "redirect")
        || word.starts_with('[') && word.ends_with(']')
}

fn read_candidate(text: &str) -> Result<CandidateText, ValueError> {
    if let Some(status) = text.strip_prefix('=') {
        return match status.parse() {
            Ok(status @ 400..=599) => Ok(CandidateText::Status(status)),
            _ => Err(ValueError::with_help(
                "the status must be from 400 to 599",
                "write \"=404\"",
            )),
        };
    }
    match text.strip_prefix('@') {
        Some(name) => Ok(CandidateText::Route(name.to_owned())),
        None => read_path(text).map(CandidateText::Path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_targets() {
        for good in [
            "/a",
            "/a/$1?x=$$",
            "https://$host$path$query",
            "mailto:a@b",
            "$path",
            "/$foo",
        ] {
            assert_eq!(
                read_redirect_to(good).as_ref().map(Template::text),
                Ok(good)
            );
        }
        for bad in ["", "a", "/a b", "/$", "/$0", "/${a", "//\n"] {
            assert!(read_redirect_to(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn candidates() {
        for good in ["$uri", "$uri/", "/index.php?$args", "=404", "@app"] {
            assert!(read_candidate(good).is_ok(), "{good}");
        }
        for (text, advice) in [
            ("404", "\"=404\""),
            ("{path}", "$uri"),
            (
                "^/a(.*)$ /b$1 last",
                "path_regex = '^/a(.*)$' and rewrite = \"/b$1\"",
            ),
            ("/b/$1 last", "\"/b/$1\""),
            ("/b/$1 [L,QSA]", "\"/b/$1\""),
        ] {
            let error = read_candidate(text).unwrap_err();
            let help = error.help.unwrap_or_default();
            assert!(help.contains(advice), "{text}: {help}");
        }
        assert!(read_candidate("/the last page").is_ok());
        for bad in ["", "index.php", "=200", "=x", "/a/../b", "http://a/"] {
            assert!(read_candidate(bad).is_err(), "{bad}");
        }
    }
}
