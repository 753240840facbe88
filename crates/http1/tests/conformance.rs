//! Replays `tests/conformance/http1/*.txt` on the protocol machine: each case in one piece, and again cut at every byte.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use std::fmt::Write as _;
use std::path::Path;

mod machine;
use machine::{Outcome, run};

struct Case {
    name: String,
    bytes: Vec<u8>,
    expected: Vec<String>,
}

#[test]
fn every_case_comes_out_as_written() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/http1");
    let mut files: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    let (mut cases, mut failures) = (0, String::new());
    for file in files {
        for case in read_cases(&std::fs::read_to_string(&file).unwrap()) {
            cases += 1;
            check(&case, &mut failures);
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(cases >= 170, "{cases} cases only");
}

fn check(case: &Case, failures: &mut String) {
    let expected: Vec<String> = case.expected.iter().map(|line| without_status(line)).collect();
    for piece in [case.bytes.len(), 1] {
        let outcomes: Vec<String> =
            run(&case.bytes, piece).iter().enumerate().map(|(at, outcome)| shown(outcome, expected.get(at))).collect();
        if outcomes != expected {
            let _ = writeln!(failures, "{} (pieces of {piece}):\n  expected {expected:?}\n  but came {outcomes:?}", case.name);
        }
    }
}

/// The machine does not know what a file server answers to a good request.
fn without_status(line: &str) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    if words[0] == "accept" && words[1].parse::<u16>().is_ok() {
        words.remove(1);
    }
    words.join(" ")
}

/// An outcome in the words of the files. `(any)` is taken from the expectation.
fn shown(outcome: &Outcome, expected: Option<&String>) -> String {
    match outcome {
        Outcome::Accept { method, target, body, trailers, close } => {
            let any = expected.is_some_and(|line| line.contains(" (any) "));
            let target = if any { "(any)".to_owned() } else { escaped(target) };
            let mut line = format!("accept {} {target} body={}", escaped(method), body.len());
            if *trailers > 0 {
                let _ = write!(line, " trailers={trailers}");
            }
            line + if *close { " close" } else { "" }
        }
        Outcome::Reject(reject) => format!("reject {} {:?}", reject.status.0, reject.reason),
        Outcome::RejectBody(reject) => format!("reject-body {} {:?}", reject.status.0, reject.reason),
        Outcome::Wait => "wait".to_owned(),
    }
}

fn escaped(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte).to_string() } else { format!("\\x{byte:02x}") }).collect()
}

fn read_cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (key, value) = line.split_once(": ").unwrap_or_else(|| panic!("no key in {line:?}"));
        if key == "case" {
            assert!(cases.iter().all(|case| case.name != value), "{value} twice");
            cases.push(Case { name: value.to_owned(), bytes: Vec::new(), expected: Vec::new() });
            continue;
        }
        let case = cases.last_mut().unwrap_or_else(|| panic!("{line:?} before the first case"));
        match key.split_once('*') {
            Some(("send", times)) => case.bytes.extend(unescaped(value).repeat(times.parse().unwrap())),
            None if key == "send" => case.bytes.extend(unescaped(value)),
            None if key == "expect" => case.expected.push(value.to_owned()),
            None if key == "why" => {}
            _ => panic!("unknown key in {line:?}"),
        }
    }
    assert!(cases.iter().all(|case| !case.bytes.is_empty() && !case.expected.is_empty()));
    cases
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next() {
                Some(b'r') => b'\r',
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b'0') => 0,
                Some(b'\\') => b'\\',
                Some(b'x') => {
                    let digits: Vec<u8> = rest.by_ref().take(2).collect();
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                other => panic!("unknown escape {other:?} in {text:?}"),
            },
            plain => plain,
        });
    }
    bytes
}
