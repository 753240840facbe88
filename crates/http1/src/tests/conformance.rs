//! Replays `tests/conformance/http1/*.txt` on the protocol machine: each case in one piece, and
//! again cut at every byte.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use saker_testkit::conformance::{Case, http1_cases};
use std::fmt::Write as _;

use super::machine::{Outcome, run};

#[test]
fn every_case_comes_out_as_written() {
    let cases = http1_cases().unwrap();
    let mut failures = String::new();
    cases.iter().for_each(|case| check(case, &mut failures));
    assert!(failures.is_empty(), "{failures}");
    assert!(cases.len() >= 170, "{} cases only", cases.len());
}

fn check(case: &Case, failures: &mut String) {
    let expected: Vec<String> = case
        .expected
        .iter()
        .map(|line| without_status(line))
        .collect();
    for piece in [case.bytes.len(), 1] {
        let outcomes: Vec<String> = run(&case.bytes, piece)
            .iter()
            .enumerate()
            .map(|(at, outcome)| shown(outcome, expected.get(at)))
            .collect();
        if outcomes != expected {
            let _ = writeln!(
                failures,
                "{} (pieces of {piece}):\n  expected {expected:?}\n  but came {outcomes:?}",
                case.name
            );
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
        Outcome::Accept {
            method,
            target,
            body,
            trailers,
            close,
        } => {
            let any = expected.is_some_and(|line| line.contains(" (any) "));
            let target = if any {
                "(any)".to_owned()
            } else {
                escaped(target)
            };
            let mut line = format!("accept {} {target} body={}", escaped(method), body.len());
            if *trailers > 0 {
                let _ = write!(line, " trailers={trailers}");
            }
            line + if *close { " close" } else { "" }
        }
        Outcome::Reject(reject) => format!("reject {} {:?}", reject.status.0, reject.reason),
        Outcome::RejectBody(reject) => {
            format!("reject-body {} {:?}", reject.status.0, reject.reason)
        }
        Outcome::Wait => "wait".to_owned(),
    }
}

fn escaped(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| {
            if byte.is_ascii_graphic() {
                char::from(*byte).to_string()
            } else {
                format!("\\x{byte:02x}")
            }
        })
        .collect()
}
