//! `[[stream]]` of saker.toml: databases, TLS by server name, datagrams, PROXY headers, limits, and
//! clients that mean no good.
//!
//! Called by: `cargo test -p saker --test serving streams::`.
//! Caveat: streams listen on ports of their own, beside the listener that tells when a server is up.
//! Out of scope: reloads and upgrades (`operation`), and the engine's other settings, which nginx's
//! `stream` shares (`applications nginx_stream`).

mod access;
mod attacks;
mod preface;
mod proxying;
mod tls;

use crate::operate;
use saker_testkit::{PATIENCE, Saker, TempDir, free_port, wait_until};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    thread,
};

/// A server with streams; `{p}`, `{q}`, and `{r}` are ports.
pub struct Streams {
    pub saker: Saker,
    ports: [u16; 3],
}

impl Streams {
    pub fn start(name: &str, streams: &str) -> Streams {
        Streams::start_in(operate::folder(name), streams)
    }

    pub fn start_in(dir: TempDir, streams: &str) -> Streams {
        let ports = [(); 3].map(|()| free_port().unwrap());
        let text = operate::configuration("workers = 1\nlog_level = \"info\"", "")
            + &with_ports(streams, ports);
        Streams {
            saker: operate::native(&text).start(dir),
            ports,
        }
    }

    pub fn address(&self, number: usize) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[number]))
    }

    /// A connection to the first stream.
    pub fn connect(&self) -> TcpStream {
        connect(self.address(0))
    }

    /// Lines of a log, once there are as many.
    pub fn lines(&self, name: &str, count: usize) -> Vec<String> {
        let path = self.saker.dir.join(name);
        let lines = || fs::read_to_string(&path).unwrap_or_default();
        wait_until("the log has its lines", || lines().lines().count() >= count);
        lines().lines().map(str::to_owned).collect()
    }

    pub fn metric(&self, name: &str) -> u64 {
        let state = self.saker.dir.join("state");
        let output = operate::saker([
            "status",
            "--prometheus",
            "--state-dir",
            &state.to_string_lossy(),
        ]);
        let text = operate::stdout(&output);
        let line = text.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

pub fn with_ports(text: &str, ports: [u16; 3]) -> String {
    let [p, q, r] = ports.map(|port| port.to_string());
    text.replace("{p}", &p)
        .replace("{q}", &q)
        .replace("{r}", &r)
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Everything that comes until the end. A reset counts as an end.
pub fn rest(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => all.extend_from_slice(&buffer[..bytes]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("no end: {error}"),
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// Sends a text to a [`named`] server, and hears its name and the text.
pub fn talk(address: SocketAddr, text: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(text.as_bytes()).unwrap();
    let mut heard = vec![0; 2 + text.len()];
    stream.read_exact(&mut heard).unwrap();
    String::from_utf8(heard).unwrap()
}

/// A server that says its name (one letter) and a line feed, and then what it hears; at the
/// client's end it says `bye`.
pub fn named(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || echo(stream, name));
        }
    });
    address
}

fn echo(mut stream: TcpStream, name: &str) {
    let mut buffer = [0; 65_536];
    if stream.write_all(format!("{name}\n").as_bytes()).is_err() {
        return;
    }
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => {
                let _ = stream.write_all(b"bye\n");
                return;
            }
            Ok(bytes) => {
                if stream.write_all(&buffer[..bytes]).is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// A server over UDP that answers with its name and what it has heard.
pub fn named_udp(name: &'static str) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 65_535];
        while let Ok((bytes, from)) = socket.recv_from(&mut buffer) {
            let answer = [name.as_bytes(), b" ", &buffer[..bytes]].concat();
            let _ = socket.send_to(&answer, from);
        }
    });
    address
}

/// An address without a listener.
pub fn dead() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()))
}

/// A ClientHello that names a server and protocols (each with its length before it).
pub fn hello(name: &[u8], protocols: &[u8], padding: usize) -> Vec<u8> {
    let long = |bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        [&length[..], bytes].concat()
    };
    let extension = |kind: u16, content: &[u8]| [&kind.to_be_bytes()[..], &long(content)].concat();
    let names = long(&[&[0][..], &long(name)].concat());
    let mut extensions = Vec::new();
    if padding > 0 {
        extensions.extend(extension(21, &vec![0; padding]));
    }
    extensions.extend(extension(0, &names));
    extensions.extend(extension(16, &long(protocols)));
    extensions.extend(extension(43, &[2, 3, 4]));
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &long(&[0x13, 1]),
        &[1, 0],
        &long(&extensions),
    ]
    .concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[1][..], &length[1..], &body].concat();
    let records = message.chunks(16_000);
    let record = |part: &[u8]| [&[22, 3, 1][..], &long(part)].concat();
    records.flat_map(record).collect()
}
