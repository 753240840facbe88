//! The repository checks itself. Every rule looks at every file and says all it finds; what was
//! agreed on is in `tidy-exceptions.txt`, each with a number that may only go down and a reason.

mod exceptions;
mod finding;
mod floors;
mod keys;
mod keys_outside;
mod language;
mod links;
mod locks;
mod modules;
mod rows;
mod rules;
mod scanner;

use exceptions::Exceptions;
use finding::{File, Finding};
use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

const EXCEPTIONS: &str = "tools/xtask/tidy-exceptions.txt";
/// Folders with the project's own text. `third-party` is missing on purpose: it has the code of
/// other projects in their style, with changes that are meant for them.
const FOLDERS: &[&str] = &[
    "crates", "tools", "docs", "fuzz", "tests", "demo", ".ci", ".cargo",
];
/// Folders with generated content.
const MADE: &[&str] = &["target", "corpus", "artifacts", "site"];

/// Path and generator of a page that is generated from tables.
pub type Page = (&'static str, fn() -> String);

/// All findings, in the order of the files.
pub fn check(root: &Path, pages: &[Page]) -> Vec<Finding> {
    let files = files(root);
    let (mut exceptions, mut findings) = Exceptions::parse(EXCEPTIONS, &text(root, EXCEPTIONS));
    let test_files = rules::test_files(&files);
    let mut owed = BTreeMap::new();
    for file in &files {
        if file.path.ends_with(".rs") {
            language::count(file, &mut owed);
            rules::source(
                file,
                test_files.contains(&file.path),
                &mut exceptions,
                &mut findings,
            );
        }
        rules::any_text(file, &mut findings);
        let is_history = file.path == "CHANGELOG.md";
        if file.path.ends_with(".md") && !is_history {
            language::document(file, &mut findings);
        }
        if [".md", ".rs", ".toml", "Makefile"]
            .iter()
            .any(|end| file.path.ends_with(end))
            && !is_history
        {
            language::cited_paths(root, file, &mut findings);
        }
        if file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml") {
            floors::check(file, &mut findings);
        }
    }
    language::judge(&owed, &mut exceptions, &mut findings);
    links::check(root, &files, &mut findings);
    rows::check(&files, &test_files, &mut findings);
    keys::check(
        &files,
        &saker_config::key_uses(),
        &text(root, keys::OUTSIDE),
        &mut findings,
    );
    locks::check(
        &text(root, "Cargo.lock"),
        &text(root, locks::TOOLS),
        &mut findings,
    );
    circles(&files, &test_files, &mut exceptions, &mut findings);
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

/// Files of a crate that import each other in a loop.
fn circles(
    files: &[File],
    test_files: &HashSet<String>,
    exceptions: &mut Exceptions,
    findings: &mut Vec<Finding>,
) {
    let mut crates: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        if let Some((folder, _)) = file.path.split_once("/src/")
            && !test_files.contains(&file.path)
            && !folder.starts_with("fuzz")
        {
            crates.entry(folder).or_default().push(file);
        }
    }
    for (folder, sources) in crates {
        let modules = modules::Modules::new(&format!("{folder}/src"), &sources);
        let circles = modules.circles();
        let actual = circles.iter().map(Vec::len).sum();
        let allowed = exceptions.allowed(exceptions::Kind::Circle, folder, actual, 0);
        if actual > allowed {
            let what = format!("{actual} files in module circles; at most {allowed}: {circles:?}");
            findings.push(Finding::new(folder, 0, what));
        }
    }
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
            // In a linked worktree, `.git` is a file.
            .filter(|path| path.is_file() && !path.ends_with(".git")),
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
