//! Runs every file of `tests/scenarios` over HTTP/1.1, HTTP/2, and HTTP/3.
//!
//! Called by: `cargo test -p saker --test serving scenarios::`; `SAKER_SCENARIO=range` runs the
//! files whose names contain that word. The format is described in `tests/scenarios/README.md`.
//! Caveat: each file gets a fresh server per protocol; over HTTP/3 it is a server with TLS.
//! Out of scope: timing, connections that break, anything that only one protocol has.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

mod client;
mod file;
mod origin;

use crate::{operate, tls_site};
use client::{Answer, Client, Protocol};
use file::{Expectation, Request, Scenario};
use origin::Origin;
use saker_testkit::{
    Saker, TempDir,
    mmdb::{Data, database},
    saker::adjustable_clock,
};
use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    path::{Path, PathBuf},
};

#[test]
fn every_scenario_over_http1() {
    run_all(Protocol::Http1);
}

#[test]
fn every_scenario_over_http2() {
    run_all(Protocol::Http2);
}

#[test]
fn every_scenario_over_http3() {
    run_all(Protocol::Http3);
}

fn run_all(protocol: Protocol) {
    let wanted = std::env::var("SAKER_SCENARIO").unwrap_or_default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .filter(|path| {
            path.file_stem()
                .unwrap()
                .to_string_lossy()
                .contains(&wanted)
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no scenario is named like {wanted:?}");
    let complaints: Vec<String> = files.iter().flat_map(|path| run(path, protocol)).collect();
    assert!(
        complaints.is_empty(),
        "over {protocol:?}:\n{}",
        complaints.join("\n")
    );
}

/// Unmet expectations of a file.
fn run(path: &Path, protocol: Protocol) -> Vec<String> {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let scenario = Scenario::parse(&fs::read_to_string(path).unwrap())
        .unwrap_or_else(|complaint| panic!("{}: {complaint}", path.display()));
    let dir = TempDir::new(&format!("scenario-{name}")).unwrap();
    fs::create_dir(dir.join("www")).unwrap();
    for (path, content) in &scenario.files {
        dir.write(path, content).unwrap();
    }
    if let Some((network, length, country, number)) = &scenario.place {
        let place = Data::Map(&[
            ("country", Data::Map(&[("iso_code", Data::Text(country))])),
            ("autonomous_system_number", Data::Number(*number)),
        ]);
        dir.write("place.mmdb", database(*network, *length, &place))
            .unwrap();
    }
    let origin = Origin::listen(&dir, &scenario.origin);
    if scenario.requests.iter().any(|request| request.later_s > 0) {
        adjustable_clock(&dir).unwrap();
    }
    let saker = start(dir, protocol, &scenario, origin.port);
    let mut client = Client::connect(saker.server.address(), protocol);
    let mut names = BTreeMap::from([(
        "origin".to_owned(),
        match protocol {
            Protocol::Http3 => "https://localhost".to_owned(),
            Protocol::Http1 | Protocol::Http2 => "http://localhost".to_owned(),
        },
    )]);
    let mut complaints = Vec::new();
    for (number, request) in scenario.requests.iter().enumerate() {
        for (path, content) in &request.write {
            saker.dir.write(path, content).unwrap();
        }
        if request.later_s > 0 {
            saker.advance_clock(request.later_s).unwrap();
            wake(&saker);
        }
        let answer = client.ask(&with_names(request, &names));
        let found = differences(
            &request.expected,
            &answer,
            &names,
            origin.asked(&request.target),
        );
        if !found.is_empty() {
            let place = format!(
                "{name}, request {} ({} {})",
                number + 1,
                request.method,
                request.target
            );
            complaints.push(format!("{place}: {}\n  {answer:?}", found.join("; ")));
        }
        for (field, known_as) in &request.keep {
            let value = answer.field(field).unwrap_or_default().to_owned();
            names.insert(known_as.clone(), value);
        }
    }
    complaints
}

fn start(dir: TempDir, protocol: Protocol, scenario: &Scenario, origin_port: u16) -> Saker {
    let upstream = if scenario.origin.is_empty() {
        String::new()
    } else {
        "[[upstream]]\nname = \"app\"\nservers = [\"http+unix:{dir}/origin.sock\"]\n\n".to_owned()
    };
    let origin_url = format!("http://127.0.0.1:{origin_port}");
    let site = format!("{}\n", scenario.site.replace("{origin_url}", &origin_url));
    let global = scenario
        .global
        .replace("{origin_url}", &origin_url)
        .replace(
            "{origin_name}",
            &origin_url.replace("127.0.0.1", "localhost"),
        );
    let configuration = match protocol {
        Protocol::Http1 | Protocol::Http2 => operate::configuration("workers = 1", &site),
        Protocol::Http3 => {
            tls_site::certificate(&dir, "site", "localhost");
            let text = tls_site::configuration("", "");
            text.replace("\n[site.tls]", &format!("{site}\n[site.tls]"))
        }
    };
    let more = format!("{global}\n{upstream}[[listener]]");
    operate::start_in(dir, &configuration.replace("[[listener]]", &more))
}

/// Makes the worker read its clock again, which it does when an event wakes it: the end of a
/// connection that it waits for.
fn wake(saker: &Saker) {
    let mut stream = TcpStream::connect(saker.server.address()).unwrap();
    stream.write_all(b"\r\nNONSENSE\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
}

/// The request, with `{NAME}` replaced by what an earlier answer said.
fn with_names(request: &Request, names: &BTreeMap<String, String>) -> Request {
    let mut request = request.clone();
    for (_, value) in &mut request.fields {
        *value = replaced(value, names);
    }
    request
}

fn replaced(text: &str, names: &BTreeMap<String, String>) -> String {
    names.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{name}}}"), value)
    })
}

fn differences(
    expected: &Expectation,
    answer: &Answer,
    names: &BTreeMap<String, String>,
    asked: usize,
) -> Vec<String> {
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
    if let Some(times) = expected.asked {
        must(
            asked == times,
            format!("the server behind asked {times} times, not {asked}"),
        );
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
