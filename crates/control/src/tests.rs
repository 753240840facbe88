//! Tests of the whole socket: a fake server behind the real accept loop, with the real client and
//! hostile ones.

use super::*;
use crate::{client::ClientError, state_dir::tests::Scratch};
use saker_pipeline::LocalFuture;
use serde_json::Value;
use std::{
    cell::{Cell, RefCell},
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    rc::Rc,
    sync::mpsc,
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tokio::sync::Notify;

struct Fake {
    stopped: Rc<Notify>,
    graceful: Cell<Option<bool>>,
    reloads: Cell<u64>,
    inside: Cell<bool>,
    log: RefCell<Vec<&'static str>>,
}

impl Control for Fake {
    fn hand_over(&self) -> Result<Value, String> {
        Err("the server is running".into())
    }

    fn successor_listens(&self, _: bool) {}

    fn origin(&self) -> Value {
        serde_json::json!({ "ok": true, "program": "/usr/bin/saker" })
    }

    fn offer(&self) -> Result<Offer, String> {
        match self.reloads.get() {
            0 => Err("another server is taking over".into()),
            _ => Ok(Offer {
                answer: serde_json::json!({ "ok": true, "pid": 1 }),
                descriptors: (0..20)
                    .map(|_| std::fs::File::open("/dev/null").expect("opened").into())
                    .collect(),
            }),
        }
    }

    fn release(&self) -> bool {
        self.log.borrow_mut().push("released");
        true
    }

    fn upgraded(&self, pid: u32) {
        assert_eq!(pid, std::process::id());
        self.log.borrow_mut().push("upgraded");
        self.stopped.notify_one();
    }

    fn leave<'a>(&'a self, _: &'a [String]) -> LocalFuture<'a, ()> {
        self.log.borrow_mut().push("left");
        Box::pin(std::future::ready(()))
    }

    fn withdraw(&self) -> LocalFuture<'_, ()> {
        self.log.borrow_mut().push("withdrawn");
        Box::pin(std::future::ready(()))
    }

    fn forwarded(&self) -> LocalFuture<'_, Forwarded> {
        Box::pin(std::future::pending())
    }

    fn listeners_closed(&self) -> LocalFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn status(&self) -> StatusReport {
        StatusReport {
            version: "0.1.0".into(),
            pid: 0, // Nobody's: the client falls back to the lock.
            generation: 1 + self.reloads.get(),
            shutdown_timeout_ms: 100,
            counters: vec![("requests_total".into(), 7)],
            ..StatusReport::default()
        }
    }

    fn prometheus(&self) -> String {
        "saker_requests_total 7\n".into()
    }

    fn live(&self, seconds: usize) -> Value {
        serde_json::json!({ "ok": true, "at": vec![0; seconds] })
    }

    fn console_link(&self) -> Result<Value, String> {
        Err("there is no console".into())
    }

    fn reload(&self) -> LocalFuture<'_, Result<ReloadReport, String>> {
        Box::pin(async {
            assert!(!self.inside.replace(true), "two reloads at once");
            // Long enough for another to begin, if nothing kept it from that.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            self.inside.set(false);
            self.reloads.set(self.reloads.get() + 1);
            match self.reloads.get() % 2 {
                1 => Ok(ReloadReport {
                    generation: 1 + self.reloads.get(),
                    ..ReloadReport::default()
                }),
                _ => Err("saker.toml:3:1: error: no such key\n  what = 1\n  ^^^^".into()),
            }
        })
    }

    fn stop(&self, graceful: bool) {
        self.graceful.set(Some(graceful));
        self.stopped.notify_one();
    }

    fn bans(&self, _: &BanVerb) -> Result<serde_json::Value, String> {
        Ok(serde_json::json!({ "ok": true, "count": 0 }))
    }

    fn cluster_status(&self) -> Result<serde_json::Value, String> {
        Err("this server is in no cluster".into())
    }

    fn hosts(&self, _: &HostsVerb) -> Result<serde_json::Value, String> {
        Err("no hosts".into())
    }

    fn cache<'c>(
        &'c self,
        verb: &'c CacheVerb,
    ) -> LocalFuture<'c, Result<serde_json::Value, String>> {
        Box::pin(async move {
            match verb {
                CacheVerb::Stat => Ok(serde_json::json!({ "ok": true, "entries": 3 })),
                _ => Err("no cache".into()),
            }
        })
    }

    fn reopen_logs(&self) -> Result<(), String> {
        self.log.borrow_mut().push("reopened");
        if self.log.borrow().len() > 1 {
            Err("disk full".into())
        } else {
            Ok(())
        }
    }
}

/// A server in a thread, which ends with a `stop`.
struct Server {
    scratch: Scratch,
    thread: Option<JoinHandle<Option<bool>>>,
}

impl Server {
    fn start() -> Server {
        let scratch = Scratch::new();
        let path = scratch.0.clone();
        let (ready, is_ready) = mpsc::channel();
        let thread = std::thread::spawn(move || run(&path, &ready));
        is_ready.recv().unwrap();
        Server {
            scratch,
            thread: Some(thread),
        }
    }

    fn path(&self) -> &Path {
        &self.scratch.0
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.scratch.join(state_dir::SOCKET)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream
    }

    fn ask(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        answer(stream)
    }

    /// The manner in which it was stopped.
    fn join(mut self) -> Option<bool> {
        self.thread.take().unwrap().join().unwrap()
    }
}

fn run(path: &Path, ready: &mpsc::Sender<()>) -> Option<bool> {
    let lock = StateDir::open(path).unwrap().lock().unwrap();
    let listener = lock.bind_control().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let graceful = runtime.block_on(async {
        let stopped = Rc::new(Notify::new());
        let (graceful, reloads, inside, log) = Default::default();
        let fake = Rc::new(Fake { stopped: Rc::clone(&stopped), graceful, reloads, inside, log });
        let listener = tokio::net::UnixListener::from_std(listener).unwrap();
        ready.send(()).unwrap();
        tokio::select! {
            () = serve(listener, Rc::new(std::cell::RefCell::new(Peers::new(&[]).unwrap())), Rc::clone(&fake) as Rc<dyn Control>) => {}
            () = stopped.notified() => {}
        }
        fake.graceful.get()
    });
    drop(lock);
    graceful
}

fn answer(mut stream: UnixStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn client_and_server() {
    let server = Server::start();
    let status = client::status(server.path()).unwrap();
    assert_eq!(status["counters"]["requests_total"], 7);
    assert_eq!(status["last_reload"], serde_json::Value::Null);
    assert_eq!(
        client::metrics(server.path()).unwrap(),
        "saker_requests_total 7\n"
    );
    assert_eq!(client::reload(server.path()).unwrap()["generation"], 2);
    let refused = client::reload(server.path()).unwrap_err();
    assert!(
        matches!(&refused, ClientError::Configuration(text) if text.lines().count() == 3),
        "{refused}"
    );
    client::reopen_logs(server.path()).unwrap();
    assert!(
        matches!(client::reopen_logs(server.path()), Err(ClientError::Refused(text)) if text == "disk full")
    );
    client::stop(server.path(), true).unwrap();
    assert!(matches!(
        client::status(server.path()),
        Err(ClientError::NotRunning(_))
    ));
    assert_eq!(server.join(), Some(true));
}

#[test]
fn stop_now() {
    let server = Server::start();
    client::stop(server.path(), false).unwrap();
    assert_eq!(server.join(), Some(false));
}

#[test]
fn stop_waits_until_the_process_is_gone_and_not_for_ever() {
    let server = Server::start();
    // The lock of another "server" in a directory whose socket leads to this one.
    let stubborn = Scratch::new();
    let _lock = StateDir::open(&stubborn.0).unwrap().lock().unwrap();
    std::os::unix::fs::symlink(
        server.scratch.join(state_dir::SOCKET),
        stubborn.join(state_dir::SOCKET),
    )
    .unwrap();
    let asked = Instant::now();
    let error = client::stop(&stubborn.0, false).unwrap_err();
    assert!(matches!(error, ClientError::StillRunning { .. }), "{error}");
    assert!(asked.elapsed() >= Duration::from_secs(5));
    server.join();
}

#[test]
fn nobody_home() {
    let scratch = Scratch::new();
    drop(std::os::unix::net::UnixListener::bind(scratch.join(state_dir::SOCKET)).unwrap());
    assert!(matches!(
        client::status(&scratch.0),
        Err(ClientError::NotRunning(_))
    ));
    assert!(matches!(
        client::status(&scratch.join("missing")),
        Err(ClientError::NotRunning(_))
    ));
}

#[test]
fn scraping() {
    let server = Server::start();
    let metrics = server.ask(b"GET /metrics HTTP/1.1\r\nHost: saker\r\nAccept: */*\r\n\r\n");
    let (head, body) = metrics.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("text/plain; version=0.0.4"),
        "{head}"
    );
    assert!(
        head.contains(&format!("Content-Length: {}\r\n", body.len())),
        "{head}"
    );
    assert_eq!(body, "saker_requests_total 7\n");
    let status = server.ask(b"GET /status HTTP/1.0\n\n");
    assert!(
        status.ends_with("}\n") && status.contains("\"ok\":true"),
        "{status}"
    );
    let head = server.ask(b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(
        head.ends_with("\r\n\r\n") && head.contains("Content-Length: 23"),
        "{head}"
    );
    assert!(
        server
            .ask(b"GET / HTTP/1.1\r\n\r\n")
            .starts_with("HTTP/1.1 404 ")
    );
    assert!(
        server
            .ask(b"POST /metrics HTTP/1.1\r\n\r\n")
            .starts_with("HTTP/1.1 405 ")
    );
    client::stop(server.path(), true).unwrap();
}

#[test]
fn garbage_is_answered() {
    let server = Server::start();
    let mut huge = vec![b'x'; protocol::REQUEST_BYTES_MAX + 1000];
    huge.push(b'\n');
    let mut long_head = b"GET /metrics HTTP/1.1\r\n".to_vec();
    long_head.resize(protocol::REQUEST_BYTES_MAX + 1, b'h');
    let hostile: &[&[u8]] = &[
        b"\n",
        b"\0\0\0\n",
        b"\xff\xfe\n",
        b"{\n",
        b"{\"verb\":\"explode\"}\n",
        b"null\n",
        b"SSH-2.0-x\r\n",
        &huge,
        &long_head,
    ];
    for request in hostile {
        let answer = server.ask(request);
        assert!(
            answer.starts_with("{\"error\":\"") && answer.ends_with("\"ok\":false}\n"),
            "{answer:?}"
        );
    }
    client::stop(server.path(), true).unwrap();
}

#[test]
fn a_request_may_end_with_the_stream() {
    let server = Server::start();
    let mut stream = server.connect();
    stream.write_all(b"{\"verb\":\"stop\"}").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(answer(stream).contains("\"ok\":true"));
    assert_eq!(server.join(), Some(true));
}

#[test]
fn silent_peers_hold_up_nobody_for_long() {
    let server = Server::start();
    // More than connections are taken at a time: the next one waits until they time out.
    let mut silent: Vec<_> = (0..17).map(|_| server.connect()).collect();
    silent[0].write_all(b"{\"verb\":").unwrap();
    let asked = Instant::now();
    client::status(server.path()).unwrap();
    assert!(
        asked.elapsed() > Duration::from_secs(4),
        "{:?}",
        asked.elapsed()
    );
    assert!(answer(silent.swap_remove(0)).contains("no whole request within 5 s"));
    client::stop(server.path(), true).unwrap();
}

#[test]
fn peers_that_go_away_do_no_harm() {
    let server = Server::start();
    for request in [
        &b""[..],
        b"{",
        b"{\"verb\":\"status\"}\n",
        b"{\"verb\":\"reload\"}\n",
    ] {
        let mut stream = server.connect();
        stream.write_all(request).unwrap();
        drop(stream);
    }
    client::status(server.path()).unwrap();
    client::stop(server.path(), true).unwrap();
}

#[test]
fn reloads_wait_for_each_other() {
    let server = Server::start();
    std::thread::scope(|scope| {
        let reloads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| client::reload(server.path()).is_ok()))
            .collect();
        let accepted = reloads
            .into_iter()
            .map(|reload| reload.join().unwrap())
            .filter(|&ok| ok)
            .count();
        assert_eq!(accepted, 2);
    });
    client::stop(server.path(), true).unwrap();
}
