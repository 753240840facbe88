//! Upgrades of a running server under load, over HTTP/1.1, HTTP/2, and HTTP/3: nothing is refused
//! or cut off, the page cache goes on, and a successor that fails changes nothing.
//!
//! Caveat: a keep-alive connection that the old server closes while it is idle is opened again, as
//! every client does (RFC 9112 section 9.3.1); a connection with a request on it must not be.

use crate::{
    http3_client::{self, site},
    operate::{
        self, PATIENCE, SAKER, begin_download, folder, pattern, rest_of_download, wait_until,
    },
    origin, tls_site,
};
use saker_testkit::{Client, Saker, Signal, require};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

pub const LARGE: usize = 24 << 20;

/// Upgrades in a row; `SAKER_UPGRADES` asks for more.
fn upgrades() -> usize {
    let asked = std::env::var("SAKER_UPGRADES");
    asked.ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

/// State directory of a server whose successors are no children of the test: stopped at the end.
pub struct State(pub PathBuf);

impl State {
    pub fn of(saker: &Saker) -> State {
        State(saker.dir.join("state"))
    }

    pub fn status(&self) -> Value {
        operate::ask(&self.0, "status").expect("a status")
    }

    pub fn pid(&self) -> u64 {
        self.status()["pid"].as_u64().expect("a number")
    }

    pub fn upgrade(&self, more: &[&str]) -> Output {
        let folder = self.0.to_string_lossy().into_owned();
        let words = ["upgrade", "--state-dir", &folder];
        operate::saker(words.iter().chain(more))
    }
}

impl Drop for State {
    fn drop(&mut self) {
        operate::stop_at_once(&self.0);
    }
}

pub fn text(output: &Output) -> String {
    format!("{}{}", operate::stdout(output), operate::stderr(output))
}

/// Requests without an end, each of which has to be answered right.
pub struct Load {
    end: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

impl Load {
    pub fn start(clients: Vec<Box<dyn FnMut() -> Result<(), String> + Send>>) -> Load {
        let (end, answered) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let threads = clients.into_iter().map(|mut client| {
            let (end, answered) = (Arc::clone(&end), Arc::clone(&answered));
            thread::spawn(move || {
                while !end.load(Ordering::Relaxed) {
                    client()?;
                    answered.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })
        });
        Load {
            threads: threads.collect(),
            end,
            answered,
        }
    }

    pub fn goes_on(&self) {
        let before = self.answered.load(Ordering::Relaxed);
        wait_until("requests are answered", || {
            self.answered.load(Ordering::Relaxed) > before + 20
                || self.threads.iter().any(JoinHandle::is_finished)
        });
    }

    /// Waits for as many answers as that, for as long as there are some.
    pub fn comes_to(&self, requests: u64) {
        while self.answered.load(Ordering::Relaxed) < requests
            && !self.threads.iter().any(JoinHandle::is_finished)
        {
            self.goes_on();
        }
    }

    pub fn finish(self) -> Result<u64, String> {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| "a client panicked")??;
        }
        Ok(self.answered.load(Ordering::Relaxed))
    }
}

/// A connection per request.
pub fn knocking(address: SocketAddr) -> Box<dyn FnMut() -> Result<(), String> + Send> {
    Box::new(move || {
        let mut client = Client::connect(address).map_err(|error| format!("connect: {error}"))?;
        client
            .set_timeout(PATIENCE)
            .map_err(|error| error.to_string())?;
        match client.get("/") {
            Ok(response) if response.status == 200 => Ok(()),
            other => Err(format!("HTTP/1.1: {other:?}")),
        }
    })
}

/// One connection for as many requests as it takes.
pub fn keeping(address: SocketAddr) -> Box<dyn FnMut() -> Result<(), String> + Send> {
    let mut open: Option<Client> = None;
    Box::new(move || {
        for is_new in [open.is_none(), true] {
            let client = match &mut open {
                Some(client) => client,
                none => none
                    .insert(Client::connect(address).map_err(|error| format!("connect: {error}"))?),
            };
            match client.get("/") {
                Ok(response) if response.status == 200 => {
                    if response.field("connection") == Some("close") {
                        open = None;
                    }
                    return Ok(());
                }
                other if is_new => return Err(format!("keep-alive: {other:?}")),
                // It was closed while it was idle.
                _ => open = None,
            }
        }
        Err("no connection".into())
    })
}

/// RFC 9114 section 8.1: the server has not looked at the request.
pub const REQUEST_REJECTED: Option<u64> = Some(0x010b);

/// An HTTP/3 connection per request. Where the server says that it has not seen a request, or ends
/// the connection before it has (GOAWAY, H3_NO_ERROR), it is made again (RFC 9114 section 5.2).
pub fn over_http3(
    client: http3_client::Client,
    address: SocketAddr,
) -> Box<dyn FnMut() -> Result<(), String> + Send> {
    Box::new(move || {
        for _ in 0..3 {
            let mut connection = client.connect(&address.to_string());
            if connection.is_gone() {
                continue;
            }
            let stream = connection.open("GET", "/", &[], true);
            connection.settle(stream);
            if connection.is_gone() {
                continue;
            }
            let response = connection.response(stream);
            connection.close();
            return match response.status {
                200 => Ok(()),
                0 if response.reset == REQUEST_REJECTED => continue,
                status => Err(format!("HTTP/3: {status}, reset {:?}", response.reset)),
            };
        }
        Err("HTTP/3: three connections were closed".into())
    })
}

fn upgrades_under_load(workers: &str) {
    let dir = folder(&format!("upgrade-{workers}"));
    dir.write("www/large.bin", pattern(LARGE)).expect("written");
    tls_site::certificate(&dir, "site", "localhost");
    // A second listener without TLS.
    let plain = SocketAddr::from(([127, 0, 0, 1], saker_testkit::free_port().expect("a port")));
    let more = format!(
        "[server]\nworkers = {workers}\nstate_dir = \"{{dir}}/state\"\nshutdown_timeout = \"1m\"\n[[listener]]\naddress = \"{plain}\"\n"
    );
    let configuration = site::configuration("", "");
    let configuration = match configuration.split_once("[[listener]]") {
        Some((_, rest)) => format!("{more}\n[[listener]]{rest}"),
        None => panic!("{configuration}"),
    };
    let mut saker = operate::start_in(dir, &configuration);
    let state = State::of(&saker);
    let secure = saker.server.address();
    let client = http3_client::Client::who_shows(&saker.dir, "site");
    let mut lasting = client.connect(&secure.to_string());
    assert_eq!(lasting.get("/").status, 200);
    let output = saker.dir.join("got.bin");
    let mut download = Command::new(require("curl").expect("curl"))
        .args(["-sSk", "--http2", "--limit-rate", "8M", "-o"])
        .arg(&output)
        .arg(format!("https://{secure}/large.bin"))
        .stderr(Stdio::inherit())
        .spawn()
        .expect("runs");
    wait_until("the download has begun", || {
        output.metadata().is_ok_and(|found| found.len() > 0)
    });
    let load = Load::start(vec![
        knocking(plain),
        keeping(plain),
        over_http3(client.clone(), secure),
        over_http3(client.clone(), secure),
    ]);
    load.goes_on();
    let mut pids = vec![state.pid()];
    for number in 0..upgrades() {
        let upgraded = state.upgrade(&[]);
        assert!(
            upgraded.status.success(),
            "upgrade {number}: {}\n{}",
            text(&upgraded),
            saker.server.stderr()
        );
        pids.push(state.pid());
        if number == 0 {
            // Packets of earlier connections still reach the server that has handed over: it answers,
            // or says that it has not looked at the request. The new one knows no such connection.
            let stream = lasting.open("GET", "/", &[], true);
            lasting.settle(stream);
            if !lasting.is_gone() {
                let response = lasting.response(stream);
                assert!(
                    response.status == 200 || response.reset == REQUEST_REJECTED,
                    "{response:?}"
                );
            }
            lasting.close();
        }
        load.goes_on();
    }
    let answered = load
        .finish()
        .unwrap_or_else(|why| panic!("{why}\n{}", saker.server.stderr()));
    assert!(download.wait().expect("waited").success());
    assert!(
        fs::read(&output).expect("read") == pattern(LARGE),
        "the download is not whole"
    );
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), upgrades() + 1, "a process each: {pids:?}");
    println!("{answered} requests in {} upgrades", upgrades());
    assert!(answered > 100, "{answered} requests");
    assert_eq!(operate::exit_code(&mut saker.server), Some(0));
    wait_until("the last one but one has ended", || {
        state.status()["finishing_pid"].is_null()
    });
    let stopped = operate::saker(["stop", "--state-dir", &state.0.to_string_lossy()]);
    assert!(stopped.status.success(), "{}", text(&stopped));
    assert!(!state.0.join("saker.pid").exists() && !state.0.join("control.sock").exists());
}

#[test]
fn nothing_is_lost_in_upgrades_under_load() {
    let _turn = saker_testkit::heavy();
    upgrades_under_load("2");
}

/// Each worker has a socket of its own, or several, or shares one.
#[test]
fn the_number_of_workers_may_change() {
    let saker = operate::start(
        "upgrade-workers",
        &operate::configuration("workers = 3", ""),
    );
    let state = State::of(&saker);
    let address = saker.server.address();
    for workers in [1, 4, 2] {
        operate::rewrite(
            &saker,
            &operate::configuration(&format!("workers = {workers}"), ""),
        );
        let load = Load::start((0..4).map(|_| knocking(address)).collect());
        let upgraded = state.upgrade(&[]);
        assert!(upgraded.status.success(), "{}", text(&upgraded));
        // Both servers have the control socket for a moment.
        wait_until("the new one answers", || {
            state.status()["workers"] == workers
        });
        load.goes_on();
        wait_until("it is alone", || state.status()["finishing_pid"].is_null());
        load.goes_on();
        load.finish()
            .unwrap_or_else(|why| panic!("{workers}: {why}"));
    }
}

/// A stream's datagrams find one server or the other: both have the same sockets.
#[test]
fn datagrams_of_streams_are_answered_all_along() {
    let port = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let at = port.expect("a free port");
    for workers in [1, 3] {
        let configuration = |text: &str| {
            format!(
                "worker_processes {workers};\nevents {{}}\n\
                 http {{ server {{ listen {{address}}; return 200 ok; }} }}\n\
                 stream {{ server {{ listen {at} udp; return {text}; }} }}\n"
            )
        };
        let saker = Saker::nginx(SAKER, &configuration("first"))
            .start(folder(&format!("upgrade-datagrams-{workers}")));
        let state = State::of(&saker);
        let ask = move || {
            // Connected: what comes late for the port's last owner is not an answer.
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            socket.connect(at).expect("connected");
            socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            socket.send(b"?").expect("sent");
            let mut answer = [0; 16];
            let bytes = socket.recv(&mut answer).expect("an answer");
            String::from_utf8_lossy(&answer[..bytes]).into_owned()
        };
        assert_eq!(ask(), "first");
        let next =
            configuration("second").replace("{address}", &saker.server.address().to_string());
        saker.dir.write("nginx.conf", next).expect("written");
        let load = Load::start(
            (0..4)
                .map(|_| -> Box<dyn FnMut() -> Result<(), String> + Send> {
                    Box::new(move || {
                        let answer = ask();
                        match answer.as_str() {
                            "first" | "second" => Ok(()),
                            _ => Err(answer),
                        }
                    })
                })
                .collect(),
        );
        for _ in 0..2 {
            let upgraded = state.upgrade(&[]);
            assert!(upgraded.status.success(), "{}", text(&upgraded));
            load.goes_on();
            wait_until("it is alone", || state.status()["finishing_pid"].is_null());
            load.goes_on();
            assert_eq!(ask(), "second");
        }
        load.finish()
            .unwrap_or_else(|why| panic!("{workers}: {why}"));
    }
}

/// A server whose pages are kept, and say how often their origin was asked.
struct Cached {
    state: State,
    origin: origin::Origin,
}

impl Cached {
    fn start(name: &str) -> Cached {
        let origin = origin::Origin::start(name, "", |asked| {
            origin::ok(
                &[("Cache-Control", "public, max-age=600")],
                &format!("answer {}", asked.count),
            )
        });
        let state = State::of(&origin.saker);
        Cached { state, origin }
    }

    fn get(&self, target: &str) -> String {
        let mut client = self.origin.saker.connect().expect("connected");
        client.get(target).expect("answered").text()
    }

    fn purge(&self, target: &str) {
        let url = format!("http://localhost{target}");
        let folder = self.state.0.to_string_lossy();
        let purged = operate::saker(["purge", "--state-dir", &*folder, &url]);
        assert!(purged.status.success(), "{}", text(&purged));
    }
}

#[test]
fn cached_pages_are_hits_and_purges_hold() {
    let cached = Cached::start("upgrade-cache");
    let state = &cached.state;
    let get = |target: &str| cached.get(target);
    let purge = |target: &str| cached.purge(target);
    assert_eq!(
        (get("/a"), get("/b")),
        ("answer 1".into(), "answer 1".into())
    );
    assert_eq!(get("/a"), "answer 1");
    purge("/b");
    for round in 0..3 {
        let upgraded = state.upgrade(&[]);
        assert!(upgraded.status.success(), "{}", text(&upgraded));
        assert_eq!(
            get("/a"),
            "answer 1",
            "round {round}: a hit from the first request on"
        );
    }
    assert_eq!(get("/b"), "answer 2", "it was purged before the upgrades");
    purge("/a");
    assert_eq!(get("/a"), "answer 2", "the cache is the new server's");
}

/// Whatever goes wrong, the running server has everything as before.
#[test]
fn a_successor_that_fails_changes_nothing() {
    let configuration = operate::configuration("workers = 2", "cache = true");
    let saker = operate::start("upgrade-fails", &configuration);
    let state = State::of(&saker);
    let pid = state.pid();
    let load = Load::start(vec![
        knocking(saker.server.address()),
        keeping(saker.server.address()),
    ]);
    let is_as_before = |what: &str| {
        load.goes_on();
        let status = state.status();
        assert_eq!(status["pid"], pid, "{what}");
        wait_until("the page cache is open again", || {
            state.status()["page_cache"].is_array()
        });
    };
    operate::rewrite(&saker, "nonsense = 1");
    let refused = state.upgrade(&[]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(text(&refused).contains("nonsense"), "{}", text(&refused));
    is_as_before("a configuration with errors");
    operate::rewrite(&saker, &configuration);
    for binary in ["/bin/false", "/nowhere/saker", "/etc/passwd"] {
        let refused = state.upgrade(&[binary]);
        assert!(!refused.status.success(), "{binary}: {}", text(&refused));
        is_as_before(binary);
    }
    for stage in 0..3 {
        break_off_at(&state.0, stage);
        is_as_before(&format!("broken off at {stage}"));
    }
    ended_at_any_moment(&saker, &state);
    let reloaded = operate::reload(&saker);
    assert!(reloaded.status.success(), "{}", text(&reloaded));
    load.finish()
        .unwrap_or_else(|why| panic!("{why}\n{}", saker.server.stderr()));
    assert!(saker.server.stderr().contains("SK0117"));
}

/// Between the release of the page cache and the word of the successor, pages are hits, purges hold,
/// and both are as before if the successor ends.
#[test]
fn pages_are_hits_while_a_successor_opens_the_cache() {
    let cached = Cached::start("upgrade-window");
    let state = &cached.state;
    let get = |target: &str| cached.get(target);
    let purge = |target: &str| cached.purge(target);
    for target in ["/a", "/b"] {
        assert_eq!(get(target), "answer 1");
    }
    at_stage(&state.0, 2, || {
        assert_eq!(
            (get("/a"), get("/b")),
            ("answer 1".into(), "answer 1".into())
        );
        purge("/b");
        assert_eq!(get("/b"), "answer 2");
        assert_eq!(get("/b"), "answer 3", "nothing is stored");
        assert_eq!(get("/a"), "answer 1");
    });
    wait_until("the page cache is open again", || {
        state.status()["page_cache"].is_array()
    });
    wait_until("pages are hits again", || get("/a") == "answer 1");
    assert_ne!(get("/b"), "answer 1", "the purge holds");
    assert_eq!(get("/a"), "answer 1");
}

/// A successor that says this much, and then ends.
pub fn break_off_at(state_dir: &Path, stage: usize) {
    at_stage(state_dir, stage, || ());
}

/// A successor that says this much, and ends after the rest.
pub fn at_stage(state_dir: &Path, stage: usize, rest: impl FnOnce()) {
    let stream = UnixStream::connect(state_dir.join("control.sock")).expect("connected");
    (&stream)
        .write_all(b"{\"verb\":\"upgrade\"}\n")
        .expect("sent");
    let mut lines = BufReader::new(&stream);
    let mut line = String::new();
    lines.read_line(&mut line).expect("an offer");
    let offer: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(offer["ok"], true, "{line}");
    if stage > 0 {
        (&stream).write_all(b"ready\n").expect("sent");
    }
    if stage > 1 {
        // Bytes that came with descriptors stand before it.
        line.clear();
        lines.read_line(&mut line).expect("an answer");
        assert!(line.ends_with("released\n"), "{line:?}");
    }
    rest();
}

/// Real successors, each killed a little further on its way than the one before: while they read
/// the configuration, bind, start workers.
fn ended_at_any_moment(saker: &Saker, state: &State) {
    let before = state.pid();
    for attempt in 0..10_u32 {
        let mut child = Command::new(SAKER)
            .args(["run", "-c"])
            .arg(saker.dir.join("saker.toml"))
            .env("SAKER_UPGRADE", "take over")
            .stderr(Stdio::null())
            .spawn()
            .expect("runs");
        // By its own progress rather than by time: system calls that it has made so far.
        let reads = |pid: u32| {
            let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("syscr: "));
            line.and_then(|count| count.parse::<u32>().ok())
                .unwrap_or(0)
        };
        let enough = 2 + attempt * 2;
        wait_until("it has come so far, or serves", || {
            reads(child.id()) >= enough || is_over(child.id())
        });
        child.kill().expect("killed");
        child.wait().expect("waited");
        assert_eq!(state.pid(), before, "attempt {attempt}");
    }
}

fn is_over(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}/exe")).exists()
}

/// systemd's socket goes from server to server; its own copy stays.
#[test]
fn sockets_of_systemd_are_handed_on() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
    let address = listener.local_addr().expect("an address");
    let dir = folder("upgrade-activated");
    let activated = operate::native(&operate::configuration("workers = 2", ""))
        .activated(&listener)
        .at(address);
    let mut server = activated.start_in(&dir);
    let state = State(dir.join("state"));
    let load = Load::start(vec![knocking(address), keeping(address), knocking(address)]);
    for number in 0..3 {
        let upgraded = state.upgrade(&[]);
        assert!(
            upgraded.status.success(),
            "{number}: {}\n{}",
            text(&upgraded),
            server.stderr()
        );
        load.goes_on();
    }
    load.finish()
        .unwrap_or_else(|why| panic!("{why}\n{}", server.stderr()));
    assert_eq!(operate::exit_code(&mut server), Some(0));
}

/// By Apache's name and command line, in the background: a graceful restart is a reload, and an
/// upgrade where the program file is another one by then.
#[test]
fn a_graceful_restart_of_apache_upgrades_a_replaced_program() {
    let dir = folder("upgrade-apache");
    let (root, port) = (
        dir.display().to_string(),
        saker_testkit::free_port().expect("a port"),
    );
    let program = dir.copy_program(SAKER, "httpd").expect("copied");
    let text = format!(
        "LoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule authz_core_module modules/mod_authz_core.so\nLoadModule dir_module modules/mod_dir.so\n\
         Listen 127.0.0.1:{port}\nPidFile {root}/httpd.pid\nErrorLog {root}/error.log\nDocumentRoot {root}/www\nDirectoryIndex index.html\n\
         <Directory {root}/www>\nRequire all granted\n</Directory>\n"
    );
    dir.write("httpd.conf", text).expect("written");
    let apachectl = |verb: &str| {
        let output = Command::new("timeout")
            .arg("60")
            .arg(&program)
            .args(["-f", &format!("{root}/httpd.conf"), "-k", verb])
            .output()
            .expect("runs");
        assert!(
            output.status.success(),
            "{verb}: {}",
            text_of(&output, &root)
        );
        self::text(&output)
    };
    apachectl("start");
    let state = State(dir.join("saker"));
    let pid = || fs::read_to_string(dir.join("httpd.pid")).expect("a PidFile");
    let (first, load) = (
        pid(),
        Load::start(vec![knocking(SocketAddr::from(([127, 0, 0, 1], port)))]),
    );
    apachectl("graceful");
    wait_until("it reloads", || state.status()["generation"] == 2);
    assert_eq!(pid(), first);
    let new = dir.copy_program(SAKER, "new").expect("copied");
    fs::rename(new, &program).expect("renamed");
    let said = apachectl("graceful");
    assert!(said.contains("handed over"), "{said}");
    wait_until("its number is in the file", || pid() != first);
    assert_eq!(pid().trim(), state.pid().to_string());
    load.goes_on();
    load.finish().unwrap_or_else(|why| panic!("{why}"));
    wait_until("it is alone", || state.status()["finishing_pid"].is_null());
    apachectl("stop");
    assert!(!dir.join("httpd.pid").exists());
}

fn text_of(output: &Output, root: &str) -> String {
    let log = fs::read_to_string(format!("{root}/error.log")).unwrap_or_default();
    format!("{}\n{log}", text(output))
}

/// A WebSocket's stand-in: a response that goes on for a while in the old server.
#[test]
fn a_download_goes_on_in_the_old_server() {
    let dir = folder("upgrade-download");
    dir.write("www/large.bin", pattern(LARGE)).expect("written");
    let mut saker = operate::start_in(dir, &operate::configuration("workers = 1", ""));
    let state = State::of(&saker);
    let (mut slow, begun) = begin_download(&saker, "/large.bin", 100_000);
    let before = state.pid();
    let upgraded = state.upgrade(&[]);
    assert!(upgraded.status.success(), "{}", text(&upgraded));
    assert_eq!(state.status()["finishing_pid"], before);
    assert!(
        rest_of_download(&mut slow, begun, LARGE) == pattern(LARGE),
        "the download is not whole"
    );
    assert_eq!(operate::exit_code(&mut saker.server), Some(0));
    wait_until("it has ended", || state.status()["finishing_pid"].is_null());
    assert!(saker.connect().expect("connected").get("/").is_ok());
    // Signals of the old server's number are not the new one's.
    assert!(saker.server.signal(Signal::TERM).is_err() || state.pid() != before);
}
