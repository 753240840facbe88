//! Layouts, and files of the repository, which keep their values and comments.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use std::{fs, path::Path};

fn formatted(text: &str) -> String {
    let once = format(text, "saker.toml").unwrap_or_else(|error| panic!("{error}"));
    let twice = format(&once, "saker.toml").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(once, twice, "not stable");
    once
}

#[test]
fn layouts() {
    for (before, after) in [
        ("a=1", "a = 1\n"),
        ("  a . b =  1.5 # x\r\n", "a.b = 1.5      # x\n"),
        (
            "[ server ]\nworkers=2\n\n\n\nuser='x'",
            "[server]\nworkers = 2\n\nuser = 'x'\n",
        ),
        (
            "a=1\n[b]\nc=1\n# of d\n[[d]]\n",
            "a = 1\n\n[b]\nc = 1\n\n# of d\n[[d]]\n",
        ),
        ("# top\n\n[a]\n", "# top\n\n[a]\n"),
        ("# one\n# two\n[a]\n", "# one\n# two\n[a]\n"),
        ("a=[1,2 , 3,]\n", "a = [1, 2, 3]\n"),
        ("a=[]\nb={}\nc=[ ]", "a = []\nb = {}\nc = []\n"),
        ("a={b=1,c=[1]}", "a = { b = 1, c = [1] }\n"),
        (
            "a=[ # first\n1, # one\n\n\n# alone\n2]",
            "a = [\n    # first\n    1, # one\n\n    # alone\n    2,\n]\n",
        ),
        (
            "a=[\n{b=1},\n[1,\n2]]",
            "a = [\n    { b = 1 },\n    [\n        1,\n        2,\n    ],\n]\n",
        ),
        ("d = 1979-05-27 07:32:00Z", "d = 1979-05-27 07:32:00Z\n"),
        (
            "a = \"\"\"x\n  y # no comment\n\"\"\" # but this",
            "a = \"\"\"x\n  y # no comment\n\"\"\" # but this\n",
        ),
        ("a = '#'#x", "a = '#' #x\n"),
        ("\u{feff}a = 1", "a = 1\n"),
        ("", ""),
    ] {
        assert_eq!(formatted(before), after, "{before:?}");
    }
}

#[test]
fn aligned_comments_stay_aligned() {
    let text = "a = 1      # one\nbcd = 22   # two\n";
    assert_eq!(formatted(text), text);
}

#[test]
fn long_lists_are_broken_at_the_hundredth_column() {
    let list = |length: usize| format!("a = [\"{}\", \"b\"]\n", "x".repeat(length));
    let fits = list(100 - list(0).len() + 1);
    assert_eq!((fits.trim_end().len(), formatted(&fits)), (100, fits));
    let long = list(100 - list(0).len() + 2);
    assert_eq!(formatted(&long).lines().count(), 4, "{long}");
}

#[test]
fn syntax_errors_are_reported() {
    let error = format("a = \n[b\nc = 1", "x.toml").unwrap_err().to_string();
    assert!(
        error.contains("x.toml:1:") && error.contains("x.toml:2:"),
        "{error}"
    );
}

#[test]
fn files_of_the_repository() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut count = 0;
    for folder in [
        "docs",
        "tests/config",
        "crates/server/tests/scenarios",
        "crates/config/src/presets",
    ] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            if toml::from_str::<toml::Table>(&text).is_err() {
                assert!(format(&text, "x").is_err(), "{}", path.display());
                continue;
            }
            formatted(&text);
            count += 1;
        }
    }
    assert!(count >= 100, "{count} files");
    let example = fs::read_to_string(root.join("docs/saker.example.toml")).unwrap();
    assert_eq!(formatted(&example), example);
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_kept_or_refused(text in "[a-c\\[\\]{}=,.#'\" \n\t1-]{0,40}") {
            if let Ok(once) = format(&text, "x") {
                prop_assert_eq!(format(&once, "x").unwrap(), once);
            } else {
                let is_valid = toml::from_str::<toml::Table>(&text).is_ok();
                prop_assert!(!is_valid, "{:?}", text);
            }
        }
    }
}
