//! Comparison of a response with what a scenario expects.
//!
//! Called by: the runner of scenarios. Caveat: what reaches the upstream or a file after the
//! response is polled for. Out of scope: the format, which `file` reads.

use super::{client::Answer, file::Request, origin::Origin};
use saker_testkit::poll;
use std::{collections::BTreeMap, fs, io::Read, path::Path, time::Duration};

/// `{NAME}` in a text is replaced by what an earlier answer said.
pub fn replaced(text: &str, names: &BTreeMap<String, String>) -> String {
    names.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{name}}}"), value)
    })
}

/// Unmet expectations of a request. What reaches others after the response is waited for.
pub fn differences(
    request: &Request,
    answer: &Answer,
    names: &BTreeMap<String, String>,
    origin: &Origin,
    (dir, patience): (&Path, Duration),
) -> Vec<String> {
    let expected = &request.expected;
    let mut found = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds {
            found.push(what);
        }
    };
    must(
        answer.status == expected.status,
        format!("status {}", expected.status),
    );
    for (name, value) in &expected.has {
        let value = replaced(value, names);
        let holds = match value.as_str() {
            "*" => answer.field(name).is_some(),
            value if value.len() > 2 && value.starts_with('*') && value.ends_with('*') => answer
                .field(name)
                .is_some_and(|got| got.contains(value.trim_matches('*'))),
            value => answer.field(name) == Some(value),
        };
        must(holds, format!("{name}: {value}"));
    }
    for name in &expected.lacks {
        must(answer.field(name).is_none(), format!("no {name}"));
    }
    let text = String::from_utf8_lossy(&answer.body);
    if let Some(body) = &expected.body {
        must(text == *body, format!("body {body:?}"));
    }
    for part in &expected.contains {
        must(text.contains(part), format!("{part:?} in the body"));
    }
    if let Some(length) = expected.length {
        must(answer.body.len() == length, format!("{length} bytes"));
    }
    if let Some(decoded) = &expected.decoded {
        let got = decode(answer);
        must(
            got.as_deref() == Some(decoded),
            format!("decoded, {decoded:?}; got {got:?}"),
        );
    }
    found.extend(behind(request, origin, (dir, patience)));
    found
}

/// Unmet expectations of the upstream and of files.
fn behind(request: &Request, origin: &Origin, (dir, patience): (&Path, Duration)) -> Vec<String> {
    let expected = &request.expected;
    let mut found = Vec::new();
    let happens = |holds: &dyn Fn() -> bool| poll(patience, || holds().then_some(())).is_some();
    if let Some(times) = expected.asked
        && !happens(&|| origin.asked(&request.target) >= times)
    {
        found.push(format!("the server behind asked {times} times"));
    }
    let asked = origin.asked(&request.target);
    if expected.asked.is_some_and(|times| asked > times) {
        found.push(format!("the server behind is asked {asked} times"));
    }
    for line in &expected.received {
        if !happens(&|| origin.has_received(line)) {
            found.push(format!("{line:?} at the server behind"));
        }
    }
    let has = |(file, text): &(String, String)| {
        fs::read_to_string(dir.join(file)).is_ok_and(|whole| whole.contains(text.as_str()))
    };
    for line in &expected.logged {
        if !happens(&|| has(line)) {
            found.push(format!("{:?} in {}", line.1, line.0));
        }
    }
    for line in expected.unlogged.iter().filter(|line| has(line)) {
        found.push(format!("no {:?} in {}", line.1, line.0));
    }
    found
}

fn decode(answer: &Answer) -> Option<String> {
    let mut text = String::new();
    match answer.field("content-encoding")? {
        "gzip" => flate2::read::GzDecoder::new(&answer.body[..]).read_to_string(&mut text),
        "br" => brotli::Decompressor::new(&answer.body[..], 4096).read_to_string(&mut text),
        _ => return None,
    }
    .ok()?;
    Some(text)
}
