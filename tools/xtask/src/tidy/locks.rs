//! One version per library: the tools' lock file agrees with the server's.
//!
//! Called by: `tidy::check`. Benchmarks measure the server with the libraries that it is built
//! with, and both workspaces share a target directory.
//! Out of scope: libraries that only one of the workspaces uses.

use super::finding::Finding;
use std::collections::{BTreeMap, BTreeSet};

/// Lock file of the workspace of bench, link, and load.
pub const TOOLS: &str = "tools/Cargo.lock";

/// Reports versions of the tools' lock file that the server's does not have, for libraries that
/// both use.
pub fn check(server: &str, tools: &str, findings: &mut Vec<Finding>) {
    let server = versions(server);
    for (name, versions) in versions(tools) {
        let Some(known) = server.get(name) else {
            continue;
        };
        for version in versions.difference(known) {
            let known: Vec<_> = known.iter().copied().collect();
            let what = format!(
                "`{name}` {version}, but Cargo.lock has {}",
                known.join(", ")
            );
            findings.push(Finding::new(TOOLS, 0, what));
        }
    }
}

fn versions(lock: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut name = "";
    for line in lock.lines() {
        let value = line.split('"').nth(1).unwrap_or_default();
        if line.starts_with("name = ") {
            name = value;
        } else if line.starts_with("version = \"") {
            versions.entry(name).or_default().insert(value);
        }
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n\
        [[package]]\nname = \"a\"\nversion = \"2.0.0\"\n";

    #[test]
    fn only_other_versions_of_shared_libraries_are_reported() {
        let mut findings = Vec::new();
        check(
            SERVER,
            &SERVER.replace(
                "name = \"a\"\nversion = \"2.0.0\"",
                "name = \"b\"\nversion = \"9.0.0\"",
            ),
            &mut findings,
        );
        assert_eq!(findings, []);
        check(SERVER, &SERVER.replace("2.0.0", "2.0.1"), &mut findings);
        let [finding] = findings.as_slice() else {
            panic!("{findings:?}");
        };
        assert_eq!(
            finding.to_string(),
            "tools/Cargo.lock: `a` 2.0.1, but Cargo.lock has 1.0.0, 2.0.0"
        );
    }
}
