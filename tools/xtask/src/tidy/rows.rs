//! Rows of tables that nothing uses: metrics that are never counted, messages that are never
//! logged.
//!
//! Called by: the tidy task. Caveat: a row counts as used when a file outside the table, and
//! outside tests, names it.

use super::{
    finding::{File, Finding},
    scanner,
};
use std::collections::HashSet;

/// A table: its file, the word after a row's name, and how the rest of the code names a row.
struct Table {
    path: &'static str,
    what: &'static str,
    is_row: fn(&str) -> Option<&str>,
}

const TABLES: &[Table] = &[
    Table {
        path: "crates/telemetry/src/metrics.rs",
        what: "metric is never counted",
        is_row: metric,
    },
    Table {
        path: "crates/telemetry/src/message.rs",
        what: "message is never logged",
        is_row: message,
    },
];

/// Metrics that the table's own code picks by a number.
const PICKED: &[&str] = &[
    "Responses1xx",
    "Responses2xx",
    "Responses3xx",
    "Responses4xx",
    "Responses5xx",
];

pub fn check(files: &[File], test_files: &HashSet<String>, findings: &mut Vec<Finding>) {
    let mut used = HashSet::new();
    let is_code = |file: &&File| {
        file.path.starts_with("crates/")
            && file.path.ends_with(".rs")
            && !test_files.contains(&file.path)
            && TABLES.iter().all(|table| table.path != file.path)
    };
    for file in files.iter().filter(is_code) {
        let code = scanner::code_only(&file.text);
        let in_test = scanner::test_lines(&code);
        let lines = code.lines().enumerate();
        for (_, line) in lines.filter(|(index, _)| !in_test[index + 1]) {
            let words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            used.extend(words.filter(|word| word.len() > 2).map(str::to_owned));
        }
    }
    for table in TABLES {
        let text = files.iter().find(|file| file.path == table.path);
        let lines = text.map(|file| file.text.lines()).into_iter().flatten();
        for (index, line) in lines.enumerate() {
            let row = (table.is_row)(line).filter(|row| !PICKED.contains(row));
            if let Some(row) = row.filter(|row| !used.contains(*row)) {
                let what = format!("`{row}`: this {}", table.what);
                findings.push(Finding::new(table.path, index + 1, what));
            }
        }
    }
}

/// `    Name Counter "…"`.
fn metric(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let name = words.next().filter(|_| line.starts_with("    "))?;
    matches!(words.next(), Some("Counter" | "Gauge")).then_some(name)
}

/// `    NAME "SK0101" …`.
fn message(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let name = words.next().filter(|_| line.starts_with("    "))?;
    words
        .next()
        .is_some_and(|id| id.starts_with("\"SK"))
        .then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.into(),
            text: text.into(),
        }
    }

    #[test]
    fn rows_that_only_tests_and_comments_name_are_found() {
        let files = [
            file(
                "crates/telemetry/src/metrics.rs",
                "    Used Counter \"a\"\n    Dead Gauge \"b\"\n    Responses1xx Counter \"c\"\n",
            ),
            file(
                "crates/telemetry/src/message.rs",
                "    SENT \"SK0101\" \"core\"\n    LOST \"SK0102\" \"core\"\n",
            ),
            file(
                "crates/a/src/lib.rs",
                "fn a() { add(Metric::Used); log(&message::SENT); } // Dead LOST\n\
                 #[cfg(test)]\nmod tests { fn t() { Metric::Dead; LOST } }\n",
            ),
            file("crates/a/tests/all.rs", "fn t() { Metric::Dead; LOST }\n"),
        ];
        let tests = HashSet::from(["crates/a/tests/all.rs".to_owned()]);
        let mut findings = Vec::new();
        check(&files, &tests, &mut findings);
        let lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 2]);
    }
}
