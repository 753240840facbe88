//! Keys of `saker.toml` that lack a proof: a scenario that uses them, an error and a hint in a golden
//! file, an example in the reference.
//!
//! Called by: the tidy task.
//! Caveat: the text of configurations is looked at, not what a server reads: `top`, `global`,
//! `site`, and `[files]` of scenarios, and texts of Rust tests for keys of the table [`OUTSIDE`]. A table
//! whose name is not in the same text counts by its last name.
//! Out of scope: the effect of a key, which its scenario or test shows.

use super::{
    finding::{File, Finding},
    keys_outside::{self, Outside},
    scanner,
};
use saker_config::KeyUse;
use std::collections::{HashMap, HashSet};

const TESTS: &str = "crates/server/tests/";
const SCENARIOS: &str = "crates/server/tests/scenarios/";
const GOLDEN: &str = "tests/config/";
/// Keys with a Rust test instead of a scenario.
pub const OUTSIDE: &str = "tools/xtask/keys-outside.txt";
/// Table of texts that begin in the middle of a configuration.
const UNKNOWN: &str = "?";

/// Reports keys without a scenario, a golden file, or an example.
pub fn check(files: &[File], keys: &[KeyUse], outside: &str, findings: &mut Vec<Finding>) {
    by_scenarios(files, keys, &keys_outside::parse(outside), findings);
    by_golden_files(files, keys, findings);
    for key in keys.iter().filter(|key| !key.has_example) {
        let what = format!("{}: neither an example nor a default", shown(key));
        findings.push(Finding::new("crates/config/src/directives", 0, what));
    }
}

fn shown(key: &KeyUse) -> String {
    format!("`{}` in {}", key.name, key.tables.join(", "))
}

/// Every key is used by a scenario, or named with the Rust test that proves it.
fn by_scenarios(
    files: &[File],
    keys: &[KeyUse],
    outside: &[Outside<'_>],
    findings: &mut Vec<Finding>,
) {
    let mut used = Used::default();
    let is_scenario =
        |file: &&File| file.path.starts_with(SCENARIOS) && file.path.ends_with(".toml");
    for file in files.iter().filter(is_scenario) {
        let scenario = file.text.parse::<toml::Table>().unwrap_or_default();
        for (name, table) in [("top", ""), ("site", "site"), ("global", "server")] {
            let text = scenario.get(name).and_then(|value| value.as_str());
            used.read(text.unwrap_or_default(), table);
        }
        let written = scenario.get("files").and_then(|value| value.as_table());
        for (path, text) in written.into_iter().flatten() {
            if path.ends_with(".toml") {
                used.read(text.as_str().unwrap_or_default(), "");
            }
        }
    }
    let mut tests: HashMap<&str, Used> = HashMap::new();
    for key in keys {
        let rows: Vec<&Outside<'_>> = outside.iter().filter(|row| row.names(key)).collect();
        if used.has(key) {
            if !rows.is_empty() {
                let what = format!("{}: a scenario uses it; remove it here", shown(key));
                findings.push(Finding::new(OUTSIDE, 0, what));
            }
            continue;
        }
        if rows.is_empty() {
            let what = format!("{}: no scenario uses this key", shown(key));
            findings.push(Finding::new(SCENARIOS.trim_end_matches('/'), 0, what));
        }
        for row in rows {
            let (path, function) = row.test.split_once("::").unwrap_or((row.test, ""));
            let path = format!("{TESTS}{path}");
            let file = files.iter().find(|file| file.path == path);
            let Some(file) = file.filter(|file| file.text.contains(&format!("fn {function}()")))
            else {
                let what = format!("{}: there is no test {}", shown(key), row.test);
                findings.push(Finding::new(OUTSIDE, 0, what));
                continue;
            };
            let used = tests
                .entry(row.test)
                .or_insert_with(|| of_rust(files, file));
            if !used.has(key) {
                let what = format!("{}: {} does not use it", shown(key), path);
                findings.push(Finding::new(OUTSIDE, 0, what));
            }
        }
    }
    for row in outside {
        for name in row.keys.split(' ') {
            let is_key = |key: &KeyUse| key.name == name && key.tables.contains(&row.table);
            if !keys.iter().any(is_key) {
                let what = format!("`{name}` in {}: there is no such key", row.table);
                findings.push(Finding::new(OUTSIDE, 0, what));
            }
        }
    }
}

/// Keys in a test's file, in what is beside it in a folder of its own, and in the harness.
fn of_rust(files: &[File], file: &File) -> Used {
    let mut used = Used::default();
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_own = folder.matches('/').count() > TESTS.matches('/').count();
    let is_read = |other: &&File| {
        other.path == file.path
            || other.path.starts_with("crates/server/tests/harness/") && other.path.ends_with(".rs")
            || is_own && other.path.starts_with(folder) && other.path.ends_with(".rs")
    };
    for text in files
        .iter()
        .filter(is_read)
        .flat_map(|file| literals(&file.text))
    {
        used.read(&text, UNKNOWN);
    }
    used
}

/// Every key has a wrong value and a misspelling in a golden file.
fn by_golden_files(files: &[File], keys: &[KeyUse], findings: &mut Vec<Finding>) {
    let texts: HashMap<&str, &str> = files
        .iter()
        .filter(|file| file.path.starts_with(GOLDEN))
        .map(|file| (file.path.as_str(), file.text.as_str()))
        .collect();
    let (mut refused, mut hinted) = (Used::default(), HashSet::new());
    for (path, text) in &texts {
        let Some(stem) = path.strip_suffix(".toml") else {
            continue;
        };
        let Some(expected) = texts.get(format!("{stem}.expected").as_str()) else {
            continue;
        };
        let mut read = Used::default();
        read.read(text, "");
        for (line, column) in places(expected) {
            if let Some((table, name)) = read.at(offset(text, line, column)) {
                refused.0.insert((table.clone(), name.clone()));
            }
        }
        hinted.extend(hints(expected));
    }
    for key in keys {
        if !refused.has(key) {
            let what = format!("{}: no golden file has an error of its value", shown(key));
            findings.push(Finding::new(GOLDEN.trim_end_matches('/'), 0, what));
        }
        let is_hinted = |table: &&str| hinted.contains(&(*table, key.name));
        if !key.tables.iter().any(is_hinted) {
            let what = format!("{}: no golden file has its misspelling", shown(key));
            findings.push(Finding::new(GOLDEN.trim_end_matches('/'), 0, what));
        }
    }
}

/// Line and column of each `FILE:LINE:COLUMN: error: ...` that is not about the name of a key.
fn places(expected: &str) -> impl Iterator<Item = (usize, usize)> {
    expected.lines().filter_map(|line| {
        let (place, message) = line.split_once(": error: ")?;
        let mut parts = place.rsplit(':');
        let column = parts.next()?.parse().ok()?;
        let line = parts.next()?.parse().ok()?;
        (!message.starts_with("unknown key")).then_some((line, column))
    })
}

/// Offset of a line and a column, from 1, in a text.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text
        .split_inclusive('\n')
        .take(line - 1)
        .map(str::len)
        .sum();
    let rest = text.get(before..).unwrap_or_default();
    before
        + rest
            .chars()
            .take(column - 1)
            .map(char::len_utf8)
            .sum::<usize>()
}

/// Tables and keys of `unknown key "x" in TABLE` with `help: did you mean `KEY`?` below.
fn hints(expected: &str) -> impl Iterator<Item = (&str, &str)> {
    expected
        .split("error: unknown key ")
        .skip(1)
        .filter_map(|rest| {
            let first = rest.lines().next()?;
            let table = first
                .split_once("\" in ")
                .or_else(|| first.split_once("\" at "))?
                .1;
            let help = rest.split_once("help: did you mean `")?.1;
            Some((table, help.split('`').next()?))
        })
}

/// Pairs of a table and a key in it, and where a text has them.
#[derive(Debug, Default)]
struct Used(HashSet<(String, String)>, Vec<(usize, (String, String))>);

impl Used {
    fn has(&self, key: &KeyUse) -> bool {
        let in_table = |header: &&str| {
            let table = table(header.trim_matches(['[', ']']));
            self.0.iter().any(|(found, name)| {
                name == key.name
                    && match found.strip_prefix("?.") {
                        // A value in a list or in a table: its header is an example.
                        _ if header.starts_with('{') => {
                            found == UNKNOWN || found.split('.').any(|part| is_around(header, part))
                        }
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
            let at = text.len() - rest.len();
            rest = &rest[token.length()..];
            match token {
                Token::Header(header, _) => {
                    self.add_path(&header, at);
                    (outer, next) = (self::table(&header), None);
                    open.clear();
                }
                Token::Key(path, _) => {
                    let mut inside: String = open.last().unwrap_or(&outer).clone();
                    for name in path
                        .split('.')
                        .map(|name| name.trim().trim_matches(['"', '\'']))
                    {
                        self.add((inside.clone(), name.to_owned()), at);
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
    fn add_path(&mut self, header: &str, position: usize) {
        let names: Vec<&str> = header.split('.').collect();
        for (at, name) in names.iter().enumerate() {
            let around = self::table(&names[..at].join("."));
            self.add((around, (*name).to_owned()), position);
        }
    }

    fn add(&mut self, key: (String, String), at: usize) {
        self.1.push((at, key.clone()));
        self.0.insert(key);
    }

    /// The last key that begins at a position or before it.
    fn at(&self, position: usize) -> Option<&(String, String)> {
        let before = self.1.iter().rev().find(|(at, _)| *at <= position);
        before.map(|(_, key)| key)
    }
}

/// Keys whose values are tables of this kind.
fn is_around(header: &str, key: &str) -> bool {
    match header.split(' ').nth(1) {
        Some("address") => key == "servers",
        Some("path") => key == "access_log",
        Some("url") => key == "directory",
        Some("to") => key == "mirror",
        Some("size") => key == "rotate",
        Some("rate") if header.contains("MB/s") => {
            key.starts_with("out_") || key.starts_with("in_")
        }
        Some("rate") => key.starts_with("requests_"),
        Some("set") if header.contains("upstream_headers") => key == "upstream_headers",
        Some("set") => matches!(key, "headers" | "response_headers"),
        _ => false,
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

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.into(),
            text: text.into(),
        }
    }

    fn key(name: &'static str, table: &'static str) -> KeyUse {
        KeyUse {
            name,
            tables: vec![table],
            has_example: true,
        }
    }

    fn found(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|finding| &*finding.what).collect()
    }

    #[test]
    fn keys_without_a_scenario_are_reported() {
        let files = [
            file(
                "crates/server/tests/serving/a.rs",
                "fn t() { start(\"[server]\\nworkers = 1\\n\"); }",
            ),
            file(
                "crates/server/tests/scenarios/b.toml",
                "top = 'include = []'\nsite = 'cache = { ttl = 1 }'\nglobal = 'user = \"x\"'\n\
                 other = 'no = 1'\n[files]\n\"a.toml\" = \"[[site]]\\nroot = 1\"\n",
            ),
        ];
        let keys = [
            key("include", "the top of the file"),
            key("workers", "[server]"),
            key("user", "[server]"),
            key("watch", "[server]"),
            key("no", "[server]"),
            key("root", "[[site]]"),
            key("ttl", "[site.cache]"),
            key("ttl", "[cache]"),
        ];
        let outside = |table, keys, test| Outside { table, keys, test };
        let outside = [
            outside("[server]", "workers", "serving/a.rs::t"),
            outside("[server]", "user gone", "serving/a.rs::t"),
            outside("[server]", "watch", "serving/a.rs::t"),
        ];
        let mut findings = Vec::new();
        by_scenarios(&files, &keys, &outside, &mut findings);
        let found = found(&findings);
        let begins = [
            "`user` in [server]: a scenario uses it",
            "`watch` in [server]: crates/server/tests/serving/a.rs does not use it",
            "`no` in [server]: no scenario",
            "`ttl` in [cache]: no scenario",
            "`gone` in [server]: there is no such key",
        ];
        assert_eq!(found.len(), begins.len(), "{found:?}");
        assert!(
            begins
                .iter()
                .zip(&found)
                .all(|(begin, what)| what.starts_with(begin)),
            "{found:?}"
        );
    }

    #[test]
    fn keys_without_golden_errors_are_reported() {
        let files = [
            file(
                "tests/config/keys/a.toml",
                "[server]\nworkers = 0\nusr = 1\n[[site]]\nroot = 5\n[site.cache]\nttl = [\n  1]\n",
            ),
            file(
                "tests/config/keys/a.expected",
                "a.toml:2:11: error: `workers` must be 1\n\n\
                 a.toml:3:1: error: unknown key \"usr\" in [server]\nhelp: did you mean `user`?\n\n\
                 a.toml:8:3: error: an element of `ttl` must be 1\n",
            ),
        ];
        let keys = [
            key("workers", "[server]"),
            key("user", "[server]"),
            key("ttl", "[site.cache]"),
        ];
        let mut findings = Vec::new();
        by_golden_files(&files, &keys, &mut findings);
        assert_eq!(
            found(&findings),
            [
                "`workers` in [server]: no golden file has its misspelling",
                "`user` in [server]: no golden file has an error of its value",
                "`ttl` in [site.cache]: no golden file has its misspelling",
            ]
        );
    }
}
