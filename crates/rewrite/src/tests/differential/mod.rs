//! The real apache2 and our rules give the same answers, row by row.
//!
//! `rows.txt` has rule sets and requests; `golden.txt` what apache2 answers. One test compares ours
//! with the golden answers, the other, the golden answers with what it says now
//! (`REWRITE_GOLDEN=write` writes them anew). The rest of a server (mapping, directory walk, index
//! files) is played by `server.rs`, as plainly as it can be.

mod apache;
mod context;
mod rows;
mod server;

use rows::Set;
use std::{env, fs, path::PathBuf};

/// Sets with rules that go round ten thousand times, and those with hundreds of lines for each
/// request.
const TRACED_NOT: &[&str] = &["server: flow", "server: expressions"];

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("src/tests/differential")
        .join(name)
}

fn sets() -> Vec<Set> {
    rows::parse(&fs::read_to_string(file("rows.txt")).expect("rows"))
}

/// One line per request: the set, the request, the answer.
fn lines(
    sets: &[Set],
    mut answer: impl FnMut(usize, &Set, &rows::Request) -> String,
) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, set) in sets.iter().enumerate() {
        for request in &set.requests {
            lines.push(format!(
                "{} | {} => {}",
                set.name,
                request.line,
                answer(number, set, request)
            ));
        }
    }
    lines
}

fn compare(what: &str, found: &[String], golden: &str) {
    let golden: Vec<&str> = golden.lines().collect();
    let different: Vec<String> = found
        .iter()
        .enumerate()
        .filter(|(at, line)| golden.get(*at) != Some(&line.as_str()))
        .map(|(at, line)| {
            format!(
                "{what}: {line}\ngolden: {}\n",
                golden.get(at).unwrap_or(&"(none)")
            )
        })
        .collect();
    assert!(
        different.is_empty(),
        "{} of {} differ\n{}",
        different.len(),
        found.len(),
        different.join("\n")
    );
    assert_eq!(found.len(), golden.len());
}

#[test]
fn ours_are_the_answers_of_apache() {
    let sets = sets();
    let site = server::Site::new("rewrite-ours", &sets);
    let found = lines(&sets, |number, _, request| site.answer(number, request));
    assert!(found.len() >= 150, "{} rows", found.len());
    compare(
        "ours",
        &found,
        &fs::read_to_string(file("golden.txt")).unwrap_or_default(),
    );
}

/// `LogLevel rewrite:trace8` says the same, line by line.
#[test]
fn traces_are_those_of_apache() {
    saker_testkit::require("apache2").unwrap();
    let sets = sets();
    let (apache, site) = (
        apache::Apache::start(&sets, "error rewrite:trace8"),
        server::Site::new("rewrite-traces", &sets),
    );
    let (mut compared, mut different) = (0, Vec::new());
    for (number, set) in sets
        .iter()
        .enumerate()
        .filter(|(_, set)| !TRACED_NOT.contains(&set.name.as_str()))
    {
        // Logs escape what is not printable.
        for request in set
            .requests
            .iter()
            .filter(|request| !request.target.contains("%0a") && !request.target.contains("%c3"))
        {
            let (theirs, ours) = (apache.trace(number, request), site.trace(number, request));
            compared += ours.len();
            if ours != theirs {
                let at = ours
                    .iter()
                    .zip(&theirs)
                    .take_while(|(ours, theirs)| ours == theirs)
                    .count();
                let show =
                    |lines: &[String]| lines.get(at).cloned().unwrap_or_else(|| "(end)".to_owned());
                different.push(format!(
                    "{} | {}\n  ours   {}\n  apache {}",
                    set.name,
                    request.line,
                    show(&ours),
                    show(&theirs)
                ));
            }
        }
    }
    assert!(
        different.is_empty(),
        "{} differ\n{}",
        different.len(),
        different.join("\n")
    );
    assert!(compared > 2000, "{compared} lines");
}

#[test]
fn golden_answers_are_those_of_apache() {
    saker_testkit::require("apache2").unwrap();
    let sets = sets();
    let apache = apache::Apache::start(&sets, "error");
    let found = lines(&sets, |number, _, request| apache.answer(number, request));
    if env::var("REWRITE_GOLDEN").is_ok_and(|value| value == "write") {
        fs::write(file("golden.txt"), found.join("\n") + "\n").expect("written");
    }
    compare(
        "apache",
        &found,
        &fs::read_to_string(file("golden.txt")).unwrap_or_default(),
    );
}
