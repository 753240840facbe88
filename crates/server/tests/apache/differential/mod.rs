//! Saker against the real apache2: the same configuration, the same files, the same requests; the
//! same answers.
//!
//! What is asked is in `cases/`, a file per topic; what may differ, and why, in `differences.txt`.
//! README.md says how to add to them. `SAKER_TOPIC=redirect` runs the topics whose names contain
//! that word, and `SAKER_CASES=FOLDER` those of another folder, to try something.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

mod backend;
mod case;
mod compare;
mod differences;
mod digest;
mod html;
mod over_h3;
mod pair;
mod tls;
mod xml;

use case::{Case, Topic};
use differences::Differences;
use pair::Pair;
use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Starting is mostly waiting.
const THREADS: usize = 2;

#[test]
fn the_same_answers_as_apache() {
    let _turn = saker_testkit::heavy();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apache/differential");
    let wanted = env::var("SAKER_TOPIC").unwrap_or_default();
    let cases = env::var_os("SAKER_CASES").map_or_else(|| folder.join("cases"), PathBuf::from);
    let topics: Vec<Topic> = topics(&cases)
        .into_iter()
        .filter(|topic| topic.name.contains(&wanted))
        .collect();
    let differences = Differences::read(&folder.join("differences.txt"));
    let (next, complaints) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(topic) = topics.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = run(topic, &differences);
            complaints.lock().unwrap().extend(found);
        }
    };
    thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
    backend::stop();
    let mut complaints = complaints.into_inner().unwrap();
    if wanted.is_empty() && env::var_os("SAKER_CASES").is_none() {
        complaints.extend(differences.stale());
    }
    let cases: usize = topics.iter().map(|topic| topic.cases.len()).sum();
    let requests: usize = topics
        .iter()
        .flat_map(|topic| &topic.cases)
        .map(|case| case.requests.len())
        .sum();
    println!(
        "{} topics, {cases} cases, {requests} requests, {} accepted differences",
        topics.len(),
        differences.count()
    );
    assert!(
        complaints.is_empty(),
        "{} differences:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}

fn topics(folder: &Path) -> Vec<Topic> {
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "case")
        })
        .collect();
    files.sort();
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        Topic::parse(&name, &fs::read_to_string(path).unwrap())
            .unwrap_or_else(|complaint| panic!("{}: {complaint}", path.display()))
    };
    files.iter().map(read).collect()
}

/// All requests of a topic to a pair of servers of its own.
fn run(topic: &Topic, differences: &Differences) -> Vec<String> {
    let pair = match Pair::start(topic) {
        Ok(pair) => pair,
        Err(complaint) => return vec![format!("{}: {complaint}", topic.name)],
    };
    let mut complaints = Vec::new();
    for case in &topic.cases {
        complaints.extend(case.requests.iter().filter_map(|request| {
            let (apache, saker) = (
                pair.ask_apache(case, request),
                pair.ask_saker(case, request),
            );
            let found = compare::compare(&apache, &saker, request, differences);
            let name = name(topic, case, request);
            let mut found: Vec<String> = found
                .into_iter()
                .filter(|difference| !differences.accept(&name, &difference.what))
                .map(|difference| difference.text)
                .collect();
            found.extend(pair.differences_over_h3(&apache, case, request));
            (!found.is_empty()).then(|| format!("{name}\n{}\n", found.join("\n")))
        }));
    }
    if !complaints.is_empty() {
        complaints.push(pair.logs());
    }
    complaints
}

/// As `differences.txt` calls it.
fn name(topic: &Topic, case: &Case, request: &case::Request) -> String {
    format!("{}/{} {}", topic.name, case.name, request.line)
}
