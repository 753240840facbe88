//! Stop and restart: who is let in while older requests finish, the successor that takes over,
//! systemd's sockets, and Apache's signals.

use crate::operate;
use crate::operate::{
    PATIENCE, SAKER, begin_download, configuration, exit_code, folder, pattern, rest_of_download,
    wait_until,
};
use saker_testkit::{Client, Saker, ServerProcess, Signal, TempDir, free_port, require};
use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

const LARGE: usize = 24 << 20;

/// New connections with one request each, all of which have to be answered right.
struct Knocking {
    end: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

impl Knocking {
    fn start(address: SocketAddr) -> Knocking {
        let (end, answered) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let one = |_| {
            let (end, answered) = (Arc::clone(&end), Arc::clone(&answered));
            thread::spawn(move || {
                while !end.load(Ordering::Relaxed) {
                    let status = knock(address)?;
                    if status != 200 {
                        return Err(format!("status {status}"));
                    }
                    answered.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })
        };
        Knocking {
            threads: (0..4).map(one).collect(),
            end,
            answered,
        }
    }

    fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Waits for some more answers.
    fn goes_on(&self, while_what: &str) {
        let before = self.answered();
        wait_until(while_what, || {
            self.answered() > before + 20 || self.threads.iter().any(JoinHandle::is_finished)
        });
    }

    fn finish(self) -> Result<u64, String> {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok(self.answered.load(Ordering::Relaxed))
    }
}

fn knock(address: SocketAddr) -> Result<u16, String> {
    let mut client = Client::connect(address).map_err(|error| format!("connecting: {error}"))?;
    client
        .set_timeout(PATIENCE)
        .map_err(|error| error.to_string())?;
    client
        .get("/")
        .map(|response| response.status)
        .map_err(|error| format!("asking: {error}"))
}

fn with_download(name: &str, server: &str, site: &str) -> Saker {
    let dir = folder(name);
    dir.write("www/large.bin", pattern(LARGE)).expect("written");
    operate::start_in(dir, &configuration(server, site))
}

fn successor(saker: &Saker) -> ServerProcess {
    operate::native("")
        .existing_file("saker.toml")
        .at(saker.server.address())
        .start_in(&saker.dir)
}

#[test]
fn a_successor_takes_over_from_a_server_that_waits_for_a_download() {
    let mut saker = with_download(
        "stop-successor",
        "workers = 2\nshutdown_timeout = \"2m\"",
        "cache = true",
    );
    let address = saker.server.address();
    let (mut slow, begun) = begin_download(&saker, "/large.bin", 100_000);
    let knocking = Knocking::start(address);
    let refused = Command::new(SAKER)
        .args(["run", "-c"])
        .arg(saker.dir.join("saker.toml"))
        .output()
        .expect("runs");
    assert!(
        !refused.status.success(),
        "a server that is not stopping has no successor"
    );
    saker.server.signal(Signal::TERM).expect("sent");
    saker
        .server
        .wait_for_stderr("SK0103", PATIENCE)
        .expect("it stops");
    knocking.goes_on("connections are let in while the download goes on");
    let second = successor(&saker);
    second
        .wait_for_stderr("SK0115", PATIENCE)
        .expect("it took over");
    knocking.goes_on("beside the successor");
    let requests = |server: &ServerProcess| {
        let status = operate::ask(&saker.dir.join("state"), "status").expect("a status");
        assert_eq!(
            status["pid"],
            server.pid(),
            "the state directory is the successor's"
        );
        status["counters"]["connections_accepted_total"]
            .as_u64()
            .unwrap_or(0)
    };
    wait_until("the successor answers alone", || {
        let before = requests(&second);
        knocking.goes_on("beside or without the first server");
        requests(&second) > before + 10
    });
    let answered = knocking
        .finish()
        .unwrap_or_else(|why| panic!("{why}\n{}\n{}", saker.server.stderr(), second.stderr()));
    assert!(
        rest_of_download(&mut slow, begun, LARGE) == pattern(LARGE),
        "the download is not whole"
    );
    assert_eq!(
        exit_code(&mut saker.server),
        Some(0),
        "{}",
        saker.server.stderr()
    );
    assert!(answered > 60);
    // What only one server can have comes with its end.
    wait_until("the page cache is open", || {
        operate::ask(&saker.dir.join("state"), "status")
            .is_some_and(|status| status["page_cache"].is_array())
    });
    assert_eq!(knock(address), Ok(200));
    assert!(second.stop().expect("stopped").success());
    assert!(
        !saker.dir.join("state/saker.pid").exists()
            && !saker.dir.join("state/control.sock").exists()
    );
}

#[test]
fn without_a_successor_it_ends_with_the_download() {
    let mut saker = with_download("stop-alone", "workers = 2", "");
    let (mut slow, begun) = begin_download(&saker, "/large.bin", 100_000);
    saker.server.signal(Signal::TERM).expect("sent");
    saker
        .server
        .wait_for_stderr("SK0103", PATIENCE)
        .expect("it stops");
    // A connection that came late is one like any other, until nothing is waited for any more.
    let mut late = saker.connect().expect("let in");
    assert_eq!(late.get("/").expect("answered").status, 200);
    let kept = late.get("/").expect("answered");
    assert_eq!((kept.status, kept.field("connection")), (200, None));
    assert!(
        rest_of_download(&mut slow, begun, LARGE) == pattern(LARGE),
        "the download is not whole"
    );
    assert!(late.closed_within(PATIENCE));
    assert_eq!(exit_code(&mut saker.server), Some(0));
    assert!(TcpStream::connect(saker.server.address()).is_err());
}

/// GOAWAY comes at once, the stream ends whole.
#[test]
fn a_download_over_http2_finishes() {
    let mut saker = with_download("stop-http2", "workers = 1", "");
    let output = saker.dir.join("got.bin");
    let mut curl = Command::new(require("curl").expect("curl"))
        .args([
            "-sS",
            "--http2-prior-knowledge",
            "--limit-rate",
            "12M",
            "-o",
        ])
        .arg(&output)
        .arg(format!("http://{}/large.bin", saker.server.address()))
        .stderr(Stdio::inherit())
        .spawn()
        .expect("runs");
    wait_until("it has begun", || {
        output.metadata().is_ok_and(|found| found.len() > 0)
    });
    saker.server.signal(Signal::TERM).expect("sent");
    assert!(curl.wait().expect("waited").success());
    assert!(
        std::fs::read(&output).expect("read") == pattern(LARGE),
        "the download is not whole"
    );
    assert_eq!(exit_code(&mut saker.server), Some(0));
}

#[test]
fn restarts_on_systemds_socket_answer_everybody() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
    let address = listener.local_addr().expect("an address");
    let dir = folder("stop-activated");
    // A socket that outlives servers, as systemd keeps it.
    let activated = operate::native(&configuration("workers = 2", ""))
        .activated(&listener)
        .at(address);
    let mut server = activated.start_in(&dir);
    let knocking = Knocking::start(address);
    for round in 0..5 {
        knocking.goes_on(&format!("before restart {round}"));
        server.signal(Signal::TERM).expect("sent");
        assert_eq!(exit_code(&mut server), Some(0));
        // Queued until a server accepts it.
        let waiting = thread::spawn(move || knock(address));
        server = activated.start_in(&dir);
        assert_eq!(waiting.join().expect("joined"), Ok(200));
    }
    let answered = knocking
        .finish()
        .unwrap_or_else(|why| panic!("{why}\n{}", server.stderr()));
    assert!(answered > 100, "{answered}");
    assert!(server.stop().expect("stopped").success());
}

fn apache(dir: &TempDir, port: u16) -> ServerProcess {
    let root = dir.display();
    let text = format!(
        "LoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule authz_core_module modules/mod_authz_core.so\nLoadModule dir_module modules/mod_dir.so\n\
         Listen 127.0.0.1:{port}\nPidFile {root}/httpd.pid\nDocumentRoot {root}/www\nDirectoryIndex index.html\nGracefulShutdownTimeout 120\n\
         <Directory {root}/www>\nRequire all granted\n</Directory>\n"
    );
    let server = operate::apache(&text)
        .workers(2)
        .at(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .start_in(dir);
    wait_until("its process id is in the file", || {
        std::fs::read_to_string(dir.join("httpd.pid"))
            .is_ok_and(|text| text.trim() == server.pid().to_string())
    });
    server
}

fn begin(address: SocketAddr) -> (Client, Vec<u8>) {
    let mut client = Client::connect(address).expect("connected");
    client
        .send("GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .expect("sent");
    let begun = client.read_bytes(100_000).expect("the beginning");
    (client, begun)
}

/// USR1 cuts nothing; WINCH closes the listeners and the PidFile goes, so that another server can
/// start while downloads finish; TERM cuts.
#[test]
fn signals_of_apache() {
    let dir = folder("stop-apache");
    dir.write("www/large.bin", pattern(LARGE)).expect("written");
    let port = free_port().expect("a port");
    let mut first = apache(&dir, port);
    let pid_file = dir.join("httpd.pid");
    let (mut slow, begun) = begin(first.address());
    first.signal(Signal::USR1).expect("sent");
    first
        .wait_for_stderr("SK0201", PATIENCE)
        .expect("it reloads");
    assert_eq!(knock(first.address()), Ok(200));
    first.signal(Signal::WINCH).expect("sent");
    wait_until("the listeners are closed", || {
        TcpStream::connect(first.address()).is_err()
    });
    wait_until("the PidFile is gone", || !Path::new(&pid_file).exists());
    let mut second = apache(&dir, port);
    assert_eq!(knock(second.address()), Ok(200));
    assert!(
        rest_of_download(&mut slow, begun, LARGE) == pattern(LARGE),
        "the download is not whole"
    );
    assert_eq!(exit_code(&mut first), Some(0));
    assert_eq!(
        std::fs::read_to_string(&pid_file).expect("the successor's"),
        format!("{}\n", second.pid())
    );
    let (slow, _) = begin(second.address());
    second.signal(Signal::TERM).expect("sent");
    assert_eq!(exit_code(&mut second), Some(0), "it does not wait");
    assert!(!pid_file.exists());
    drop(slow);
}

/// A script that runs when the server is stopped ends as it would have; the successor's PHP is
/// another one, and stays when the first one's goes.
#[test]
fn scripts_finish_while_a_successor_starts_its_own_php() {
    let dir = folder("stop-php");
    dir.write("www/slow.php", "<?php $until = microtime(true) + 4; while (microtime(true) < $until) usleep(10000); echo 'whole';")
        .expect("written");
    dir.write("www/pid.php", "<?php echo getmypid();")
        .expect("written");
    if rustix::process::geteuid().is_root() {
        assert!(
            Command::new("chmod")
                .arg("-R")
                .arg("a+rX")
                .arg(&*dir)
                .status()
                .expect("runs")
                .success()
        );
    }
    let mut saker = operate::start_in(dir, &configuration("workers = 1", "php = \"auto\""));
    let ask = |client: &mut Client, target: &str| {
        client
            .get(target)
            .map(|response| (response.status, response.text()))
    };
    let pid = ask(&mut saker.connect().expect("connected"), "/pid.php").expect("answered");
    let address = saker.server.address();
    let slow = thread::spawn(move || {
        let mut client = Client::connect(address).expect("connected");
        client.set_timeout(PATIENCE).expect("set");
        client
            .get("/slow.php")
            .map(|response| (response.status, response.text()))
    });
    wait_until("the script runs", || {
        let status = operate::ask(&saker.dir.join("state"), "status").expect("a status");
        // Connections are no sign: earlier ones are counted, too.
        status["counters"]["requests_open"].as_u64() >= Some(1)
    });
    saker.server.signal(Signal::TERM).expect("sent");
    saker
        .server
        .wait_for_stderr("SK0103", PATIENCE)
        .expect("it stops");
    let second = successor(&saker);
    assert_eq!(
        slow.join().expect("joined").expect("answered"),
        (200, "whole".to_owned()),
        "{}",
        saker.server.stderr()
    );
    assert_eq!(exit_code(&mut saker.server), Some(0));
    let after = ask(
        &mut Client::connect(address).expect("connected"),
        "/pid.php",
    )
    .expect("answered");
    assert!(
        pid.0 == 200 && after.0 == 200 && pid.1 != after.1,
        "{pid:?} {after:?}\n{}",
        second.stderr()
    );
    assert!(second.stop().expect("stopped").success());
}
