//! Patterns of paths in routes, redirects and triggers.
//!
//! Called by: `route`, `redirect` and `trigger`.
//! Caveat: patterns are compared with decoded paths, so escapes are refused.

use crate::{
    diagnostic::quoted,
    kind::Word,
    model::PathPattern,
    value::{Value, ValueError},
};

pub static PATTERN: Word = Word {
    expects: "a path, such as \"/img/logo.png\", \"/img/*\" or \"*.png\"",
    pattern: "^[/*]",
    read: |text| read_pattern(text).map(Value::parsed),
};

fn read_pattern(text: &str) -> Result<PathPattern, ValueError> {
    if !text.starts_with(['/', '*']) {
        return Err(ValueError::plain(Some(start_help(text))));
    }
    if text.contains("**") {
        return Err(ValueError::with_help(
            "`**` is not allowed",
            "one `*` already matches anything, including slashes",
        ));
    }
    if text.contains(['?', '#']) {
        return Err(ValueError::with_help(
            "a path has no \"?\" or \"#\"",
            "the query is not matched",
        ));
    }
    if let Some(escape) = percent_escape(text) {
        let help = format!("write the character itself instead of {escape}");
        return Err(ValueError::with_help(
            "patterns are compared with the decoded path",
            help,
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(ValueError::new("control characters are not allowed"));
    }
    if text
        .split('/')
        .any(|segment| segment == "." || segment == "..")
    {
        return Err(ValueError::new(
            "\".\" and \"..\" are removed from paths before they are compared",
        ));
    }
    match text.matches('*').count() {
        0..=9 => Ok(PathPattern::new(text)),
        _ => Err(ValueError::new("it has more than 9 `*`")),
    }
}

/// Advice for a text that is no pattern: a regular expression, a URL, or a path without its slash.
fn start_help(text: &str) -> String {
    let bare = text.trim_start_matches(['~', '*']).trim_start();
    // nginx's `= /exact` and `^~ /prefix/`.
    if let Some(path) = text.strip_prefix('=').map(str::trim_start)
        && path.starts_with('/')
    {
        return format!("write {}", quoted(path));
    }
    if let Some(path) = text.strip_prefix("^~").map(str::trim_start)
        && path.starts_with('/')
    {
        return format!("write {}", quoted(&format!("{path}*")));
    }
    if text.starts_with(['^', '~']) || bare.ends_with('$') {
        return format!("a regular expression is for `path_regex` or `from_regex`: '{bare}'");
    }
    if let Some((_, rest)) = text.split_once("://") {
        let path = rest.find('/').map_or("/", |at| &rest[at..]);
        return format!(
            "write {} without the host, which `match` tests",
            quoted(path)
        );
    }
    let written = match text {
        "" => "\"/\"".to_owned(),
        text => quoted(&format!("/{text}")),
    };
    format!("a pattern starts with \"/\" or \"*\": write {written}")
}

fn percent_escape(text: &str) -> Option<&str> {
    let at = |(index, _)| text.get(index..index + 3);
    text.match_indices('%')
        .filter_map(at)
        .find(|escape| escape.bytes().skip(1).all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert_eq!(read_pattern("/a"), Ok(PathPattern::Exact("/a".into())));
        assert_eq!(read_pattern("/a/*"), Ok(PathPattern::Prefix("/a/".into())));
        assert_eq!(read_pattern("*"), Ok(PathPattern::Prefix(String::new())));
        assert_eq!(
            read_pattern("*.jpg"),
            Ok(PathPattern::Suffix(".jpg".into()))
        );
        assert_eq!(
            read_pattern("/a/*/b*"),
            Ok(PathPattern::Glob(vec![
                "/a/".into(),
                "/b".into(),
                "".into()
            ]))
        );
        for bad in [
            "",
            "a",
            "/**",
            "/a?b",
            "/a%20b",
            "/a/../b",
            "/a\n",
            "/*a*a*a*a*a*a*a*a*a*a",
        ] {
            assert!(read_pattern(bad).is_err(), "{bad}");
        }
        assert!(read_pattern("/100%").is_ok() && read_pattern("/%é").is_ok());
    }
}
