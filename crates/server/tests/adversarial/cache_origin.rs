//! A server behind the page cache that answers as a test says, before native and Apache's
//! configuration.
//!
//! Called by: the modules about the page cache. Out of scope: origins that misbehave.

use crate::{
    harness::{self, ApacheSite},
    http3_client, tls_site,
};
use saker_testkit::{Saker, TempDir, free_port};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// A request head as it came, with the names of fields in lower case.
#[derive(Clone, Debug)]
pub struct Head {
    pub method: String,
    pub target: String,
    pub fields: Vec<(String, String)>,
    /// Length of the content.
    pub content_bytes: usize,
}

impl Head {
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.fields
            .iter()
            .filter(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    pub fn first(&self, name: &str) -> &str {
        self.all(name).first().copied().unwrap_or("-")
    }
}

pub struct Origin {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Head>>>,
}

impl Origin {
    /// Requests for a path so far.
    pub fn count(&self, path: &str) -> usize {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .filter(|head| head.target.split('?').next() == Some(path))
            .count()
    }
}

pub fn ok(fields: &[(&str, &str)], content: &str) -> Vec<u8> {
    answer("200 OK", fields, content.as_bytes())
}

pub fn answer(status: &str, fields: &[(&str, &str)], content: &[u8]) -> Vec<u8> {
    let lines: String = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let head = format!(
        "HTTP/1.1 {status}\r\n{lines}Content-Length: {}\r\n\r\n",
        content.len()
    );
    [head.as_bytes(), content].concat()
}

pub fn origin(answers: impl Fn(&Head) -> Vec<u8> + Send + Sync + 'static) -> Origin {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::<Mutex<Vec<Head>>>::default();
    let (seen, answers) = (Arc::clone(&asked), Arc::new(answers));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (seen, answers) = (Arc::clone(&seen), Arc::clone(&answers));
            thread::spawn(move || serve(stream, &seen, &*answers));
        }
    });
    Origin { address, asked }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<Head>>, answers: &dyn Fn(&Head) -> Vec<u8>) {
    let mut bytes = Vec::new();
    while let Some((head, length)) = read_head(&mut stream, &mut bytes) {
        bytes.drain(..length);
        seen.lock().unwrap().push(head.clone());
        let mut answer = answers(&head);
        if head.method == "HEAD" {
            let end = answer
                .windows(4)
                .position(|four| four == b"\r\n\r\n")
                .map_or(answer.len(), |at| at + 4);
            answer.truncate(end);
        }
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

/// The next request, and its length with its content.
fn read_head(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<(Head, usize)> {
    let until = |stream: &mut TcpStream,
                 bytes: &mut Vec<u8>,
                 is_there: &dyn Fn(&[u8]) -> Option<usize>| loop {
        if let Some(end) = is_there(bytes) {
            return Some(end);
        }
        let mut more = [0; 4096];
        let count = stream.read(&mut more).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&more[..count]);
    };
    let end = until(stream, bytes, &|bytes| {
        bytes.windows(4).position(|four| four == b"\r\n\r\n")
    })? + 4;
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = text.lines();
    let mut words = lines.next()?.split(' ').map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let fields = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
    let mut head = Head {
        method,
        target,
        fields: fields.collect(),
        content_bytes: 0,
    };
    let length: usize = head.first("content-length").parse().unwrap_or(0);
    let is_chunked = head.first("transfer-encoding") == "chunked";
    let whole = match is_chunked {
        true => until(stream, bytes, &|bytes| {
            bytes[end..]
                .windows(5)
                .position(|five| five == b"0\r\n\r\n")
                .map(|at| end + at + 5)
        })?,
        false => until(stream, bytes, &|bytes| {
            (bytes.len() >= end + length).then_some(end + length)
        })?,
    };
    head.content_bytes = whole - end;
    Some((head, whole))
}

/// The page cache before an origin, by one configuration language.
pub enum Cached {
    Native { saker: Saker, plain: SocketAddr },
    Apache(ApacheSite),
}

/// Lines of a native configuration.
#[derive(Default)]
pub struct NativeParts<'p> {
    /// In the listener without TLS.
    pub listener: &'p str,
    /// In the route to the origin.
    pub route: &'p str,
    /// In `[site.cache]`.
    pub cache: &'p str,
    /// In `[site.tls]`.
    pub tls: &'p str,
}

impl Cached {
    /// Native: `cache` stands in `[site.cache]`.
    pub fn native(name: &str, origin: &Origin, cache: &str) -> Cached {
        let parts = NativeParts {
            cache,
            ..NativeParts::default()
        };
        Cached::native_with(crate::operate::folder(name), origin, &parts)
    }

    /// Native, with more of the configuration.
    pub fn native_with(dir: TempDir, origin: &Origin, parts: &NativeParts<'_>) -> Cached {
        let plain = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        let more = format!(
            "[[listener]]\naddress = \"{plain}\"\n{}\n[[upstream]]\nname = \"app\"\nservers = [\"http://{}\"]\n",
            parts.listener, origin.address
        );
        let site = format!(
            "[[site.route]]\npath = \"/*\"\nproxy = \"app\"\npreserve_host = true\n{}\n[site.cache]\nenabled = true\n{}",
            parts.route, parts.cache
        );
        let text = http3_client::site::configuration(&more, &site)
            .replace("[site.tls]\n", &format!("[site.tls]\n{}\n", parts.tls));
        tls_site::certificate(&dir, "site", "localhost");
        Cached::Native {
            saker: crate::operate::start_in(dir, &text),
            plain,
        }
    }

    /// Apache: `lines` stand in the main server and in the host with TLS.
    pub fn apache(dir: TempDir, origin: &Origin, lines: &str) -> Cached {
        Cached::Apache(harness::apache(
            dir,
            &format!(
                "ProxyPreserveHost On\nProxyPass / http://{}/\n{lines}",
                origin.address
            ),
        ))
    }

    pub fn plain(&self) -> SocketAddr {
        match self {
            Cached::Native { plain, .. } => *plain,
            Cached::Apache(site) => site.plain,
        }
    }

    pub fn tls(&self) -> SocketAddr {
        match self {
            Cached::Native { saker, .. } => saker.server.address(),
            Cached::Apache(site) => site.tls,
        }
    }

    pub fn at(&self, protocol: harness::Protocol) -> SocketAddr {
        if protocol == harness::Protocol::Plain {
            self.plain()
        } else {
            self.tls()
        }
    }
}
