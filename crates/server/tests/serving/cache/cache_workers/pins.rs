//! Connections of which each worker has some: HTTP/1.1 and HTTP/2, kept open.
//!
//! Which worker has a connection: the epoll instance that waits for its socket, by `/proc`. Each
//! worker has one of its own.

use saker_testkit::{Client, ServerProcess, frames};
use std::{
    collections::HashSet,
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(60);
/// The kernel spreads connections by chance.
const ATTEMPTS: usize = 2_000;

/// One worker's.
pub struct Pin {
    pub http1: Client,
    pub http2: Http2,
}

/// Content of a response, and its status where it was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub text: String,
}

impl Pin {
    /// One for each worker.
    pub fn all(server: &ServerProcess, workers: usize) -> Vec<Pin> {
        let http1 = each(server, workers, |stream| {
            let mut client = Client::over_tcp(stream).unwrap();
            client.set_timeout(PATIENCE).unwrap();
            client.get("/no-store/pin").unwrap();
            client
        });
        let http2 = each(server, workers, |stream| {
            let mut http2 = Http2::over(stream);
            http2.ask("GET", "/no-store/pin", &[]);
            http2
        });
        http1
            .into_iter()
            .zip(http2)
            .map(|(http1, http2)| Pin { http1, http2 })
            .collect()
    }

    pub fn ask(
        &mut self,
        is_http2: bool,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
    ) -> Answer {
        if is_http2 && let Some(answer) = self.http2.ask(method, target, fields) {
            return answer;
        }
        let length = (!matches!(method, "GET" | "HEAD")).then_some(("Content-Length", "0"));
        let fields: Vec<(&str, &str)> = fields.iter().copied().chain(length).collect();
        let response = self.http1.request(method, target, &fields).unwrap();
        Answer {
            status: response.status,
            text: response.text(),
        }
    }
}

/// A connection to each worker, in use.
fn each<T>(
    server: &ServerProcess,
    workers: usize,
    mut begin: impl FnMut(TcpStream) -> T,
) -> Vec<T> {
    let mut known = HashSet::new();
    let mut connections = Vec::new();
    for _ in 0..ATTEMPTS {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let port = stream.local_addr().unwrap().port();
        let connection = begin(stream);
        if known.insert(epoll_of(server, port)) {
            connections.push(connection);
        }
        if connections.len() == workers {
            return connections;
        }
    }
    panic!(
        "{ATTEMPTS} connections went to {} of {workers} workers",
        connections.len()
    );
}

/// The descriptor of the epoll instance that waits for the server's end of a connection.
fn epoll_of(server: &ServerProcess, client_port: u16) -> u32 {
    let inode = inode(server.address().port(), client_port);
    let process = Path::new("/proc").join(server.pid().to_string());
    let socket = format!("socket:[{inode}]");
    let descriptors = || fs::read_dir(process.join("fd")).unwrap().flatten();
    let number = |entry: fs::DirEntry| {
        entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
    };
    let is = |entry: &fs::DirEntry, what: &str| {
        fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == what)
    };
    let wanted = descriptors()
        .find(|entry| is(entry, &socket))
        .and_then(number)
        .expect("the server has the connection");
    let waits = |epoll: &u32| {
        let text =
            fs::read_to_string(process.join("fdinfo").join(epoll.to_string())).unwrap_or_default();
        text.lines().any(|line| {
            line.strip_prefix("tfd:")
                .and_then(|rest| rest.split_whitespace().next())
                == Some(&wanted.to_string())
        })
    };
    let epolls = descriptors()
        .filter(|entry| is(entry, "anon_inode:[eventpoll]"))
        .filter_map(number);
    epolls
        .into_iter()
        .find(waits)
        .expect("a worker waits for the connection")
}

fn inode(server_port: u16, client_port: u16) -> u64 {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let (from, to) = (format!(":{server_port:04X}"), format!(":{client_port:04X}"));
    let find = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.get(1)?.ends_with(&from) && words.get(2)?.ends_with(&to))
            .then(|| words.get(9)?.parse().ok())
            .flatten()
    };
    table
        .lines()
        .find_map(find)
        .expect("the connection is in the kernel's table")
}

/// One request after the other.
pub struct Http2 {
    stream: TcpStream,
    next: u32,
    /// The server has ended it in order (RFC 9113 section 6.8): what it has not taken is asked over
    /// HTTP/1.1.
    is_over: bool,
}

impl Http2 {
    fn over(mut stream: TcpStream) -> Http2 {
        stream.write_all(frames::PREFACE).unwrap();
        // Large windows, so that no answer waits for us.
        let settings = [&[0, 4][..], &(1u32 << 30).to_be_bytes()].concat();
        stream
            .write_all(&frames::frame(frames::SETTINGS, 0, 0, &settings))
            .unwrap();
        stream
            .write_all(&frames::frame(
                frames::WINDOW_UPDATE,
                0,
                0,
                &(1u32 << 30).to_be_bytes(),
            ))
            .unwrap();
        Http2 {
            stream,
            next: 1,
            is_over: false,
        }
    }

    fn ask(&mut self, method: &str, target: &str, fields: &[(&str, &str)]) -> Option<Answer> {
        if self.is_over {
            return None;
        }
        let stream = self.next;
        self.next += 2;
        let names: Vec<String> = fields
            .iter()
            .map(|(name, _)| name.to_ascii_lowercase())
            .collect();
        let mut all = vec![
            (":method", method),
            (":scheme", "http"),
            (":authority", "localhost"),
            (":path", target),
        ];
        all.extend(
            names
                .iter()
                .zip(fields)
                .map(|(name, (_, value))| (name.as_str(), *value)),
        );
        let head = frames::frame(
            frames::HEADERS,
            frames::END_HEADERS | frames::END_STREAM,
            stream,
            &frames::block(&all),
        );
        self.stream.write_all(&head).unwrap();
        let (mut status, mut content) = (0, Vec::new());
        loop {
            let (kind, flags, of, payload) = self.read();
            match kind {
                frames::SETTINGS if flags & frames::ACK == 0 => {
                    self.stream
                        .write_all(&frames::frame(frames::SETTINGS, frames::ACK, 0, &[]))
                        .unwrap();
                }
                frames::HEADERS if of == stream => status = status_of(&payload),
                frames::DATA if of == stream => content.extend_from_slice(&payload),
                // No error, and the last stream is one before ours.
                frames::GOAWAY
                    if payload[4..8] == [0; 4]
                        && u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]])
                            < stream =>
                {
                    self.is_over = true;
                    return None;
                }
                frames::RST_STREAM | frames::GOAWAY => {
                    panic!("{method} {target}: frame {kind} {payload:?}")
                }
                _ => {}
            }
            if of == stream
                && matches!(kind, frames::HEADERS | frames::DATA)
                && flags & frames::END_STREAM != 0
            {
                return Some(Answer {
                    status,
                    text: String::from_utf8_lossy(&content).into_owned(),
                });
            }
        }
    }

    fn read(&mut self) -> (u8, u8, u32, Vec<u8>) {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.stream.read_exact(&mut payload).unwrap();
        (
            head[3],
            head[4],
            u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload,
        )
    }
}

/// Status in a field block, if its first field is in the static table (RFC 7541 appendix A); else
/// 0.
fn status_of(block: &[u8]) -> u16 {
    // A change of the table's size may come first.
    let at = block.iter().position(|byte| byte >> 5 != 1).unwrap_or(0);
    match block[at] {
        byte @ 0x88..=0x8e => [200, 204, 206, 304, 400, 404, 500][usize::from(byte - 0x88)],
        _ => 0,
    }
}
