//! Keys of `saker.toml` that no configuration of a test of the server uses.
//!
//! Called by: the tidy task.
//! Caveat: the text of configurations is looked at, not what a server reads: texts of the Rust
//! tests, `site` and `global` of scenarios, and configurations of applications. A table whose name
//! is not in the same text counts by its last name.
//! Out of scope: the effect of a key, which its test shows.

use super::{
    finding::{File, Finding},
    scanner,
};
use saker_config::KeyUse;
use std::collections::HashSet;

const TESTS: &str = "crates/server/tests/";
/// Table of texts that begin in the middle of a configuration.
const UNKNOWN: &str = "?";

/// Reports keys without a test.
pub fn check(files: &[File], keys: &[KeyUse], findings: &mut Vec<Finding>) {
    let mut used = Used::default();
    let is_test = |file: &&File| file.path.starts_with(TESTS);
    for file in files.iter().filter(is_test) {
        let is_scenario = file.path.contains("/scenarios/");
        if file.path.ends_with(".rs") {
            for text in literals(&file.text) {
                used.read(&text, UNKNOWN);
            }
        } else if file.path.ends_with(".toml") && is_scenario {
            let scenario = file.text.parse::<toml::Table>().unwrap_or_default();
            for (name, table) in [("site", "site"), ("global", "server")] {
                let text = scenario.get(name).and_then(|value| value.as_str());
                used.read(text.unwrap_or_default(), table);
            }
        } else if file.path.ends_with(".toml") {
            used.read(&file.text, "");
        }
    }
    for key in keys.iter().filter(|key| !used.has(key)) {
        let what = format!(
            "`{}` in {}: no test of the server uses this key",
            key.name,
            key.tables.join(", ")
        );
        findings.push(Finding::new(TESTS.trim_end_matches('/'), 0, what));
    }
}

/// Pairs of a table and a key in it.
#[derive(Debug, Default)]
struct Used(HashSet<(String, String)>);

impl Used {
    fn has(&self, key: &KeyUse) -> bool {
        let in_table = |header: &&str| {
            let table = table(header.trim_matches(['[', ']']));
            self.0.iter().any(|(found, name)| {
                name == key.name
                    && match found.strip_prefix("?.") {
                        // A value in a list or in a table: its header is an example.
                        _ if header.starts_with('{') => found.contains('.') || found == UNKNOWN,
                        Some(last) => table == last || table.ends_with(&format!(".{last}")),
                        None if header.starts_with('[') => *found == table || found == UNKNOWN,
                        None => found.is_empty() || found == "server" || found == UNKNOWN,
                    }
            })
        };
        key.tables.iter().any(in_table)
    }

    /// Reads a part of a configuration that begins in `table`.
    fn read(&mut self, text: &str, table: &str) {
        let (mut outer, mut open, mut next) = (table.to_owned(), Vec::new(), None);
        let (mut rest, mut begins_line) = (text, true);
        while let Some(first) = rest.chars().next() {
            let token = Token::read(rest, begins_line);
            begins_line = first == '\n' || (begins_line && first == ' ');
            rest = &rest[token.length()..];
            match token {
                Token::Header(header, _) => {
                    self.add_path(&header);
                    (outer, next) = (self::table(&header), None);
                    open.clear();
                }
                Token::Key(path, _) => {
                    let mut inside: String = open.last().unwrap_or(&outer).clone();
                    for name in path
                        .split('.')
                        .map(|name| name.trim().trim_matches(['"', '\'']))
                    {
                        self.0.insert((inside.clone(), name.to_owned()));
                        inside = self::table(&format!("{inside}.{name}"));
                    }
                    next = Some(inside);
                }
                Token::Other('{' | '[') => {
                    let inside = next.take();
                    open.push(inside.unwrap_or_else(|| open.last().unwrap_or(&outer).clone()));
                }
                Token::Other('}' | ']') => {
                    open.pop();
                    next = None;
                }
                Token::Other(',' | '\n') => next = None,
                Token::Other(_) | Token::Skipped(_) => {}
            }
        }
    }

    /// A header uses its tables as keys of the ones around them.
    fn add_path(&mut self, header: &str) {
        let names: Vec<&str> = header.split('.').collect();
        for (at, name) in names.iter().enumerate() {
            let around = self::table(&names[..at].join("."));
            self.0.insert((around, (*name).to_owned()));
        }
    }
}

/// The name of a table without routes and conditions on the way: their settings are the site's.
fn table(path: &str) -> String {
    let mut names: Vec<&str> = path.split('.').filter(|name| !name.is_empty()).collect();
    if names.first() == Some(&"map") {
        return "map".to_owned();
    }
    if matches!(names.first(), Some(&("site" | UNKNOWN))) {
        while names.len() > 2 && matches!(names[1], "site" | "route" | "when") {
            names.remove(1);
        }
        if names.len() > 1 && matches!(names[1], "matcher" | "match") {
            return format!("{}.match", names[0]);
        }
    }
    names.join(".")
}

enum Token {
    /// A path, and the length of the header.
    Header(String, usize),
    /// A path, and the length up to the equals sign.
    Key(String, usize),
    /// A text or a comment, by its length.
    Skipped(usize),
    Other(char),
}

impl Token {
    fn read(text: &str, begins_line: bool) -> Token {
        if begins_line
            && text.starts_with('[')
            && let Some(line) = text.lines().next()
            && let Some(end) = line.rfind(']')
            && line[1..end].trim_matches(['[', ']']).chars().all(is_path)
        {
            let path = line[1..end].trim_matches(['[', ']']);
            return Token::Header(path.replace('"', ""), end + 1);
        }
        if let Some((path, length)) = key(text) {
            return Token::Key(path.to_owned(), length);
        }
        match text.chars().next() {
            Some('#') => Token::Skipped(text.find('\n').unwrap_or(text.len())),
            Some('"' | '\'') => Token::Skipped(quoted(text)),
            Some(first) if is_word(first) => {
                Token::Skipped(text.find(|c| !is_word(c)).unwrap_or(text.len()))
            }
            Some(other) => Token::Other(other),
            None => Token::Skipped(0),
        }
    }

    fn length(&self) -> usize {
        match self {
            Token::Header(_, length) | Token::Key(_, length) | Token::Skipped(length) => *length,
            Token::Other(other) => other.len_utf8(),
        }
    }
}

/// `name =`, `"name" =`, or `one.other =` at the beginning of a text: the path, and the length.
fn key(text: &str) -> Option<(&str, usize)> {
    let mut at = 0;
    loop {
        at += match text[at..].chars().next()? {
            '"' | '\'' => quoted(&text[at..]),
            first if is_word(first) => text[at..].find(|c| !is_word(c))?,
            _ => return None,
        };
        let spaces = text[at..].find(|c| c != ' ')?;
        let behind = &text[at + spaces..];
        if behind.starts_with('=') && !behind.starts_with("==") {
            return Some((&text[..at], at + spaces + 1));
        }
        if !behind.starts_with('.') {
            return None;
        }
        at += spaces + 1;
    }
}

/// Length of a text in quotes, which may be three on either side.
fn quoted(text: &str) -> usize {
    let quote = &text[..1];
    let long = quote.repeat(3);
    let (mark, has_escapes) = match text.starts_with(&long) {
        true => (long.as_str(), false),
        false => (quote, quote == "\""),
    };
    let mut at = mark.len();
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with(mark) {
            return at + mark.len();
        }
        let first = rest.chars().next().map_or(1, char::len_utf8);
        at += match rest.strip_prefix('\\').filter(|_| has_escapes) {
            Some(escaped) => 1 + escaped.chars().next().map_or(0, char::len_utf8),
            // A part of a configuration can begin inside a text.
            None if mark.len() == 1 && rest.starts_with('\n') => return at,
            None => first,
        };
    }
    text.len()
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn is_path(c: char) -> bool {
    is_word(c) || matches!(c, '.' | '"' | '$' | '/' | '*')
}

/// The texts of Rust code, without the placeholders of formats.
fn literals(code: &str) -> Vec<String> {
    let texts = scanner::texts(code);
    let plain = texts.filter_map(|text| {
        let inside = text.get(text.find('"')? + 1..text.rfind('"')?)?;
        Some(match text.starts_with('"') {
            true => unescaped(inside),
            false => inside.to_owned(),
        })
    });
    plain.map(|text| without_placeholders(&text)).collect()
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        match (next, rest.peek()) {
            ('\\', Some('\n')) => while rest.next_if(|c| c.is_whitespace()).is_some() {},
            ('\\', Some(escaped)) => {
                plain.push(if *escaped == 'n' { '\n' } else { *escaped });
                rest.next();
            }
            _ => plain.push(next),
        }
    }
    plain
}

/// `{name}` is left out, and `{{` is `{`.
fn without_placeholders(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, behind) = (&rest[..at], &rest[at + 1..]);
        let end = behind.find(|c: char| !is_word(c)).unwrap_or(behind.len());
        plain.push_str(before);
        rest = match behind[end..].strip_prefix('}') {
            Some(after) => after,
            None => {
                plain.push('{');
                behind.strip_prefix('{').unwrap_or(behind)
            }
        };
    }
    plain.push_str(rest);
    plain.replace("}}", "}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(used: &Used, table: &str, name: &str) -> bool {
        used.0.contains(&(table.to_owned(), name.to_owned()))
    }

    #[test]
    fn keys_know_their_tables() {
        let mut used = Used::default();
        used.read(
            "workers = 1\n[server]\nuser = \"x = 1\"\n# old = 2\n[[site.route]]\n\
             cache = { ttl = \"1m\", keys = [\"a\", { b = 1 }] }\nheaders.\"X-A\" = \"b\"\n\
             match = { all = [{ path = '/a = 1' }] }\n[site.cache]\nmax = 1",
            "",
        );
        for (table, name) in [
            ("", "workers"),
            ("", "server"),
            ("server", "user"),
            ("site", "route"),
            ("site.route", "cache"),
            ("site.cache", "ttl"),
            ("site.cache", "max"),
            ("site.headers", "X-A"),
            ("site.match", "path"),
        ] {
            assert!(has(&used, table, name), "{table} {name}: {used:?}");
        }
        for name in ["x", "old", "a"] {
            assert!(used.0.iter().all(|(_, used)| used != name), "{name}");
        }
    }

    #[test]
    fn texts_of_rust() {
        let code = "f(\"a = {b}\\n\\\n   c = \\\"{{d}}\\\"\", r#\"[x]\"#) // \"no\"";
        assert_eq!(literals(code), ["a = \nc = \"{d}\"", "[x]"]);
    }

    #[test]
    fn keys_without_a_test_are_reported() {
        let file = |path: &str, text: &str| File {
            path: path.into(),
            text: text.into(),
        };
        let files = [
            file(
                "crates/server/tests/a.rs",
                "fn t() { start(\"[server]\\nworkers = 1\\n\"); }",
            ),
            file(
                "crates/server/tests/scenarios/b.toml",
                "site = 'cache = { ttl = 1 }'\nglobal = 'user = \"x\"'\nother = 'no = 1'\n",
            ),
            file(
                "crates/config/src/a.rs",
                "fn t() { start(\"[server]\\nno = 1\"); }",
            ),
        ];
        let key = |name, table| KeyUse {
            name,
            tables: vec![table],
        };
        let keys = [
            key("workers", "[server]"),
            key("user", "[server]"),
            key("no", "[server]"),
            key("ttl", "[site.cache]"),
            key("ttl", "[cache]"),
        ];
        let mut findings = Vec::new();
        check(&files, &keys, &mut findings);
        let found: Vec<&str> = findings.iter().map(|finding| &*finding.what).collect();
        assert!(
            found.len() == 2
                && found[0].starts_with("`no` in [server]")
                && found[1].starts_with("`ttl` in [cache]"),
            "{found:?}"
        );
    }
}
