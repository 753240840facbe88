//! The repository checks itself. Every rule looks at every file and says all it finds; what was
//! agreed on is in `tidy-exceptions.txt`, each with a number that may only go down and a reason.

mod exceptions;
mod floors;
mod rules;
mod scanner;

use exceptions::Exceptions;
use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

const EXCEPTIONS: &str = "tools/xtask/tidy-exceptions.txt";
/// Where the project's own text lives.
const FOLDERS: &[&str] = &[
    "crates", "tools", "docs", "fuzz", "tests", "demo", ".ci", ".cargo",
];
/// What is made, not written.
const MADE: &[&str] = &["target", "corpus", "artifacts", "site"];

/// Something to be put right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub file: String,
    /// From 1; 0 for the file as a whole.
    pub line: usize,
    pub what: String,
}

impl Finding {
    pub fn new(file: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding {
            file: file.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what),
            line => write!(f, "{}:{line}: {}", self.file, self.what),
        }
    }
}

/// A file of the project: its path from the root, and its text.
pub struct File {
    pub path: String,
    pub text: String,
}

/// All findings, in the order of the files.
pub fn check(root: &Path, pages: &[crate::Page]) -> Vec<Finding> {
    let files = files(root);
    let (mut exceptions, mut findings) = Exceptions::parse(EXCEPTIONS, &text(root, EXCEPTIONS));
    let test_files = rules::test_files(&files);
    for file in &files {
        if file.path.ends_with(".rs") {
            rules::source(
                file,
                test_files.contains(&file.path),
                &mut exceptions,
                &mut findings,
            );
        }
        rules::any_text(file, &mut findings);
        if file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml") {
            floors::check(file, &mut findings);
        }
    }
    exceptions.report_unused(EXCEPTIONS, &mut findings);
    for (path, made) in pages {
        if text(root, path) != made() {
            findings.push(Finding::new(
                path,
                0,
                "is not what the directives say: run `make docs`",
            ));
        }
    }
    rules::changelog(
        &text(root, "CHANGELOG.md"),
        &text(root, "Cargo.toml"),
        &mut findings,
    );
    findings.sort();
    findings
}

fn files(root: &Path) -> Vec<File> {
    let mut paths = Vec::new();
    for folder in FOLDERS {
        walk(&root.join(folder), &mut paths);
    }
    paths.extend(
        fs::read_dir(root)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_file()),
    );
    paths.sort();
    paths
        .into_iter()
        .filter_map(|path| read(root, &path))
        .collect()
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let made = entry
            .file_name()
            .to_str()
            .is_some_and(|name| MADE.contains(&name));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && !made => walk(&path, paths),
            Ok(kind) if kind.is_file() => paths.push(path),
            _ => {}
        }
    }
}

/// `None` for what is not text.
fn read(root: &Path, path: &Path) -> Option<File> {
    let name = path.strip_prefix(root).ok()?.to_str()?.to_owned();
    Some(File {
        path: name,
        text: fs::read_to_string(path).ok()?,
    })
}

fn text(root: &Path, name: &str) -> String {
    fs::read_to_string(root.join(name)).unwrap_or_default()
}
