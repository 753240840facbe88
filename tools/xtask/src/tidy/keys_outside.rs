//! The table of keys that no scenario can prove, with the Rust tests that do.
//!
//! Called by: the check of keys. Caveat: a row without all four parts names no key.
//! Out of scope: errors and hints of these keys, which golden files have like those of any other.

use saker_config::KeyUse;

/// Keys of one table with one test.
#[derive(Debug, PartialEq, Eq)]
pub struct Outside<'t> {
    /// Header of the table.
    pub table: &'t str,
    /// Separated by spaces.
    pub keys: &'t str,
    /// File below the server's tests, and function.
    pub test: &'t str,
}

impl Outside<'_> {
    pub fn names(&self, key: &KeyUse) -> bool {
        key.tables.contains(&self.table) && self.keys.split(' ').any(|name| name == key.name)
    }
}

/// Reads `TABLE | KEYS | TEST | REASON` lines.
pub fn parse(text: &str) -> Vec<Outside<'_>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let row = |line| -> Option<Outside<'_>> {
        let parts: Vec<&str> = str::split(line, " | ").map(str::trim).collect();
        let [table, keys, test, reason] = parts[..] else {
            return None;
        };
        (!reason.is_empty()).then_some(Outside { table, keys, test })
    };
    lines.filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_four_parts() {
        let rows =
            parse("# a | b | c | d\n[a] | b c | d.rs::e | why\n[a] | b | d.rs::e | \n[a] | b\n");
        let expected = Outside {
            table: "[a]",
            keys: "b c",
            test: "d.rs::e",
        };
        assert_eq!(rows, [expected]);
    }
}
