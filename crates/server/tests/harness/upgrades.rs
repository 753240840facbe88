//! A site behind which servers of the test's own sit, one per connection and thread, and an HTTP/2
//! client that can open tunnels.
// Each test program uses its part; a test that fails may say so as it likes.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use crate::operate;
use saker_http2::{Connection, ErrorCode, Event, HeadStore, Indexing, Limits, StreamId};
use saker_testkit::{
    Client, PATIENCE, ServerProcess, TempDir, apache2::load_modules, free_port, wait_for,
};
use sha1::{Digest, Sha1};
use std::{
    collections::HashMap,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

const MODULES: &[&str] = &[
    "mpm_event",
    "authz_core",
    "http2",
    "log_config",
    "logio",
    "rewrite",
    "setenvif",
    "mime",
    "dir",
];

/// Saker with Apache's configuration in front of something.
pub struct Front {
    pub process: ServerProcess,
    pub dir: TempDir,
    pub address: SocketAddr,
}

impl Front {
    /// `conf` stands in the server; `{dir}` is filled in.
    pub fn start(name: &str, conf: &str) -> Front {
        Front::start_in(TempDir::new(name).unwrap(), name, conf)
    }

    pub fn start_in(dir: TempDir, name: &str, conf: &str) -> Front {
        dir.write("www/page.txt", "page\n").unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        let text = format!(
            "ServerRoot {{dir}}\nServerName {name}.test\nListen {address}\nDocumentRoot {{dir}}/www\nPidFile {{dir}}/pid\n\
             ErrorLog {{dir}}/error.log\nProtocols h2c http/1.1\nLogFormat \"%r %>s %I %O %X\" tunnels\nCustomLog {{dir}}/access.log tunnels\n{}{conf}\n",
            load_modules(MODULES)
        );
        let process = operate::apache(&text).at(address).start_in(&dir);
        Front {
            process,
            dir,
            address,
        }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address).unwrap()
    }

    /// Waits for that many lines of the access log, and returns them.
    pub fn log(&self, lines: usize) -> Vec<String> {
        wait_for(&format!("{lines} lines in the access log"), || {
            let text = std::fs::read_to_string(self.dir.join("access.log")).unwrap_or_default();
            (text.lines().count() >= lines).then(|| text.lines().map(str::to_owned).collect())
        })
    }
}

/// Runs `serve` for each connection, in a thread of its own.
pub fn backend(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, serve) = (listener.local_addr().unwrap(), Arc::new(serve));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            stream
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            stream.set_nodelay(true).unwrap();
            let serve = Arc::clone(&serve);
            thread::Builder::new()
                .stack_size(128 << 10)
                .spawn(move || serve(stream))
                .unwrap();
        }
    });
    address
}

/// A request's head, and nothing behind it.
pub fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return None,
        }
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

pub fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| {
        line.split_once(": ")
            .filter(|(have, _)| have.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    })
}

/// RFC 6455 section 4.2.2.
pub fn accept(key: &str) -> String {
    let proof = Sha1::digest(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
    String::from_utf8(saker_ap_expr::base64_encode(&proof)).unwrap()
}

pub fn switching(head: &str) -> String {
    let accept = accept(field(head, "sec-websocket-key").unwrap_or_default());
    let protocol = field(head, "upgrade").unwrap_or("nothing");
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: {protocol}\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
    )
}

/// Sends back what comes, and ends when that ends.
pub fn echo(stream: &mut TcpStream) {
    let mut piece = [0; 16 << 10];
    while let Ok(bytes @ 1..) = stream.read(&mut piece) {
        if stream.write_all(&piece[..bytes]).is_err() {
            return;
        }
    }
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

/// Asks for a WebSocket over HTTP/1.1.
pub const WEBSOCKET: &[(&str, &str)] = &[
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

/// An HTTP/2 client, blocking, by prior knowledge.
pub struct Http2 {
    socket: TcpStream,
    pub machine: Connection,
    head: HeadStore,
    input: Vec<u8>,
    pub streams: HashMap<StreamId, Heard>,
}

/// Received part of a stream.
#[derive(Default)]
pub struct Heard {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub data: Vec<u8>,
    pub trailers: Vec<(String, String)>,
    pub has_ended: bool,
    pub reset: Option<ErrorCode>,
}

impl Heard {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|line| line.0 == name)
            .map(|line| line.1.as_str())
    }
}

impl Http2 {
    pub fn connect(address: SocketAddr) -> Http2 {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        let machine = Connection::client(Limits::default());
        let mut client = Http2 {
            socket,
            machine,
            head: HeadStore::default(),
            input: Vec::new(),
            streams: HashMap::new(),
        };
        let mut out = Vec::new();
        client.machine.begin(&mut out);
        client.socket.write_all(&out).unwrap();
        client
    }

    /// Waits for the server's SETTINGS.
    pub fn greeted(mut self) -> Http2 {
        while self.machine.peer_header_list_bytes_max().is_none() {
            self.read();
        }
        self
    }

    pub fn open(&mut self, fields: &[(&str, &str)], end: bool) -> StreamId {
        let mut out = Vec::new();
        let id = self.machine.open(end, &mut out, |head| {
            for (name, value) in fields {
                match name.starts_with(':') {
                    true => head.pseudo(name.as_bytes(), value.as_bytes()),
                    false => head.field(name.as_bytes(), value.as_bytes(), Indexing::Without),
                }
            }
        });
        self.socket.write_all(&out).unwrap();
        let id = id.unwrap();
        self.streams.insert(id, Heard::default());
        id
    }

    /// RFC 8441 section 4.
    pub fn connect_to(&mut self, path: &str, protocol: &str) -> StreamId {
        let pseudo = [
            (":method", "CONNECT"),
            (":protocol", protocol),
            (":scheme", "http"),
            (":authority", "localhost"),
            (":path", path),
        ];
        self.open(
            &[&pseudo[..], &[("sec-websocket-version", "13")]].concat(),
            false,
        )
    }

    pub fn send(&mut self, id: StreamId, mut bytes: &[u8], end: bool) {
        while !bytes.is_empty() || end {
            let mut out = Vec::new();
            let sent = self.machine.begin_data(id, bytes.len(), end, &mut out);
            out.extend_from_slice(&bytes[..sent]);
            self.socket.write_all(&out).unwrap();
            bytes = &bytes[sent..];
            if bytes.is_empty() {
                return;
            }
            if sent == 0 {
                self.read();
            }
        }
    }

    pub fn reset(&mut self, id: StreamId) {
        let mut out = Vec::new();
        self.machine.send_reset(id, ErrorCode::Cancel, &mut out);
        self.socket.write_all(&out).unwrap();
    }

    /// The longest time without anything from the server.
    pub fn waiting_at_most(self, patience: Duration) -> Http2 {
        self.socket.set_read_timeout(Some(patience)).unwrap();
        self
    }

    /// Reads on until `done` says so.
    pub fn until(&mut self, id: StreamId, mut done: impl FnMut(&Heard) -> bool) -> &Heard {
        while !done(&self.streams[&id]) {
            self.read();
        }
        &self.streams[&id]
    }

    fn read(&mut self) {
        let mut piece = [0; 32 << 10];
        let bytes = self
            .socket
            .read(&mut piece)
            .expect("something comes in time");
        assert!(bytes > 0, "the connection has ended");
        self.input.extend_from_slice(&piece[..bytes]);
        let (mut used, mut out) = (0, Vec::new());
        loop {
            let (taken, event) = self
                .machine
                .receive(&self.input[used..], 0, &mut self.head, &mut out)
                .unwrap();
            used += taken;
            let Some(event) = event else { break };
            let lines = || -> Vec<(String, String)> {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                self.head
                    .view()
                    .fields()
                    .map(|(name, value)| (text(name), text(value)))
                    .collect()
            };
            match event {
                Event::Head { stream, end_stream } => {
                    let heard = self.streams.get_mut(&stream).unwrap();
                    (heard.status, heard.fields, heard.has_ended) =
                        (self.head.status().0, lines(), end_stream);
                }
                Event::Data {
                    stream,
                    data,
                    flow_bytes,
                    end_stream,
                } => {
                    let heard = self.streams.get_mut(&stream).unwrap();
                    heard.data.extend_from_slice(data);
                    heard.has_ended |= end_stream;
                    self.machine.release(stream, flow_bytes, &mut out);
                }
                Event::Trailers { stream } => {
                    let heard = self.streams.get_mut(&stream).unwrap();
                    (heard.trailers, heard.has_ended) = (lines(), true);
                }
                Event::Reset { stream, code } => {
                    self.streams.get_mut(&stream).unwrap().reset = Some(code)
                }
                _ => {}
            }
        }
        self.input.drain(..used);
        self.socket.write_all(&out).unwrap();
    }
}
