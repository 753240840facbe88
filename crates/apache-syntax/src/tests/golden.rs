//! Golden files: `tests/config/apache/NAME.conf` and `NAME.htaccess` are read, and the tree and the
//! diagnostics are as in `NAME.expected` beside them.
//!
//! The first line of an `.htaccess` file says what `AllowOverride` leaves it. Notes are shown for
//! `notes.conf` only: they say how far the translation is. `UPDATE_GOLDEN=1` rewrites the
//! expectations; read the difference before it is kept.

#![allow(clippy::unwrap_used, clippy::panic)]

use saker_ap_expr::words::words;
use saker_apache_syntax::{Environment, OnDisk, Permission, Setup, Tree, load, parse_htaccess};
use saker_config::{Diagnostic, Severity};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn folder() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/config/apache"))
        .unwrap()
}

fn files(extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|file| file.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

/// Files that do not match their expectation.
fn differences(extension: &str, rendered: impl Fn(&Path) -> String) -> Vec<String> {
    let mut different = Vec::new();
    for file in files(extension) {
        let actual = rendered(&file).replace(&format!("{}/", folder().display()), "");
        let expected = file.with_extension("expected");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&expected, &actual).unwrap();
        }
        if fs::read_to_string(&expected).is_ok_and(|expected| expected == actual) {
            continue;
        }
        different.push(format!("=== {}\n{actual}", file.display()));
    }
    different
}

fn shown<'d>(tree: &Tree, diagnostics: impl Iterator<Item = &'d Diagnostic>) -> String {
    let diagnostics: Vec<String> = diagnostics.map(ToString::to_string).collect();
    format!("{}\n{}", tree.dump(), diagnostics.join("\n"))
}

fn configuration(file: &Path) -> String {
    let mut setup = Setup::new(folder(), file.file_name().unwrap());
    setup.defines.push(b"COMMAND_LINE".to_vec());
    setup
        .environment
        .insert(b"FROM_ENVIRONMENT".to_vec(), b"environment".to_vec());
    let loaded = load(&setup, &OnDisk);
    let with_notes = file.file_stem().is_some_and(|stem| stem == "notes");
    shown(
        &loaded.tree,
        loaded
            .diagnostics
            .iter()
            .filter(|diagnostic| with_notes || diagnostic.severity != Severity::Note),
    )
}

fn permission(text: &str) -> Permission {
    let arguments = text
        .lines()
        .next()
        .unwrap()
        .trim_start_matches("# AllowOverride ");
    let (list, classes): (Vec<Vec<u8>>, Vec<Vec<u8>>) = words(arguments.as_bytes())
        .into_iter()
        .partition(|word| word.starts_with(b"List="));
    let mut permission = Permission::parse(&classes).unwrap();
    let names = list
        .iter()
        .flat_map(|word| word[5..].split(|byte| *byte == b','));
    permission
        .list
        .extend(names.map(|name| String::from_utf8(name.to_ascii_lowercase()).unwrap()));
    permission
}

fn htaccess(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let mut environment = Environment::new("/".into(), Default::default(), |_, _| Ok(false));
    for module in ["env", "rewrite", "headers", "alias", "authz_core", "dir"] {
        environment
            .modules
            .load(format!("{module}_module").as_bytes());
    }
    match parse_htaccess(
        text.as_bytes(),
        &file.display().to_string(),
        &environment,
        &permission(&text),
        &OnDisk,
    ) {
        Ok(htaccess) => shown(
            &htaccess.tree,
            htaccess.warnings.iter().filter(|diagnostic| {
                diagnostic.message.contains("orbidden") || diagnostic.message.contains("nknown")
            }),
        ),
        Err(error) => error.to_string(),
    }
}

#[test]
fn configurations_are_as_expected() {
    let different = differences("conf", configuration);
    assert!(
        different.is_empty(),
        "differs from the .expected file (UPDATE_GOLDEN=1 rewrites):\n{}",
        different.join("\n")
    );
}

#[test]
fn htaccess_files_are_as_expected() {
    let different = differences("htaccess", htaccess);
    assert!(
        different.is_empty(),
        "differs from the .expected file (UPDATE_GOLDEN=1 rewrites):\n{}",
        different.join("\n")
    );
}

#[test]
fn no_expectation_without_its_file() {
    for file in files("expected") {
        assert!(
            file.with_extension("conf").exists() || file.with_extension("htaccess").exists(),
            "{}",
            file.display()
        );
    }
}
