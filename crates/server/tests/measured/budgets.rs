//! Budgets of a request on the hot paths, in system calls, instructions, and allocations
//! (`budgets.txt`).
//!
//! Neither depends on the machine's mood. System calls are the worker's, by strace; waits for
//! events are left out, since how many requests share one is chance. Instructions are the whole
//! process's, by callgrind, which counts between two dumps while the server serves one path over a
//! connection that is open; starts, stops and handshakes fall out. What is counted is the build of
//! the tests (debug assertions, own crates not optimized), since that is what every change is
//! tested with: a budget says that a path has not become longer, not how fast it is. Who makes a
//! path cheaper lowers its budget; who has to raise one says why in the change. `cargo test -p
//! saker --test measured budgets:: -- --nocapture` prints what is spent, as lines for the table.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::callgrind::Callgrind;
use crate::http3_client::{Client as Http3Client, Http3};
use crate::operate;
use crate::route_costs::UNUSED_CONDITIONS;
use crate::tls_site;
use saker_testkit::{
    Client, Saker, SystemCalls, TempDir,
    frames::{self, Frames},
    free_port,
};
use std::{
    fmt::Write as _,
    io::{self, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    rc::Rc,
    thread,
    time::Duration,
};

const BUDGETS: &str = include_str!("budgets.txt");
/// Before counting, so that everything is kept that will be.
const BEFORE: usize = 40;
const COUNTED: usize = 250;
const TRIES: usize = 4;
/// A call more for each request is more than this; batches of log lines and acknowledgements that
/// chance makes more or fewer are less.
const SPARE_CALLS: f64 = 0.7;
/// The same for allocations: one more for each request is more than this.
const SPARE_ALLOCATIONS: f64 = 0.6;
/// A request that costs less than this share of its budget must get a lower one; the budget would
/// guard nothing.
const WORTH_GUARDING: f64 = 0.6;
/// For valgrind to have the server up, on a machine that has more to do.
const PATIENCE: Duration = Duration::from_secs(300);
const WAITS: [&str; 3] = ["epoll_wait", "epoll_pwait", "epoll_pwait2"];

/// Request that is repeated.
struct Asked {
    name: &'static str,
    over: Over,
    host: &'static str,
    target: &'static str,
    bytes: usize,
}

#[derive(Clone, Copy)]
enum Over {
    Http1,
    /// Without TLS, whose instructions are the processor's affair.
    Http2,
    Http3,
    /// By a client that pads its packets to the path's MTU.
    Http3Padded,
}

const SMALL: &str = "/small.html";
const SMALL_BYTES: usize = 285;
const PAGE_BYTES: usize = 1000;

/// In the order of the table.
const ASKED: [Asked; 13] = [
    small("static-h1", Over::Http1, "a"),
    small("static-h2", Over::Http2, "a"),
    small("static-h3", Over::Http3, "a"),
    small("padded-h3", Over::Http3Padded, "a"),
    small("logged", Over::Http1, "logged"),
    small("throttled", Over::Http1, "throttled"),
    small("conditions", Over::Http1, "conditions"),
    page("cache-hit", "/kept"),
    // The same in a site with conditions, variables, and maps that the request does not meet.
    Asked {
        host: "kept-conditions",
        ..page("hit-conditions", "/kept")
    },
    page("fastcgi", "/program"),
    page("proxy", "/proxied"),
    // In a site without a page cache.
    Asked {
        host: "plain",
        ..page("fastcgi-plain", "/program")
    },
    Asked {
        host: "plain",
        ..page("proxy-plain", "/proxied")
    },
];

const fn small(name: &'static str, over: Over, host: &'static str) -> Asked {
    Asked {
        name,
        over,
        host,
        target: SMALL,
        bytes: SMALL_BYTES,
    }
}

const fn page(name: &'static str, target: &'static str) -> Asked {
    Asked {
        name,
        over: Over::Http1,
        host: "a",
        target,
        bytes: PAGE_BYTES,
    }
}

/// A saker in which all paths are, and a connection of each kind.
struct Site {
    saker: Rc<Saker>,
    http1: Client,
    http2: Frames,
    next_stream: u32,
    http3: Http3,
    http3_padded: Http3,
}

impl Site {
    fn start(by: impl FnOnce(TempDir, &str) -> Saker) -> Site {
        let dir = operate::folder("budgets");
        dir.write("www/small.html", "x".repeat(SMALL_BYTES))
            .unwrap();
        tls_site::certificate(&dir, "site", "localhost");
        listen(&dir, "origin.sock", http_answer);
        listen(&dir, "program.sock", fastcgi_answer);
        let secure = format!("127.0.0.1:{}", free_port().unwrap());
        let saker = by(dir, &configuration(&secure));
        // When this has been answered it is up, however slow valgrind makes that.
        let mut http1 = saker.connect().unwrap();
        http1.set_timeout(PATIENCE).unwrap();
        http1.get(SMALL).unwrap();
        let mut http2 = Frames::connect(saker.server.address()).unwrap();
        http2.read_until(frames::SETTINGS).unwrap();
        http2.send(frames::SETTINGS, frames::ACK, 0, &[]).unwrap();
        let http3 = Http3Client::default().connect(&secure);
        let http3_padded = Http3Client::padding().connect(&secure);
        Site {
            saker: Rc::new(saker),
            http1,
            http2,
            next_stream: 1,
            http3,
            http3_padded,
        }
    }

    fn ask(&mut self, asked: &Asked) {
        match asked.over {
            Over::Http1 => {
                let response = self
                    .http1
                    .request("GET", asked.target, &[("Host", asked.host)])
                    .unwrap();
                assert_eq!(
                    (response.status, response.body.len()),
                    (200, asked.bytes),
                    "{}: {response:?}",
                    asked.name
                );
            }
            Over::Http2 => self.ask_http2(asked),
            Over::Http3 => assert_eq!(self.http3.get(asked.target).body.len(), asked.bytes),
            Over::Http3Padded => {
                assert_eq!(self.http3_padded.get(asked.target).body.len(), asked.bytes);
            }
        }
    }

    fn ask_http2(&mut self, asked: &Asked) {
        self.http2.get(self.next_stream, asked.target).unwrap();
        self.next_stream += 2;
        let data = self.http2.read_until(frames::DATA).unwrap().unwrap();
        assert_eq!(
            (data.payload.len(), data.flags & frames::END_STREAM),
            (asked.bytes, frames::END_STREAM)
        );
        // What is taken is given back in large pieces, as clients do.
        if self.next_stream.is_multiple_of(101) {
            self.http2
                .send(frames::WINDOW_UPDATE, 0, 0, &20_000u32.to_be_bytes())
                .unwrap();
        }
    }
}

fn configuration(secure: &str) -> String {
    let tls = "[site.tls]\ncertificate = \"{dir}/site.pem\"\nkey = \"{dir}/site.key\"\n";
    let mut text = format!(
        "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n\n[[listener]]\naddress = \"{{address}}\"\n\n[[listener]]\naddress = \"{secure}\"\n\
         tls = true\n\n[[upstream]]\nname = \"origin\"\nservers = [\"http+unix:{{dir}}/origin.sock\"]\n\n[[upstream]]\nname = \"program\"\n\
         servers = [\"fcgi+unix:{{dir}}/program.sock\"]\n\n[[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\ncache = true\n{tls}"
    );
    let route = |path, to| format!("\n[[site.route]]\npath = \"{path}\"\nproxy = \"{to}\"\n");
    let routes = route("/proxied", "origin") + &route("/program", "program");
    text += &(route("/kept", "origin") + &routes);
    let refused =
        "\n[[site.route]]\npath = \"/kept\"\nmatch = { method = \"DELETE\" }\ndeny = true\n";
    // The map is that of all sites.
    let (of_site, _) = UNUSED_CONDITIONS.split_once("[map.").unwrap();
    let kept = [refused, &route("/kept", "origin"), of_site].concat();
    let throttle = "[site.throttle]\nout_per_connection = \"1GB/s\"\nout_per_address = \"1GB/s\"\nrequests_static = \"100000/s\"\n";
    for (name, line, table) in [
        ("logged", "access_log = \"{dir}/access.log\"\n", ""),
        ("throttled", "", throttle),
        ("conditions", "", UNUSED_CONDITIONS),
        ("kept-conditions", "cache = true\n", &kept),
        ("plain", "", routes.as_str()),
    ] {
        let _ = write!(
            text,
            "\n[[site]]\nnames = [\"{name}\"]\nroot = \"{{dir}}/www\"\n{line}{tls}{table}"
        );
    }
    text
}

/// Each connection has a thread that answers what it understands as long as there is something.
fn listen(dir: &TempDir, name: &str, answer: fn(&mut UnixStream) -> io::Result<()>) {
    let listener = UnixListener::bind(dir.join(name)).unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || while answer(&mut stream).is_ok() {});
        }
    });
}

/// A page that may be kept if it is the one for that.
fn http_answer(stream: &mut UnixStream) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut part = [0; 4096];
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&part[..count]),
        }
    }
    let keep = if head.starts_with(b"GET /kept ") {
        "public, max-age=3600"
    } else {
        "no-store"
    };
    let page = "y".repeat(PAGE_BYTES);
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: {keep}\r\nContent-Length: {PAGE_BYTES}\r\n\r\n{page}"
    );
    stream.write_all(answer.as_bytes())
}

/// Reads records up to the empty one of standard input (type 5), and says the page in one (6) and
/// that this was all (3).
fn fastcgi_answer(stream: &mut UnixStream) -> io::Result<()> {
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head)?;
        let content = u16::from_be_bytes([head[4], head[5]]);
        stream.read_exact(&mut vec![0; usize::from(content) + usize::from(head[6])])?;
        if head[1] == 5 && content == 0 {
            let page = format!(
                "Content-Type: text/html\r\nCache-Control: no-store\r\n\r\n{}",
                "z".repeat(PAGE_BYTES)
            );
            let record = |kind: u8, content: &[u8]| {
                let [high, low] = (content.len() as u16).to_be_bytes();
                [&[1, kind, head[2], head[3], high, low, 0, 0], content].concat()
            };
            return stream.write_all(
                &[
                    record(6, page.as_bytes()),
                    record(6, &[]),
                    record(3, &[0; 8]),
                ]
                .concat(),
            );
        }
    }
}

/// A line of the table: what was measured, and what it may grow by.
struct Budget {
    system_calls: f64,
    instructions: f64,
    spare_percent: f64,
    /// `None`: not counted, because periodic work allocates, too.
    allocations: Option<f64>,
}

impl Budget {
    fn calls_at_most(&self) -> f64 {
        self.system_calls + SPARE_CALLS
    }

    fn instructions_at_most(&self) -> f64 {
        self.instructions * (1.0 + self.spare_percent / 100.0)
    }
}

fn budget(name: &str) -> Budget {
    let line = BUDGETS
        .lines()
        .find(|line| line.split_ascii_whitespace().next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("budgets.txt has no line for {name}"));
    let figure = |column| {
        line.split_ascii_whitespace()
            .nth(column)
            .and_then(|word| word.parse::<f64>().ok())
    };
    let [Some(system_calls), Some(instructions), Some(spare_percent)] =
        [figure(1), figure(2), figure(3)]
    else {
        panic!("what is `{line}`?")
    };
    Budget {
        system_calls,
        instructions,
        spare_percent,
        allocations: figure(4),
    }
}

/// `range` says of a budget what may be spent: at least, as measured, and at most.
fn are_within(spent: &[(&str, f64)], what: &str, range: fn(&Budget) -> [f64; 3]) {
    let mut wrong = String::new();
    for (name, each) in spent {
        let [least, measured, most] = range(&budget(name));
        eprintln!("{name:<12} {each:>10.2} {what}; in budgets.txt {measured}");
        if *each > most {
            let _ = writeln!(
                wrong,
                "{name}: {each:.2} {what} for a request, which may take {most:.2}"
            );
        } else if *each < least {
            let _ = writeln!(
                wrong,
                "{name}: {each:.2} {what} for a request, far less than {measured}: lower its budget in budgets.txt"
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn system_calls() {
    let _alone = crate::alone();
    let mut site = Site::start(|dir, text| operate::native(text).start(dir));
    let mut spent = Vec::new();
    for asked in &ASKED {
        spent.push((
            asked.name,
            fewest(budget(asked.name).calls_at_most(), || {
                calls_for_a_request(&mut site, asked)
            }),
        ));
    }
    are_within(&spent, "system calls", |budget| {
        [
            budget.system_calls - SPARE_CALLS,
            budget.system_calls,
            budget.calls_at_most(),
        ]
    });
}

/// On a busy machine what a client writes arrives in more pieces, each with calls of its own, and
/// what the server does by time (batches of log lines, looks at its tables) falls to fewer
/// requests: a count that is too high is taken again.
fn fewest(most: f64, mut count: impl FnMut() -> f64) -> f64 {
    let mut fewest = count();
    for _ in 1..TRIES {
        if fewest > most {
            fewest = fewest.min(count());
        }
    }
    fewest
}

fn calls_for_a_request(site: &mut Site, asked: &Asked) -> f64 {
    (0..BEFORE).for_each(|_| site.ask(asked));
    // Away from the server's own folders, where a new file would be news.
    let work = TempDir::new("strace").unwrap();
    let counting =
        SystemCalls::attach_to_threads(&site.saker.server, "worker-", work.as_ref()).unwrap();
    (0..COUNTED).for_each(|_| site.ask(asked));
    let calls = counting.finish().unwrap();
    let made = calls
        .iter()
        .filter(|(name, _)| !WAITS.contains(&name.as_str()))
        .map(|(_, calls)| calls.made)
        .sum::<u64>();
    made as f64 / COUNTED as f64
}

#[test]
#[cfg_attr(
    not(debug_assertions),
    ignore = "the budgets are of builds with debug assertions"
)]
fn instructions() {
    let _alone = crate::alone();
    let callgrind = Callgrind::new();
    let mut site = Site::start(|dir, text| callgrind.of(operate::native(text)).start(dir));
    callgrind.begin(&site.saker);
    let (mut spent, mut allocated) = (Vec::new(), Vec::new());
    for asked in &ASKED {
        let mut allocations = f64::INFINITY;
        spent.push((
            asked.name,
            fewest(budget(asked.name).instructions_at_most(), || {
                let counts = counts_for_a_request(&mut site, asked, &callgrind);
                allocations = allocations.min(counts.1);
                counts.0
            }),
        ));
        if budget(asked.name).allocations.is_some() {
            allocated.push((asked.name, allocations));
        }
    }
    are_within(&allocated, "allocations", |budget| {
        let allocations = budget.allocations.unwrap_or(0.0);
        [
            allocations - SPARE_ALLOCATIONS,
            allocations,
            allocations + SPARE_ALLOCATIONS,
        ]
    });
    are_within(&spent, "instructions", |budget| {
        [
            budget.instructions * WORTH_GUARDING,
            budget.instructions,
            budget.instructions_at_most(),
        ]
    });
}

/// Instructions and allocations.
fn counts_for_a_request(site: &mut Site, asked: &Asked, callgrind: &Callgrind) -> (f64, f64) {
    (0..BEFORE).for_each(|_| site.ask(asked));
    let saker = Rc::clone(&site.saker);
    let counts = callgrind.of_process(&saker, || (0..COUNTED).for_each(|_| site.ask(asked)));
    let of_one = |count: u64| count as f64 / COUNTED as f64;
    (of_one(counts.instructions), of_one(counts.allocations))
}
