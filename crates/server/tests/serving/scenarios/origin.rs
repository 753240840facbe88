//! The server behind in a scenario: fixed responses by path, over a Unix socket and a port.
//!
//! Called by: the runner of scenarios. Caveat: `{method}`, `{target}`, `{body}`, `{server}` (`socket`
//! or `port`), `{request}` (its number on the connection), `{proxy}` (the line of the PROXY protocol),
//! and `{NAME}` of a request field in a body are replaced; an unknown path is 404. Out of scope: faults, which the tests of `gateway` make.

use super::file::Reply;
use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
};

const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
const UNAVAILABLE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";

/// A request as the upstream has it.
struct Received {
    method: String,
    target: String,
    body: String,
}

/// State of both of its addresses.
struct Shared {
    replies: BTreeMap<String, Reply>,
    received: Mutex<Vec<Received>>,
    /// Folder of the scenario, in which files of replies are.
    folder: PathBuf,
}

#[derive(Default)]
pub struct Origin {
    shared: Option<Arc<Shared>>,
    /// The port, if there is anything to answer.
    pub port: u16,
}

impl Origin {
    /// Listens on `origin.sock`, if there is anything to answer.
    pub fn listen(dir: &Path, replies: &BTreeMap<String, Reply>) -> Origin {
        let mut origin = Origin::default();
        if replies.is_empty() {
            return origin;
        }
        let shared = Arc::new(Shared {
            replies: replies.clone(),
            received: Mutex::default(),
            folder: dir.to_owned(),
        });
        let listener = UnixListener::bind(dir.join("origin.sock")).unwrap();
        answer("socket", move || Some(listener.accept().ok()?.0), &shared);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        origin.port = listener.local_addr().unwrap().port();
        answer("port", move || Some(listener.accept().ok()?.0), &shared);
        origin.shared = Some(shared);
        origin
    }

    /// Requests for a target so far.
    pub fn asked(&self, target: &str) -> usize {
        self.count(|received| received.target == target)
    }

    /// A request has come that is `METHOD target body`, without the space where there is no body.
    pub fn has_received(&self, request: &str) -> bool {
        let is_it = |received: &Received| {
            let line = format!("{} {} {}", received.method, received.target, received.body);
            line.trim_end() == request
        };
        self.count(is_it) > 0
    }

    fn count(&self, holds: impl Fn(&Received) -> bool) -> usize {
        let Some(shared) = &self.shared else { return 0 };
        let received = shared.received.lock().unwrap();
        received.iter().filter(|one| holds(one)).count()
    }
}

fn answer<S: Read + Write + Send + 'static>(
    server: &'static str,
    accept: impl Fn() -> Option<S> + Send + 'static,
    shared: &Arc<Shared>,
) {
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        while let Some(mut stream) = accept() {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let mut number = 1;
                while serve(&mut stream, server, number, &shared).is_some() {
                    number += 1;
                }
            });
        }
    });
}

/// Answers a request, the nth of its connection.
fn serve(
    stream: &mut (impl Read + Write),
    server: &str,
    number: usize,
    shared: &Shared,
) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.lines().peekable();
    let proxy = lines
        .next_if(|line| line.starts_with("PROXY "))
        .unwrap_or_default();
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let fields: BTreeMap<String, &str> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect();
    let length = fields
        .get("content-length")
        .and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    let body = String::from_utf8_lossy(&body).into_owned();
    shared.received.lock().unwrap().push(Received {
        method: method.to_owned(),
        target: target.to_owned(),
        body: body.clone(),
    });
    let path = target.split('?').next().unwrap_or_default();
    let read = |name: &String| fs::read_to_string(shared.folder.join(name)).ok();
    let Some(reply) = shared.replies.get(path) else {
        return stream.write_all(NOT_FOUND).ok();
    };
    let text = reply.file.as_ref().map_or(Some(reply.body.clone()), read);
    let Some(mut text) = text else {
        return stream.write_all(UNAVAILABLE).ok();
    };
    if reply.is_silent {
        // Until the server has enough of it.
        let _ = stream.read(&mut [0]);
        return None;
    }
    for (name, value) in [
        ("method", method),
        ("target", target),
        ("body", &body),
        ("server", server),
        ("proxy", proxy),
        ("request", &number.to_string()),
    ] {
        text = text.replace(&format!("{{{name}}}"), value);
    }
    for (name, value) in &fields {
        text = text.replace(&format!("{{{name}}}"), value);
    }
    let is_same = reply.fields.iter().any(|(name, value)| {
        name == "etag"
            && fields
                .get("if-none-match")
                .is_some_and(|known| known == value)
    });
    let (status, text) = if is_same {
        (304, String::new())
    } else {
        (reply.status, text)
    };
    let mut answer = head_of(reply, status, server, text.len());
    if method != "HEAD" {
        answer.push_str(&text);
    }
    stream.write_all(answer.as_bytes()).ok()
}

fn head_of(reply: &Reply, status: u16, server: &str, length: usize) -> String {
    let mut answer = format!("HTTP/1.1 {status} Reply\r\n");
    for (name, value) in &reply.fields {
        let value = value.replace("{server}", server);
        answer.push_str(&format!("{name}: {value}\r\n"));
    }
    if status != 304 && status != 204 {
        answer.push_str(&format!("Content-Length: {length}\r\n"));
    }
    answer + "\r\n"
}
