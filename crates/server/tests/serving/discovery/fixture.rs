//! Servers that say their names, an API that a test writes the answers of, and a server of Saker
//! whose upstream is discovered.

use crate::{operate, upgrades::backend};
use saker_testkit::{Saker, wait_until};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixListener,
    path::Path,
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

/// A server that says its name.
pub fn named(name: &'static str) -> SocketAddr {
    backend(move |stream| {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
            if std::mem::take(&mut line) == "\r\n" {
                let length = name.len();
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{name}");
                if reader.get_mut().write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        }
    })
}

/// A configuration with one upstream, `app`, that takes all requests. `discover`: keys of its
/// table.
pub fn configuration(discover: &str) -> String {
    let text = operate::configuration(
        "workers = 1",
        "[[site.route]]\npath = \"/*\"\nproxy = \"app\"\n",
    );
    format!("{text}[[upstream]]\nname = \"app\"\n[upstream.discover]\n{discover}\n")
}

/// Answers to requests, counted; `503` stands for those that no server took.
pub fn counts(saker: &Saker, number: usize) -> BTreeMap<String, usize> {
    let mut client = saker.connect().unwrap();
    let mut counts = BTreeMap::new();
    for _ in 0..number {
        let response = client.get("/").unwrap();
        let name = match response.status {
            200 => response.text(),
            status => {
                client = saker.connect().unwrap();
                status.to_string()
            }
        };
        *counts.entry(name).or_default() += 1;
    }
    counts
}

/// Waits until requests are answered by these alone.
pub fn wait_for_names(saker: &Saker, names: &[&str]) {
    wait_until("the servers are others", || {
        counts(saker, 12).keys().eq(names.iter())
    });
}

/// The state of the source of the upstream, from the status.
pub fn source(saker: &Saker) -> Value {
    let status = operate::ask(&saker.dir.join("state"), "status").unwrap();
    status["upstreams"][0]["discovery"].clone()
}

/// Waits until the source fails. Returns the reason.
pub fn wait_for_error(saker: &Saker) -> String {
    wait_until("the source fails", || source(saker)["error"].is_string());
    source(saker)["error"].as_str().unwrap().to_owned()
}

/// Waits until the source has answered for the first time.
pub fn wait_until_settled(saker: &Saker) {
    wait_until("the source has answered", || {
        source(saker)["age_ms"].is_u64()
    });
}

pub fn wait_for_recovery(saker: &Saker) {
    wait_until("the source answers", || {
        let source = source(saker);
        source["error"].is_null() && source["age_ms"].is_u64()
    });
}

/// State of an API that a test changes; watches wait for changes.
pub struct Shared<T> {
    state: Mutex<T>,
    changed: Condvar,
}

impl<T> Shared<T> {
    pub fn new(state: T) -> Arc<Shared<T>> {
        Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    pub fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    pub fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.state.lock().unwrap())
    }

    /// Waits for a state, for the time at most.
    pub fn wait<R>(&self, time: Duration, mut holds: impl FnMut(&T) -> Option<R>) -> Option<R> {
        let state = self.state.lock().unwrap();
        let mut found = None;
        let waited = self.changed.wait_timeout_while(state, time, |state| {
            found = holds(state);
            found.is_none()
        });
        drop(waited.unwrap());
        found
    }
}

/// A connection of an API.
pub trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A request to an API: its target, and its head.
pub struct Asked {
    pub target: String,
    pub head: String,
}

impl Asked {
    pub fn has(&self, line: &str) -> bool {
        let head = self.head.to_lowercase();
        head.contains(&format!("\r\n{}\r\n", line.to_lowercase()))
    }

    /// A parameter of the query.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let (_, query) = self.target.split_once('?')?;
        let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap());
        let (_, value) = pairs.find(|(own, _)| *own == name)?;
        let bytes = value.as_bytes();
        let (mut decoded, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            if bytes[at] == b'%' {
                decoded.push(u8::from_str_radix(&value[at + 1..at + 3], 16).unwrap());
                at += 3;
            } else {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
        Some(String::from_utf8(decoded).unwrap())
    }
}

/// Starts an API over TCP.
pub fn api(answer: impl Fn(&Asked, &mut dyn Stream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, answer) = (listener.local_addr().unwrap(), Arc::new(answer));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            thread::spawn(move || serve(&mut stream, &*answer));
        }
    });
    address
}

/// Starts an API over a Unix socket.
pub fn unix_api(path: &Path, answer: impl Fn(&Asked, &mut dyn Stream) + Send + Sync + 'static) {
    let (listener, answer) = (UnixListener::bind(path).unwrap(), Arc::new(answer));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            thread::spawn(move || serve(&mut stream, &*answer));
        }
    });
}

fn serve(stream: &mut dyn Stream, answer: &dyn Fn(&Asked, &mut dyn Stream)) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if !stream.read(&mut byte).is_ok_and(|length| length == 1) {
            return;
        }
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.split(' ').nth(1).unwrap().to_owned();
    answer(&Asked { target, head }, stream);
}

/// Writes an answer with a document.
pub fn send(stream: &mut dyn Stream, fields: &str, document: &Value) {
    let text = document.to_string();
    let length = text.len();
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{fields}\r\n{text}");
    let _ = stream.write_all(answer.as_bytes());
}

/// Writes an answer without content.
pub fn refuse(stream: &mut dyn Stream, status: &str) {
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
    let _ = stream.write_all(answer.as_bytes());
}

/// Begins an answer that goes on in chunks.
pub fn begin_stream(stream: &mut dyn Stream) {
    let head =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n";
    let _ = stream.write_all(head.as_bytes());
}

/// Writes a line as two chunks, cut in its middle. Returns false if the connection is gone.
pub fn send_line(stream: &mut dyn Stream, event: &Value) -> bool {
    let line = format!("{event}\n");
    let (one, two) = line.split_at(line.len() / 2);
    let chunk = |part: &str| format!("{:x}\r\n{part}\r\n", part.len());
    let sent = stream.write_all((chunk(one) + &chunk(two)).as_bytes());
    sent.is_ok()
}
