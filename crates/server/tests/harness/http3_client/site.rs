//! A site over HTTP/3, and a server behind it that says what it was asked.

use crate::{
    operate::{folder, start_in},
    tls_site,
};
use saker_testkit::{Saker, TempDir, keep_waiting};
use sha1::{Digest, Sha1};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

/// One TLS listener that speaks HTTP/3, too; `more` stands before it, `site` in `[[site]]`, and
/// below it.
pub fn configuration(more: &str, site: &str) -> String {
    tls_site::configuration("", "")
        .replace("[[listener]]", &format!("{more}\n\n[[listener]]"))
        .replace("\n[site.tls]", &format!("{site}\n[site.tls]"))
}

pub fn start(name: &str, more: &str, site: &str) -> Saker {
    start_with(folder(name), more, site)
}

pub fn start_with(dir: TempDir, more: &str, site: &str) -> Saker {
    tls_site::certificate(&dir, "site", "localhost");
    start_in(dir, &configuration(more, site))
}

/// Answers each request with its own first line, fields, and the length and sum of its content;
/// `/echo` gives the content back, `/slow` reads it after a second, `/trailers` ends with some,
/// `/hints` begins with some, `/endless` does not end, `/half` breaks off.
pub fn backend() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || while serve(&stream).is_some() {});
        }
    });
    address
}

/// Agrees to every WebSocket, and gives back what it hears.
pub fn websockets() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).unwrap();
                let key = head.lines().find_map(|line| {
                    line.to_ascii_lowercase()
                        .starts_with("sec-websocket-key:")
                        .then(|| line[18..].trim())
                });
                let proof = Sha1::digest(format!(
                    "{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11",
                    key.unwrap()
                ));
                let proof = saker_ap_expr::base64_encode(&proof);
                let proof = String::from_utf8_lossy(&proof);
                let switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ";
                write!(stream, "{switching}{proof}\r\n\r\n").unwrap();
                let _ = std::io::copy(&mut stream.try_clone().unwrap(), &mut stream);
                let _ = stream.shutdown(Shutdown::Write);
            });
        }
    });
    address
}

fn serve(stream: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    loop {
        let start = head.len();
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
        if &head[start..] == "\r\n" {
            break;
        }
    }
    let path = head
        .split(' ')
        .nth(1)?
        .trim_start_matches("/app")
        .to_owned();
    if path == "/slow" {
        keep_waiting(stream, Duration::from_secs(1)).ok()?;
    }
    let content = content(&head, &mut reader)?;
    let mut writer = stream;
    match path.as_str() {
        "/echo" => {
            write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len()).ok()?;
            writer.write_all(&content).ok()
        }
        "/trailers" => writer
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 7\r\n\r\n")
            .ok(),
        "/hints" => {
            let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
            write!(writer, "{hints}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody").ok()
        }
        "/half" => {
            writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf").ok()?;
            None
        }
        "/endless" => {
            write!(writer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").ok()?;
            loop {
                write!(writer, "4\r\nmore\r\n").ok()?;
                keep_waiting(stream, Duration::from_millis(20)).ok()?;
            }
        }
        _ => {
            let sum: u64 = content.iter().map(|byte| u64::from(*byte)).sum();
            let answer = format!("{head}{} {sum}", content.len());
            write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len()).ok()
        }
    }
}

fn content(head: &str, reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let head = head.to_ascii_lowercase();
    if let Some((_, rest)) = head.split_once("content-length: ") {
        let mut content = vec![0; rest.split("\r\n").next()?.parse().ok()?];
        reader.read_exact(&mut content).ok()?;
        return Some(content);
    }
    let mut content = Vec::new();
    if head.contains("transfer-encoding: chunked") {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let bytes = usize::from_str_radix(line.trim(), 16).ok()?;
            let start = content.len();
            content.resize(start + bytes, 0);
            reader.read_exact(&mut content[start..]).ok()?;
            reader.read_line(&mut line).ok()?;
            if bytes == 0 {
                break;
            }
        }
    }
    Some(content)
}
