//! A table of HTTP caching: what a plain caching reverse proxy does with the responses of its origin
//! (RFC 9110, 9111, 5861, 9213, 9875, and No-Vary-Search).
//!
//! Called by: `cargo test -p saker --test serving conformance`; `SAKER_CASE=name` runs the cases whose
//! names contain that word. The format of `conformance/*.cases` is at the top of `plain.cases`.
//! Caveat: five seconds of the server's clock pass between two requests of a case, and all cases of a
//! file share a server, so that each has paths of its own.
//! Out of scope: settings of `[site.cache]` other than the file's; scenarios have those.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::origin::{Asked, Origin, answer};
use saker_http::date::format_date;
use saker_testkit::{Client, Response, wait_until_or};
use std::{
    collections::HashMap,
    io::Write,
    net::Shutdown,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::{SystemTime, UNIX_EPOCH},
};

/// Seconds between two requests of a case.
const STEP_S: u64 = 5;

#[test]
fn plain_reverse_proxy() {
    run("plain", include_str!("conformance/plain.cases"));
}

#[test]
fn strangers_never_meet() {
    run("strangers", include_str!("conformance/strangers.cases"));
}

#[test]
fn parts_of_pages() {
    run("parts", include_str!("conformance/parts.cases"));
}

type Lines = Vec<(String, String)>;

#[derive(Clone, Debug, Default)]
struct Step {
    method: String,
    suffix: String,
    request: Lines,
    content: String,
    /// The origin's answer.
    status: String,
    fields: Lines,
    body: Option<String>,
    /// The whole answer instead; `close`: none.
    raw: Option<String>,
    /// The word and the status that are expected.
    expected: String,
    has: Lines,
    lacks: Vec<String>,
    asked: Lines,
    unasked: Vec<String>,
    text: Option<String>,
}

#[derive(Debug)]
struct Case {
    name: String,
    steps: Vec<Step>,
}

/// Settings of `[site.cache]`, and the cases.
fn parse(text: &str) -> (String, Vec<Case>) {
    let (mut settings, mut cases) = (String::new(), Vec::<Case>::new());
    for line in text.lines().map(str::trim) {
        let (mark, rest) = line.split_at_checked(1).unwrap_or(("#", ""));
        let rest = rest.trim();
        match mark {
            "#" => continue,
            "!" => {
                settings.push_str(rest);
                settings.push('\n');
                continue;
            }
            "*" => {
                let name = rest.to_owned();
                cases.push(Case {
                    name,
                    steps: Vec::new(),
                });
                continue;
            }
            _ => {}
        }
        let case = cases.last_mut().unwrap();
        if mark == "?" {
            let (method, suffix) = rest.split_once(' ').unwrap_or((rest, ""));
            case.steps.push(Step {
                method: method.to_owned(),
                suffix: suffix.trim().to_owned(),
                status: "200 OK".to_owned(),
                ..Step::default()
            });
            continue;
        }
        let complaint = format!("{}: {line}", case.name);
        fill(
            case.steps.last_mut().expect(&complaint),
            mark,
            rest,
            &complaint,
        );
    }
    (settings, cases)
}

fn fill(step: &mut Step, mark: &str, rest: &str, complaint: &str) {
    let field = || -> (String, String) {
        let (name, value) = rest.split_once(':').expect(complaint);
        (name.to_owned(), value.trim().to_owned())
    };
    match mark {
        ">" => step.request.push(field()),
        "{" => step.content = rest.to_owned(),
        "<" if rest.starts_with(|first: char| first.is_ascii_digit()) => {
            step.status = rest.to_owned();
        }
        "<" => step.fields.push(field()),
        "}" => step.body = Some(rest.to_owned()),
        "|" => step.raw = Some(rest.replace("\\r\\n", "\r\n")),
        "=" => step.expected = rest.to_owned(),
        "+" => step.has.push(field()),
        "-" => step.lacks.push(rest.to_owned()),
        "^" => step.asked.push(field()),
        "~" => step.unasked.push(rest.to_owned()),
        "\"" => step.text = Some(rest.to_owned()),
        _ => panic!("{complaint}"),
    }
}

/// The answers of the origin, by the first segment of the path.
#[derive(Default)]
struct Answers {
    /// Seconds since the epoch by the server's clock, and at the start.
    now_s: AtomicI64,
    began_s: i64,
    steps: Mutex<HashMap<String, (usize, Step)>>,
}

impl Answers {
    fn new() -> Answers {
        Answers {
            began_s: machine_s(),
            ..Answers::default()
        }
    }

    /// Seconds that the machine's clock has gone on.
    fn elapsed_s(&self) -> u64 {
        u64::try_from(machine_s() - self.began_s).unwrap()
    }

    fn answer(&self, asked: &Asked) -> Vec<u8> {
        let name = case_of(&asked.target);
        let (number, step) = self.steps.lock().unwrap()[name].clone();
        match step.raw.as_deref() {
            Some("close") => {
                asked.connection.shutdown(Shutdown::Both).unwrap();
                return Vec::new();
            }
            Some(raw) => match raw.strip_prefix("last ") {
                Some(raw) => {
                    let mut connection = &*asked.connection;
                    connection.write_all(raw.as_bytes()).unwrap();
                    connection.shutdown(Shutdown::Both).unwrap();
                    return Vec::new();
                }
                None => return self.dated(raw).into_bytes(),
            },
            None => {}
        }
        let fields: Lines = step
            .fields
            .iter()
            .map(|(name, value)| (name.clone(), self.dated(value)))
            .collect();
        let fields: Vec<(&str, &str)> = fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let body = step.body.unwrap_or_else(|| number.to_string());
        if step.status.starts_with("304") || step.status.starts_with("204") {
            let mut bytes = answer(&step.status, &fields, "");
            let text = String::from_utf8(std::mem::take(&mut bytes)).unwrap();
            return text.replace("Content-Length: 0\r\n", "").into_bytes();
        }
        answer(&step.status, &fields, &body)
    }

    /// With dates for `{now}`, `{now+60}`, and `{now-60}`.
    fn dated(&self, text: &str) -> String {
        let Some((before, (inside, after))) = text
            .split_once("{now")
            .and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
        else {
            return text.to_owned();
        };
        let delta: i64 = if inside.is_empty() {
            0
        } else {
            inside.parse().unwrap()
        };
        let date = format_date(self.now_s.load(Relaxed) + delta);
        let date = std::str::from_utf8(&date).unwrap();
        format!("{before}{date}{}", self.dated(after))
    }
}

fn machine_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap()
}

fn case_of(target: &str) -> &str {
    let path = target.split('?').next().unwrap_or_default();
    path.trim_start_matches('/')
        .split('/')
        .next()
        .unwrap_or_default()
}

fn run(name: &str, text: &str) {
    let (settings, mut cases) = parse(text);
    let wanted = std::env::var("SAKER_CASE").unwrap_or_default();
    cases.retain(|case| case.name.contains(&wanted));
    let answers = Arc::new(Answers::new());
    let of_origin = Arc::clone(&answers);
    let origin = Origin::with_clock(&format!("conform-{name}"), &settings, 1, move |asked| {
        of_origin.answer(asked)
    });
    let mut client = origin.client();
    let mut complaints = Vec::new();
    let rounds = cases.iter().map(|case| case.steps.len()).max().unwrap_or(0);
    for number in 0..rounds {
        if number > 0 {
            origin.advance(STEP_S);
        }
        for case in &cases {
            let Some(step) = case.steps.get(number) else {
                continue;
            };
            let later_s = i64::try_from(STEP_S).unwrap() * i64::try_from(number).unwrap();
            answers.now_s.store(machine_s() + later_s, Relaxed);
            let of_step = (number + 1, step.clone());
            let steps = &answers.steps;
            steps.lock().unwrap().insert(case.name.clone(), of_step);
            let found = take(&origin, &answers, &mut client, case, step);
            let of = |complaint| format!("{} step {}: {complaint}", case.name, number + 1);
            complaints.extend(found.into_iter().map(of));
        }
    }
    complaints.sort();
    assert!(
        complaints.is_empty(),
        "{} of {}\n{}",
        complaints.len(),
        cases.len(),
        complaints.join("\n")
    );
}

/// Sends the request of a step, and says how the outcome differs.
fn take(
    origin: &Origin,
    answers: &Answers,
    client: &mut Client,
    case: &Case,
    step: &Step,
) -> Vec<String> {
    let target = format!("/{}{}", case.name, step.suffix);
    let count = || -> usize {
        origin
            .asked_by(|asked| case_of(&asked.target) == case.name)
            .len()
    };
    let before = count();
    let request: Lines = step
        .request
        .iter()
        .map(|(name, value)| (name.clone(), answers.dated(value)))
        .collect();
    let mut head = format!("{} {target} HTTP/1.1\r\nHost: a\r\n", step.method);
    for (name, value) in &request {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !step.content.is_empty() {
        head.push_str(&format!("Content-Length: {}\r\n", step.content.len()));
    }
    let sent = client.send(format!("{head}\r\n{}", step.content));
    let got = sent.and_then(|()| match step.method.as_str() {
        "HEAD" => client.read_head_response(),
        _ => client.read_response(),
    });
    let response = match got {
        Ok(response) => response,
        Err(error) => {
            *client = origin.client();
            return vec![format!("no response: {error}")];
        }
    };
    if response.field("connection") == Some("close") {
        *client = origin.client();
    }
    let mut complaints = Vec::new();
    let (word, status) = step
        .expected
        .split_once(' ')
        .unwrap_or((&step.expected, ""));
    if word == "stale" {
        let complaint = || format!("{}: not refreshed", case.name);
        wait_until_or(|| count() > before, complaint);
    }
    let asked = origin.asked_by(|asked| case_of(&asked.target) == case.name);
    let asked = &asked[before..];
    let is_hit = match word {
        "hit" => true,
        "miss" | "stale" | "validated" => false,
        "any" => asked.is_empty(),
        word => panic!("{}: {word}", case.name),
    };
    if asked.is_empty() != is_hit {
        complaints.push(format!("{word} expected, {} requests", asked.len()));
    }
    compare(answers, step, &response, status, &mut complaints);
    for (name, value) in &step.asked {
        let name = name.to_ascii_lowercase();
        let found = asked.last().and_then(|asked| asked.field(&name));
        if found != Some(answers.dated(value).as_str()) {
            complaints.push(format!("origin got {name}: {found:?}, not {value}"));
        }
    }
    for name in &step.unasked {
        let found = asked
            .last()
            .and_then(|asked| asked.field(&name.to_ascii_lowercase()));
        if found.is_some() {
            complaints.push(format!("origin got {name}: {found:?}"));
        }
    }
    complaints
}

fn compare(
    answers: &Answers,
    step: &Step,
    response: &Response,
    status: &str,
    complaints: &mut Vec<String>,
) {
    let status: u16 = if status.is_empty() {
        200
    } else {
        status.parse().unwrap()
    };
    if response.status != status {
        complaints.push(format!("status {}, not {status}", response.status));
    }
    for (name, value) in &step.has {
        let found: Vec<&str> = response.field_values(name).collect();
        let is_found = match (name.as_str(), value.as_str()) {
            (_, "*") => !found.is_empty(),
            // The requests of all other cases take their time.
            ("Age", value) => {
                let least: u64 = value.parse().unwrap();
                let slack = answers.elapsed_s() + 2;
                matches!(found[..], [age] if (least..least + slack).contains(&age.parse().unwrap()))
            }
            (_, value) => found == [answers.dated(value)],
        };
        if !is_found {
            complaints.push(format!("{name}: {found:?}, not {value}"));
        }
    }
    for name in &step.lacks {
        if let Some(value) = response.field(name) {
            complaints.push(format!("has {name}: {value}"));
        }
    }
    if let Some(text) = &step.text {
        let found = response.text();
        if found != *text {
            complaints.push(format!("text {found:?}, not {text:?}"));
        }
    }
}
