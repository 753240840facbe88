//! Runs one subject: prepares its files, starts both servers, and asks both the same.
//!
//! Called by: the tests of `main.rs`.
//! Caveat: `UPDATE_GOLDEN=1` writes the reference's statuses into the `requests` file.
//! Out of scope: which responses count as the same (`compare`).

use crate::{
    compare, docs, here, operate,
    requests::{self, Request, Script},
    servers::{self, REFERENCES, Words},
};
use saker_testkit::{Client, Response, ServerProcess, TempDir};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    net::SocketAddr,
    path::Path,
    process::Command,
    time::Duration,
};

/// Lines of a native configuration beyond listener and certificate.
const LINES_MAX: usize = 10;
const REQUESTS_MIN: usize = 30;

/// A folder below `cases` or `conversions`.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    pub folder: &'static str,
    pub name: &'static str,
}

/// Asks both servers all requests.
///
/// # Panics
/// If their responses differ, with all differences.
pub fn compare_servers(subject: Subject) {
    let _turn = saker_testkit::heavy();
    let case = here().join(subject.folder).join(subject.name);
    let (reference, saker) = configurations(subject, &case);
    let script = requests::read(&case.join("requests"));
    if subject.folder == "cases" {
        let lines = lines_of(&saker);
        assert!(
            lines <= LINES_MAX,
            "saker.toml has {lines} lines, at most {LINES_MAX} are allowed"
        );
        let count = script.requests.len();
        assert!(
            count >= REQUESTS_MIN,
            "{count} requests, at least {REQUESTS_MIN} are needed"
        );
    }
    let dir = TempDir::new(subject.name).unwrap();
    let mut words = Words::default();
    words.add("dir", dir.display());
    words.add("case", case.display());
    prepare(&case, &dir);
    let _backends = servers::start_backends(&dir, &case, &mut words, &[&reference.1, &saker]);
    let (first, second) = servers::start_both(&dir, &words, (&reference.0, &reference.1), &saker);
    let mut browsers = (Browser::new(&first, &words), Browser::new(&second, &words));
    let (mut complaints, mut statuses) = (Vec::new(), Vec::new());
    // One after the other: a backend that both have keeps what it is told.
    let of_reference: Vec<io::Result<Response>> = script
        .requests
        .iter()
        .map(|request| browsers.0.ask(request))
        .collect();
    for (request, answer) in script.requests.iter().zip(of_reference) {
        let answers = (answer, browsers.1.ask(request));
        if let Ok(response) = &answers.0 {
            statuses.push((request.line, response.status));
        }
        complaints.extend(differences(
            &script,
            request,
            answers,
            (first.address(), second.address()),
        ));
    }
    complaints.extend(client_differences(&case, &dir, &first, &second));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        requests::write_statuses(&case.join("requests"), &statuses);
    }
    assert!(
        complaints.is_empty(),
        "{} differences\n{}\nsaker's standard error:\n{}reference's standard error:\n{}",
        complaints.len(),
        complaints.join("\n"),
        last_lines(&second),
        last_lines(&first)
    );
}

/// The same with nginx's configuration for both servers.
///
/// # Panics
/// If their responses differ, with all differences.
pub fn compare_with_nginx(subject: Subject) {
    let _turn = saker_testkit::heavy();
    let case = here().join(subject.folder).join(subject.name);
    let text = fs::read_to_string(case.join("nginx.conf")).unwrap();
    let mut script = requests::read(&case.join("requests"));
    for request in &mut script.requests {
        // These are about saker.toml.
        request.differences.clear();
    }
    let dir = TempDir::new(&format!("nginx-{}", subject.name)).unwrap();
    let mut words = Words::default();
    words.add("dir", dir.display());
    words.add("case", case.display());
    prepare(&case, &dir);
    let _backends = servers::start_backends(&dir, &case, &mut words, &[&text]);
    let (first, second) = servers::start_both_as_nginx(&dir, &words, &text);
    let mut browsers = (Browser::new(&first, &words), Browser::new(&second, &words));
    let answers: Vec<io::Result<Response>> = script
        .requests
        .iter()
        .map(|request| browsers.0.ask(request))
        .collect();
    let addresses = (first.address(), second.address());
    let mut complaints = Vec::new();
    for (request, answer) in script.requests.iter().zip(answers) {
        let answers = (answer, browsers.1.ask(request));
        complaints.extend(differences(&script, request, answers, addresses));
    }
    assert!(
        complaints.is_empty(),
        "{} differences\n{}\nsaker's standard error:\n{}",
        complaints.len(),
        complaints.join("\n"),
        last_lines(&second)
    );
}

/// Runs the subject's `client` script, a real client, against both servers.
fn client_differences(
    case: &Path,
    dir: &TempDir,
    first: &ServerProcess,
    second: &ServerProcess,
) -> Option<String> {
    let script = case.join("client");
    if !script.exists() {
        return None;
    }
    let outputs = [("first", first), ("second", second)].map(|(name, server)| {
        let work = dir.join(format!("client-{name}"));
        fs::create_dir_all(&work).unwrap();
        let output = Command::new("bash")
            .arg("-eu")
            .arg(&script)
            .current_dir(&work)
            .env("BASE", format!("http://{}", server.address()))
            .env("HOME", &work)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout)
            .replace(&server.address().to_string(), "{address}")
            .replace(&work.display().to_string(), "{dir}");
        let failure = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), text, failure)
    });
    let [reference, saker] = outputs;
    let is_same = reference.0 && saker.0 && reference.1 == saker.1 && !saker.1.is_empty();
    (!is_same).then(|| format!("client\n  reference: {reference:?}\n  saker: {saker:?}"))
}

fn configurations(subject: Subject, case: &Path) -> ((String, String), String) {
    let own = |name: &str| fs::read_to_string(case.join(name)).ok();
    if let Some(saker) = own("saker.toml") {
        let reference = REFERENCES
            .iter()
            .find_map(|&name| Some((name.to_owned(), own(name)?)));
        return (
            reference.expect("a configuration of the reference server"),
            saker,
        );
    }
    if let Some(vcl) = own("default.vcl") {
        let saker = converted(&case.join("default.vcl"));
        return (("default.vcl".to_owned(), vcl), saker);
    }
    docs::pair(subject.name, case)
}

/// Output of `saker convert --vcl` for a file, without the listener, which is the operator's to set.
fn converted(file: &Path) -> String {
    let output = Command::new(operate::SAKER)
        .args(["convert", "--vcl"])
        .arg(file)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let at = text.find("\n[cache]").expect(&text);
    text[at..].to_owned()
}

/// Lines that are neither blank nor comments.
fn lines_of(text: &str) -> usize {
    text.lines()
        .filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        .count()
}

/// Runs the subject's `prepare` script, which fills the folder.
fn prepare(case: &Path, dir: &TempDir) {
    fs::create_dir_all(dir.join("www")).unwrap();
    fs::create_dir_all(dir.join("sessions")).unwrap();
    let opened = Command::new("chmod")
        .arg("1777")
        .arg(dir.join("sessions"))
        .status();
    assert!(opened.unwrap().success());
    if !case.join("prepare").exists() {
        return;
    }
    let output = Command::new("bash")
        .arg("-eu")
        .arg(case.join("prepare"))
        .current_dir(dir)
        .env("DIR", dir.as_os_str())
        .env("CASE", case)
        .env("TMPDIR", dir.as_os_str())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "prepare: {}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

pub fn differences(
    script: &Script,
    request: &Request,
    answers: (io::Result<Response>, io::Result<Response>),
    addresses: (SocketAddr, SocketAddr),
) -> Option<String> {
    let head = format!(
        "line {}: {} {}",
        request.line, request.method, request.target
    );
    let (reference, saker) = match answers {
        (Ok(reference), Ok(saker)) => (reference, saker),
        (reference, saker) => {
            let short = |answer: io::Result<Response>| match answer {
                Ok(response) => response.status.to_string(),
                Err(error) => error.to_string(),
            };
            return Some(format!(
                "{head}\n  reference: {}\n  saker: {}",
                short(reference),
                short(saker)
            ));
        }
    };
    let mut lines = Vec::new();
    if reference.status != request.status {
        lines.push(format!(
            "the reference answers {}, not {}",
            reference.status, request.status
        ));
    }
    for text in &request.contains {
        for (server, response) in [("reference", &reference), ("saker", &saker)] {
            if !response.text().contains(text.as_str()) {
                lines.push(format!("{server}'s body lacks {text:?}"));
            }
        }
    }
    let (first, second) = compare::compared(script, &reference, &saker, addresses);
    for ((name, one), (_, two)) in first.values.iter().zip(&second.values) {
        let excuse = request
            .differences
            .iter()
            .find(|difference| difference.what == *name);
        match excuse {
            Some(difference) if one == two => {
                lines.push(format!("{name} no longer differs ({})", difference.saker))
            }
            Some(difference) if !difference.saker.is_empty() && difference.saker != *two => {
                lines.push(format!(
                    "{name} of Saker is {two:?}, not {:?}",
                    difference.saker
                ));
            }
            None if one != two => lines.push(shown(name, one, two)),
            _ => {}
        }
    }
    // A request whose status differs has nothing more to compare.
    if request
        .differences
        .iter()
        .any(|difference| difference.what == "status")
    {
        lines.retain(|line| line.starts_with("status") || line.starts_with("the reference"));
    }
    (!lines.is_empty()).then(|| format!("{head}\n  {}", lines.join("\n  ")))
}

/// Both values, from where they differ.
fn shown(name: &str, one: &str, two: &str) -> String {
    let same = one
        .chars()
        .zip(two.chars())
        .take_while(|(a, b)| a == b)
        .count();
    let part = |text: &str| -> String {
        text.chars()
            .skip(same.saturating_sub(60))
            .take(260)
            .collect()
    };
    format!(
        "{name}:\n    reference: {:?}\n    saker:     {:?}",
        part(one),
        part(two)
    )
}

pub fn last_lines(server: &ServerProcess) -> String {
    let text = server.stderr();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n") + "\n"
}

/// A client with cookies and kept values.
pub struct Browser {
    address: SocketAddr,
    cookies: BTreeMap<String, String>,
    kept: Words,
}

impl Browser {
    pub fn new(server: &ServerProcess, words: &Words) -> Browser {
        Browser::at(server.address(), words)
    }

    /// A client of one of a server's addresses.
    pub fn at(address: SocketAddr, words: &Words) -> Browser {
        let mut kept = words.clone();
        kept.add("port", address.port());
        Browser {
            address,
            cookies: BTreeMap::new(),
            kept,
        }
    }

    pub fn ask(&mut self, request: &Request) -> io::Result<Response> {
        if request.forget {
            self.cookies.clear();
        }
        let mut client = Client::connect(self.address)?;
        client.set_timeout(Duration::from_secs(30))?;
        client.send(self.text(request)?)?;
        let mut response = loop {
            let response = match request.method.as_str() {
                "HEAD" => client.read_head_response()?,
                _ => client.read_response()?,
            };
            if response.status >= 200 || response.status == 101 {
                break response;
            }
        };
        if let Some(text) = request
            .websocket
            .as_ref()
            .filter(|_| response.status == 101)
        {
            response.body = echo(&mut client, text)?;
        }
        self.remember(request, &response);
        Ok(response)
    }

    fn text(&self, request: &Request) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        write!(
            text,
            "{} {} HTTP/1.1\r\n",
            request.method,
            self.kept.fill(&request.target)
        )?;
        let has = |name: &str| {
            request
                .fields
                .iter()
                .any(|(field, _)| field.eq_ignore_ascii_case(name))
        };
        if !has("host") {
            write!(text, "Host: app.test:{}\r\n", self.address.port())?;
        }
        for (name, value) in &request.fields {
            write!(text, "{name}: {}\r\n", self.kept.fill(value))?;
        }
        if !self.cookies.is_empty() && !has("cookie") {
            let all: Vec<String> = self
                .cookies
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            write!(text, "Cookie: {}\r\n", all.join("; "))?;
        }
        let body = request.body.as_ref().map(|body| self.kept.fill(body));
        if let Some(body) = &body {
            if !has("content-type") {
                text.extend_from_slice(b"Content-Type: application/x-www-form-urlencoded\r\n");
            }
            write!(text, "Content-Length: {}\r\n", body.len())?;
        }
        write!(text, "\r\n{}", body.unwrap_or_default())?;
        Ok(text)
    }

    fn remember(&mut self, request: &Request, response: &Response) {
        for line in response.field_values("set-cookie") {
            let pair = line.split(';').next().unwrap_or_default();
            let Some((name, value)) = pair.split_once('=') else {
                continue;
            };
            match value.is_empty()
                || value == "deleted"
                || line.to_ascii_lowercase().contains("max-age=0")
            {
                true => drop(self.cookies.remove(name)),
                false => drop(self.cookies.insert(name.to_owned(), value.to_owned())),
            }
        }
        if let Some((name, before, behind)) = &request.keep {
            let text = response.text();
            let value = text
                .split_once(before)
                .and_then(|(_, rest)| rest.split_once(behind))
                .map_or("", |(value, _)| value);
            self.kept.add(name, value);
        }
    }
}

/// Sends a text frame and returns the content of the next frame (RFC 6455 section 5.2).
fn echo(client: &mut Client, text: &str) -> io::Result<Vec<u8>> {
    let mut frame = vec![0x81, 0x80 | text.len() as u8, 1, 2, 3, 4];
    frame.extend(
        text.bytes()
            .enumerate()
            .map(|(index, byte)| byte ^ [1, 2, 3, 4][index % 4]),
    );
    client.send(frame)?;
    let head = client.read_bytes(2)?;
    client.read_bytes(usize::from(head[1] & 0x7f))
}
