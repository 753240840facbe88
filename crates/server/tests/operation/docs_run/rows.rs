//! Commands that are not run as they are, and what is done instead: `rows.toml`.
//!
//! Called by: the test that runs the commands of the documentation.
//! Caveat: a row that no page needs any more fails the test.

use crate::docs_blocks::Block;
use std::{collections::HashSet, fs, path::Path};

/// Page, words, and what is done about them.
type Row = [String; 3];

pub struct Rows {
    /// Pages whose commands speak to a running server.
    pub running: Vec<String>,
    /// Start of lines that are not run; a reason stands beside it.
    not_run: Vec<Row>,
    /// Words, and what stands in their place.
    instead: Vec<Row>,
}

impl Rows {
    pub fn read(path: &Path) -> Rows {
        let table: toml::Table = toml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
        let rows = |name: &str, keys: [&str; 3]| {
            let rows = table[name].as_array().unwrap().iter();
            rows.map(|row| keys.map(|key| text(&row[key]))).collect()
        };
        Rows {
            running: table["running"]
                .as_array()
                .unwrap()
                .iter()
                .map(text)
                .collect(),
            not_run: rows("not_run", ["page", "start", "reason"]),
            instead: rows("instead", ["page", "words", "by"]),
        }
    }

    pub fn leave_out(&self, block: &Block, line: &str, seen: &mut HashSet<String>) -> bool {
        let mut rows = self.not_run.iter();
        let row = rows.find(|[page, start, _]| *page == block.page && line.starts_with(start));
        seen.extend(row.map(|[_, start, _]| start.clone()));
        row.is_some()
    }

    pub fn fill_in(&self, block: &Block, script: &str, seen: &mut HashSet<String>) -> String {
        let mut script = script.to_owned();
        for [_, words, by] in self.instead.iter().filter(|[page, ..]| *page == block.page) {
            if script.contains(words) {
                seen.insert(words.clone());
                script = script.replacen(words, by, 1);
            }
        }
        script
    }

    pub fn unused(&self, seen: &HashSet<String>) -> Vec<String> {
        let rows = self.not_run.iter().chain(&self.instead);
        rows.filter(|[_, words, _]| !seen.contains(words))
            .map(|[page, words, _]| format!("rows.toml: {page} does not say `{words}`"))
            .collect()
    }
}
