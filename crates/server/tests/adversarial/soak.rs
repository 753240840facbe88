//! The gateway under a long load of which a tenth fails, 1 % in each of ten ways: statuses are
//! correct, every failure is logged once, and nothing is left behind.
//!
//! 10,000 requests by default; `SAKER_SOAK=200000 cargo test -p saker --test adversarial soak:: --
//! --nocapture` is the whole run, with its figures.
//! Caveat: it is a matter of timing which requests are affected by a restarting backend, so faults
//! that reach beyond their own request have servers of their own.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use crate::scripted::Backend;
use saker_testkit::{
    Client, Response, Saker, TempDir, wait_for, wait_until_or, wait_until_settled,
};
use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::net::UnixListener,
    path::Path,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

const THREADS: u64 = 12;
/// Buffers and the allocator's own grow with the first requests.
const WARM_UP: u64 = 2_000;
const PATIENCE: Duration = Duration::from_secs(20);
const RSS_GROWTH_MAX: u64 = 8 << 20;

/// Faults, each met by one request in a hundred, and their valid outcomes.
const FAULTS: [(&str, &[Outcome]); 10] = [
    ("/refused/x", &[Outcome::Status(503)]),
    ("/short/hang", &[Outcome::Status(504)]),
    ("/app/half-head", &[Outcome::Status(502)]),
    ("/app/half-body", &[Outcome::Cut]),
    ("/app/garbage", &[Outcome::Status(502)]),
    // The client gets what was promised, and the next request no byte of the rest.
    ("/app/too-much", &[Outcome::Status(200)]),
    ("/app/too-little", &[Outcome::Cut]),
    (
        "/fragile/restart",
        &[
            Outcome::Status(200),
            Outcome::Status(502),
            Outcome::Status(503),
            Outcome::Cut,
        ],
    ),
    (
        "/missing/x",
        &[
            Outcome::Status(200),
            Outcome::Status(502),
            Outcome::Status(503),
            Outcome::Cut,
        ],
    ),
    ("/busy/slow", &[Outcome::Status(200), Outcome::Status(503)]),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Status(u16),
    /// Seen to break off.
    Cut,
}

type Counts = BTreeMap<(&'static str, Outcome), u64>;

#[test]
fn nothing_is_left_behind() {
    let _turn = saker_testkit::heavy();
    let requests = env::var("SAKER_SOAK")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(10_000);
    let dir = TempDir::new("soak").unwrap();
    let (app, fragile) = (
        Backend::listen(&dir.join("app.sock")),
        Backend::listen(&dir.join("fragile.sock")),
    );
    let missing = Backend::listen(&dir.join("missing.sock"));
    // A socket that no process listens on any more.
    drop(UnixListener::bind(dir.join("refused.sock")).unwrap());
    let saker = operate::native(&configuration()).start(dir);
    let at_rest = at_rest(&saker);
    load(&saker, &missing, WARM_UP);
    let before = settled(&saker, &at_rest);
    let log_before = failures_logged(&saker);
    let began = Instant::now();
    let counts = load(&saker, &missing, requests);
    let took = began.elapsed();
    let after = settled(&saker, &at_rest);
    let (failed, logged) = (failures(&counts), failures_logged(&saker) - log_before);
    println!(
        "{requests} requests in {took:.1?}; {failed} failed, {logged} logged; {counts:#?}\nbefore {before:?}\nafter {after:?}"
    );
    assert_eq!(logged, failed, "each failure is logged once");
    assert_eq!(
        (after.processes, &after.files),
        (before.processes, &before.files)
    );
    assert!(
        after.rss_bytes < before.rss_bytes + RSS_GROWTH_MAX,
        "{before:?} {after:?}"
    );
    for path in ["/busy/slow", "/missing/x"] {
        assert!(
            counts.contains_key(&(path, Outcome::Status(200))),
            "{path} recovers"
        );
        assert!(
            counts.contains_key(&(path, Outcome::Status(503))),
            "{path} is refused"
        );
    }
    assert!(saker.server.stop().unwrap().success());
    drop((app, fragile, missing));
}

fn configuration() -> String {
    let upstream = |name: &str, socket: &str, more: &str| {
        format!(
            "[[upstream]]\nname = \"{name}\"\nservers = [\"http+unix:{{dir}}/{socket}\"]\nkeep_for = \"1s\"\n{more}\n"
        )
    };
    let upstreams = [
        upstream("app", "app.sock", "timeout = \"20s\""),
        upstream("short", "app.sock", "timeout = \"300ms\""),
        upstream("fragile", "fragile.sock", ""),
        upstream("missing", "missing.sock", ""),
        upstream("refused", "refused.sock", ""),
        upstream("busy", "app.sock", "connections = 1\nqueue = 0\nkeep = 0"),
    ];
    let routes = ["app", "short", "fragile", "missing", "refused", "busy"]
        .map(|name| format!("[[site.route]]\npath = \"/{name}/*\"\nproxy = \"{name}\"\n"));
    format!(
        "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\nerror_log = \"{{dir}}/error.log\"\n[[listener]]\naddress = \"{{address}}\"\n{}\
         [[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\n{}",
        upstreams.concat(),
        routes.concat()
    )
}

/// Requests from several connections at once, while the socket of one backend comes and goes.
fn load(saker: &Saker, missing: &Backend, requests: u64) -> Counts {
    let all = Mutex::new(Counts::new());
    thread::scope(|scope| {
        let asking: Vec<_> = (0..THREADS)
            .map(|thread| {
                let all = &all;
                scope.spawn(move || {
                    for (key, count) in ask(saker, missing, thread, requests / THREADS) {
                        *all.lock().unwrap().entry(key).or_default() += count;
                    }
                })
            })
            .collect();
        for one in asking {
            one.join().unwrap();
        }
    });
    missing.bring_back();
    all.into_inner().unwrap()
}

/// One connection's requests, which one is what drawn by a generator of its own.
fn ask(saker: &Saker, missing: &Backend, thread: u64, requests: u64) -> Counts {
    let mut counts = Counts::new();
    let mut client: Option<Client> = None;
    let mut state = thread.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for number in 0..requests {
        // One thread takes the socket away for a third of its requests.
        match (thread, number % 15) {
            (0, 0) => missing.take_away(),
            (0, 5) => missing.bring_back(),
            _ => {}
        }
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (path, right): (&str, &[Outcome]) = FAULTS
            .get(usize::try_from((state >> 33) % 100).unwrap())
            .copied()
            .unwrap_or(("/app/echo", &[Outcome::Status(200)]));
        let outcome = one(saker, &mut client, path, &format!("{thread}-{number}"));
        assert!(right.contains(&outcome), "{path}: {outcome:?}");
        *counts.entry((path, outcome)).or_default() += 1;
    }
    counts
}

fn one(saker: &Saker, kept: &mut Option<Client>, path: &str, mark: &str) -> Outcome {
    let mut client = kept.take().unwrap_or_else(|| {
        let mut client = saker.connect().unwrap();
        client.set_timeout(PATIENCE).unwrap();
        client
    });
    let Ok(response) = client.get(&format!("{path}?{mark}")) else {
        return Outcome::Cut;
    };
    if response.status == 200 {
        assert_eq!(response.text(), mark, "{path}");
    }
    if response.status == 503 {
        assert!(response.field("retry-after").is_some(), "{path}");
    }
    *kept = Some(client).filter(|_| stays(&response));
    Outcome::Status(response.status)
}

fn stays(response: &Response) -> bool {
    !response
        .field("connection")
        .is_some_and(|value| value.eq_ignore_ascii_case("close"))
}

fn failures(counts: &Counts) -> u64 {
    counts
        .iter()
        .filter(|((_, outcome), _)| *outcome != Outcome::Status(200))
        .map(|(_, count)| count)
        .sum()
}

/// Lines about programs, and those that came too often to be written one by one.
fn failures_logged(saker: &Saker) -> u64 {
    let of = |line: &str| {
        let suppressed = ["SK0901 ", "SK0902 "].iter().find_map(|id| {
            line.split("SK0608")
                .nth(1)?
                .split(*id)
                .nth(1)?
                .split(' ')
                .next()?
                .parse()
                .ok()
        });
        let is_one = line.contains(" SK0901: ") || line.contains(" SK0902: ");
        suppressed.unwrap_or(u64::from(is_one))
    };
    // What was suppressed is told when its second is over.
    let mut told = (0, Instant::now());
    wait_for("no more is logged", || {
        let text = fs::read_to_string(saker.dir.join("error.log")).unwrap_or_default();
        let now = text.lines().map(of).sum();
        if now != told.0 {
            told = (now, Instant::now());
        }
        (told.1.elapsed() > Duration::from_millis(2500)).then_some(now)
    })
}

#[derive(Debug)]
struct Figures {
    descriptors: usize,
    rss_bytes: u64,
    processes: usize,
    /// In the state folder and, of ours, in that for temporary files.
    files: usize,
}

fn figures(saker: &Saker) -> Figures {
    let tree = saker.server.tree();
    let ours = format!("saker-response-{}-", saker.server.pid());
    let temporary = fs::read_dir(env::temp_dir())
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&ours));
    let files = count_files(&saker.dir.join("state")) + temporary.count();
    Figures {
        descriptors: tree.open_descriptors(),
        rss_bytes: tree.memory().rss_bytes,
        processes: tree.alive().len(),
        files,
    }
}

fn count_files(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, |entries| {
        entries
            .flatten()
            .map(|entry| {
                if entry.path().is_dir() {
                    count_files(&entry.path())
                } else {
                    1
                }
            })
            .sum()
    })
}

/// After a first request, when all that a worker needs is there.
fn at_rest(saker: &Saker) -> Figures {
    assert_eq!(
        saker.connect().unwrap().get("/nothing").unwrap().status,
        404
    );
    wait_until_settled("descriptors", || figures(saker).descriptors);
    figures(saker)
}

/// Once idle connections have been closed: as many descriptors as before the first request, and so
/// it stays.
fn settled(saker: &Saker, at_rest: &Figures) -> Figures {
    let is_settled = |now: &Figures| now.descriptors <= at_rest.descriptors;
    wait_until_or(
        || is_settled(&figures(saker)),
        || {
            let (now, open) = (figures(saker), open_files(saker.server.pid()));
            format!("descriptors stay: {now:?}, {at_rest:?} at first: {open:?}")
        },
    );
    figures(saker)
}

/// Open files, to find a leak.
fn open_files(pid: u32) -> Vec<String> {
    let links = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    links.map(|link| link.display().to_string()).collect()
}
