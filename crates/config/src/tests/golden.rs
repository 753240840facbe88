//! Golden files: each `tests/config/NAME.toml` loads with exactly the diagnostics of
//! `NAME.expected` beside it (an empty file for none), shown as the command line shows them.
//! Folders of `tests/config` hold what the files include. `UPDATE_GOLDEN=1` rewrites the
//! expectations; read the difference before it is kept.

#![allow(clippy::unwrap_used, clippy::panic)]

use saker_config::{format, json_schema, parse, reference_markdown};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn updating() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// Compares the file with the text; writes it when updating.
fn same(file: &Path, actual: &str) -> bool {
    if updating() {
        fs::write(file, actual).unwrap();
    }
    fs::read_to_string(file).is_ok_and(|expected| expected == actual)
}

fn rendered(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    match parse(&text, name, file.parent().unwrap()) {
        Ok(loaded) => loaded
            .warnings
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n"),
        Err(diagnostics) => diagnostics.to_string(),
    }
}

#[test]
fn diagnostics_are_as_expected() {
    // `keys` has one file or a few per group of tables, with the mistakes that each key can have.
    let mut files: Vec<PathBuf> = ["tests/config", "tests/config/keys"]
        .iter()
        .flat_map(|folder| fs::read_dir(root().join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "toml")
    });
    files.sort();
    assert!(files.len() >= 40, "{} golden files", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let actual = rendered(&file);
        if !same(&file.with_extension("expected"), &actual) {
            wrong.push(format!("=== {}\n{actual}", file.display()));
        }
    }
    assert!(
        wrong.is_empty(),
        "differs from the .expected file (UPDATE_GOLDEN=1 rewrites):\n{}",
        wrong.join("\n")
    );
}

/// Files of newcomers' mistakes have ten at least, each with file, line, column, and the text.
#[test]
fn newcomers_of_each_feature_make_ten_mistakes() {
    let mut features = 0;
    for entry in fs::read_dir(root().join("tests/config")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("newcomer_") || path.extension().is_none_or(|ending| ending != "toml")
        {
            continue;
        }
        features += 1;
        let text = fs::read_to_string(path.with_extension("expected")).unwrap();
        let is_placed = |line: &&str| {
            let (place, rest) = line.split_once(": ").unwrap_or_default();
            let is_named = rest.starts_with("error: ") || rest.starts_with("warning: ");
            is_named && place.split(':').count() == 3
        };
        let count = text.lines().filter(is_placed).count();
        assert!(count >= 10, "{name} has {count}");
    }
    assert!(features >= 50, "{features}");
}

#[test]
fn no_expectation_without_its_file() {
    for entry in fs::read_dir(root().join("tests/config")).unwrap() {
        let path = entry.unwrap().path();
        assert!(
            path.extension().is_none_or(|e| e != "expected")
                || path.with_extension("toml").exists(),
            "{}",
            path.display()
        );
    }
}

#[test]
fn generated_pages_are_fresh() {
    assert!(
        same(&root().join("docs/reference.md"), &reference_markdown()),
        "docs/reference.md is stale: UPDATE_GOLDEN=1 rewrites it"
    );
    assert!(json_schema().contains("2020-12"));
}

#[test]
fn the_default_configuration_loads_and_is_formatted() {
    let file = root().join("contrib/saker.toml");
    let text = fs::read_to_string(&file).unwrap();
    let loaded = parse(&text, "saker.toml", file.parent().unwrap())
        .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    assert_eq!(loaded.model.sites.len(), 1);
    assert_eq!(format(&text, "saker.toml").unwrap(), text);
}

#[test]
fn the_example_loads() {
    let file = root().join("docs/saker.example.toml");
    let loaded = parse(
        &fs::read_to_string(&file).unwrap(),
        "saker.example.toml",
        file.parent().unwrap(),
    )
    .unwrap_or_else(|e| panic!("{e}"));
    for warning in &loaded.warnings {
        assert!(warning.message.starts_with("the root "), "{warning}");
    }
    // A stream that ends TLS is a site, too.
    assert_eq!(loaded.model.listeners.len(), 8);
    assert_eq!(loaded.model.sites.len(), 6);
    assert_eq!(loaded.model.streams.len(), 2);
}
