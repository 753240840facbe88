//! Runs every file of `tests/scenarios` over HTTP/1.1, HTTP/2, and HTTP/3.
//!
//! Called by: `cargo test -p saker --test serving scenarios::`; `SAKER_SCENARIO=range` runs the
//! files whose names contain that word. The format is described in `tests/scenarios/README.md`.
//! With `SAKER_REMOVE_KEYS`, each file runs once for each of its keys, without that key, and has to
//! fail (`docs/contributing.md`).
//! Caveat: each file gets a fresh server per protocol; over HTTP/3 it is a server with TLS.
//! Out of scope: timing, connections that break, anything that only one protocol has.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

mod client;
mod compare;
mod file;
mod origin;
mod programs;
mod removal;

use crate::{operate, tls_site, visitors::solve};
use client::{Client, Protocol};
use compare::{differences, replaced};
use file::{Request, Scenario};
use programs::{Programs, sqlite};
use removal::{Removal, removals};
use saker_testkit::{PATIENCE, Saker, TempDir, poll, saker::adjustable_clock};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
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

/// Files that run side by side for each protocol: most of their time goes by while a server starts.
const AT_ONCE: usize = 3;

/// Keys that have no effect over HTTP/3, which always has TLS.
const OF_PLAIN_HTTP: &[&str] = &["site.auth.oidc.allow_http"];

/// Time that a scenario without one of its keys has to meet what is polled for.
const PATIENCE_WITHOUT_KEY: Duration = Duration::from_secs(5);

fn run_all(protocol: Protocol) {
    let unproven = Unproven::default();
    let is_without_keys = std::env::var_os("SAKER_REMOVE_KEYS").is_some();
    run_files(protocol, |path| match is_without_keys {
        true => unproven.run(path, protocol),
        false => run(path, protocol),
    });
    let found = unproven.0.into_inner().unwrap();
    let of_none = |(key, of): (&String, &Uses)| {
        let files: Vec<&str> = of.unproven.iter().map(String::as_str).collect();
        (!of.is_proven).then(|| format!("{key}: nothing fails without it in {}", files.join(", ")))
    };
    let complaints: Vec<String> = found.iter().filter_map(of_none).collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// Outcome of taking a key out of its uses.
#[derive(Default)]
struct Uses {
    is_proven: bool,
    /// Files that met their expectations without it.
    unproven: BTreeSet<String>,
}

/// Keys that have been taken out of scenarios.
#[derive(Default)]
struct Unproven(Mutex<BTreeMap<String, Uses>>);

impl Unproven {
    /// Runs a file without each of its keys, but for those that another use has proven already.
    fn run(&self, path: &Path, protocol: Protocol) -> Vec<String> {
        let name = name_of(path);
        let scenario = read(path);
        let whole = run_scenario(&name, &scenario, protocol, PATIENCE_WITHOUT_KEY);
        if !whole.is_empty() {
            return whole;
        }
        let acts = |removal: &Removal| {
            protocol != Protocol::Http3 || !OF_PLAIN_HTTP.contains(&&*removal.key)
        };
        for removal in removals(&scenario).into_iter().filter(acts) {
            let is_known = |uses: &Uses| uses.is_proven;
            if (self.0.lock().unwrap().get(&removal.key)).is_some_and(is_known) {
                continue;
            }
            let without = &removal.scenario;
            let run = || run_scenario(&name, without, protocol, PATIENCE_WITHOUT_KEY);
            // A configuration that is refused is a panic of the test.
            let passes = catch_unwind(run).is_ok_and(|complaints| complaints.is_empty());
            let mut all = self.0.lock().unwrap();
            let uses = all.entry(removal.key).or_default();
            match passes {
                true => drop(uses.unproven.insert(name.clone())),
                false => uses.is_proven = true,
            }
        }
        Vec::new()
    }
}

/// Runs files side by side; all complaints are reported together.
fn run_files(protocol: Protocol, run: impl Fn(&Path) -> Vec<String> + Sync) {
    let wanted = std::env::var("SAKER_SCENARIO").unwrap_or_default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .filter(|path| name_of(path).contains(&wanted))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no scenario is named like {wanted:?}");
    let (next, complaints) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(path) = files.get(next.fetch_add(1, Relaxed)) {
            let found = catch_unwind(AssertUnwindSafe(|| run(path)))
                .unwrap_or_else(|_| vec![format!("{}: it panicked, see above", name_of(path))]);
            complaints.lock().unwrap().extend(found);
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    let complaints = complaints.into_inner().unwrap();
    assert!(
        complaints.is_empty(),
        "over {protocol:?}:\n{}",
        complaints.join("\n")
    );
}

fn name_of(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

fn read(path: &Path) -> Scenario {
    Scenario::parse(&fs::read_to_string(path).unwrap())
        .unwrap_or_else(|complaint| panic!("{}: {complaint}", path.display()))
}

/// Unmet expectations of a file.
fn run(path: &Path, protocol: Protocol) -> Vec<String> {
    run_scenario(&name_of(path), &read(path), protocol, PATIENCE)
}

/// Unmet expectations of a scenario; with little patience, the first one.
fn run_scenario(
    name: &str,
    scenario: &Scenario,
    protocol: Protocol,
    patience: Duration,
) -> Vec<String> {
    let dir = TempDir::new(&format!("scenario-{name}")).unwrap();
    let programs = Programs::start(&dir, scenario);
    if scenario.requests.iter().any(|request| request.later_s > 0) {
        adjustable_clock(&dir).unwrap();
    }
    let saker = start(dir, protocol, scenario, &programs);
    let origin_of_clients = match protocol {
        Protocol::Http3 => "https://localhost",
        Protocol::Http1 | Protocol::Http2 => "http://localhost",
    };
    let mut run = Run {
        client: Client::connect(saker.server.address(), protocol),
        saker,
        programs,
        names: BTreeMap::from([("origin".to_owned(), origin_of_clients.to_owned())]),
        patience,
    };
    let is_sent = |request: &&Request| {
        request.over.is_empty() || request.over.iter().any(|name| name == protocol.name())
    };
    let requests = scenario.requests.iter().enumerate();
    let complaints =
        requests
            .filter(|(_, request)| is_sent(request))
            .filter_map(|(number, request)| {
                let complaint = run.request(request)?;
                let (method, target) = (&request.method, &request.target);
                let number = number + 1;
                Some(format!(
                    "{name}, request {number} ({method} {target}): {complaint}"
                ))
            });
    match patience < PATIENCE {
        true => complaints.take(1).collect(),
        false => complaints.collect(),
    }
}

/// A scenario on its way.
struct Run {
    client: Client,
    saker: Saker,
    programs: Programs,
    /// Values of earlier responses.
    names: BTreeMap<String, String>,
    /// For what is polled for.
    patience: Duration,
}

impl Run {
    /// Sends a request; the unmet expectations.
    fn request(&mut self, request: &Request) -> Option<String> {
        for (path, content) in &request.write {
            self.saker.dir.write(path, content).unwrap();
        }
        sqlite(&self.saker.dir, &request.database);
        for path in &request.remove {
            fs::remove_file(self.saker.dir.join(path)).unwrap();
        }
        if request.later_s > 0 {
            self.saker.advance_clock(request.later_s).unwrap();
            wake(&self.saker);
        }
        let sent = self.with_names(request);
        if request.is_left {
            let before = self.programs.origin.asked(&sent.target);
            self.client.leave(&sent);
            let has_come = || (self.programs.origin.asked(&sent.target) > before).then_some(());
            return match poll(self.patience, has_come) {
                Some(()) => None,
                None => Some("it has not reached the server behind".to_owned()),
            };
        }
        let mut last = None;
        let patience = if request.polls {
            self.patience
        } else {
            Duration::ZERO
        };
        poll(patience, || {
            let answer = self.client.ask(&sent);
            let found = differences(
                &sent,
                &answer,
                &self.names,
                &self.programs.origin,
                (&self.saker.dir, self.patience),
            );
            let holds = found.is_empty();
            last = Some((answer, found));
            holds.then_some(())
        });
        let (answer, found) = last?;
        for (field, known_as) in &request.keep {
            let value = answer.field(field).unwrap_or_default().to_owned();
            self.names.insert(known_as.clone(), value);
        }
        if let Some(known_as) = &request.solve {
            let page = String::from_utf8_lossy(&answer.body);
            self.names.insert(known_as.clone(), solve(&page));
        }
        (!found.is_empty()).then(|| format!("{}\n  {answer:?}", found.join("; ")))
    }

    /// The request, with `{NAME}` replaced by what an earlier answer said.
    fn with_names(&self, request: &Request) -> Request {
        let mut request = request.clone();
        for (_, value) in &mut request.fields {
            *value = replaced(value, &self.names);
        }
        request.target = replaced(&request.target, &self.names);
        request
    }
}

fn start(dir: TempDir, protocol: Protocol, scenario: &Scenario, programs: &Programs) -> Saker {
    let upstream = if scenario.origin.is_empty() {
        String::new()
    } else {
        "[[upstream]]\nname = \"app\"\nservers = [\"http+unix:{dir}/origin.sock\"]\n\n".to_owned()
    };
    let site = format!("{}\n", programs.filled_in(&scenario.site));
    let global = programs.filled_in(&scenario.global);
    let configuration = match protocol {
        Protocol::Http1 | Protocol::Http2 => operate::configuration("workers = 1", &site),
        Protocol::Http3 => {
            tls_site::certificate(&dir, "site", "localhost");
            let text = tls_site::configuration("", "");
            text.replace("\n[site.tls]", &format!("{site}\n[site.tls]"))
        }
    };
    let more = format!("{global}\n{upstream}[[listener]]");
    let configuration = configuration.replacen("[[listener]]", &more, 1);
    operate::start_in(dir, &format!("{}\n{configuration}", scenario.top))
}

/// Makes the worker read its clock again, which it does when an event wakes it: the end of a
/// connection that it waits for.
fn wake(saker: &Saker) {
    let mut stream = TcpStream::connect(saker.server.address()).unwrap();
    stream.write_all(b"\r\nNONSENSE\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
}
